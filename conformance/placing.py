"""Keeps drawn positions where a scheme is defined, an implementation claims to be right, and first-order bounds hold."""

from relpos.conformance.plan import Plan
from relpos.conformance.subject import Subject

ROOM = 32  # positions a plan may need beyond its start
MOST_ROWS = 2**18  # of a table of positions, whatever is claimed: they must fit into memory
NEAR = 16  # in half precision, where a bias grows with the position itself


def farthest(subject: Subject) -> int:
    """The last start from which every drawn position is one that the implementation claims."""
    return max(subject.card.max_position - ROOM, 0)


def first_order(subject: Subject, plan: Plan) -> Plan:
    """The plan with positions so near that u·|logit| stays below 0.1.

    m·j at position 2^17 is no logit that bfloat16 can hold, and first order says nothing about it; m·|i − j| does not care.
    """
    grows = subject.card.softmax == "causal" or plan.settings.get("distance") == "key_only"
    if plan.dtype not in ("bfloat16", "float16") or not grows or plan.query_positions is None or plan.key_positions is None:
        return plan
    start = min(flat(plan.query_positions) + flat(plan.key_positions))
    down = start % NEAR - start
    return plan.but(query_positions=moved(plan.query_positions, down), key_positions=moved(plan.key_positions, down))


def within_reach(subject: Subject, plan: Plan) -> Plan:
    """The plan with its distances inside what the scheme is defined for: a longer table, or positions drawn together."""
    settings = subject.cls(**plan.settings)
    if hasattr(settings, "capacity"):
        return _within_table(subject, plan, settings.capacity())
    if hasattr(settings, "farthest"):
        plan = _near(plan, settings.farthest())
    reach = getattr(settings, "reach", lambda: None)()
    if reach is None:
        return plan
    queries = flat(plan.query_positions) or tuple(range(plan.offset, plan.offset + plan.query_length))
    keys = flat(plan.key_positions) or tuple(range(plan.key_length))
    span = max(abs(i - j) for i in queries for j in keys)
    if span <= reach:
        return plan
    if "max_distance" in subject.free:
        return plan.but(settings={**plan.settings, "max_distance": span})
    if plan.query_positions is None:
        most = reach + 1
        return plan.but(query_length=min(plan.query_length, most), key_length=min(plan.key_length, most), offset=0)
    start = min(keys)
    return plan.but(
        query_positions=tuple(start + (i - start) % (reach + 1) for i in queries[: plan.query_length]),
        key_positions=tuple(start + (j - start) % (reach + 1) for j in keys[: plan.key_length]),
    )


def _within_table(subject: Subject, plan: Plan, capacity: int) -> Plan:
    """Positions inside a table of them: a longer one, with room for what a mistake may read, or positions nearer to 0."""
    told = flat(plan.query_positions) + flat(plan.key_positions)
    last = max(told or (plan.offset + plan.query_length - 1, plan.key_length - 1))
    if last < capacity:
        return plan
    if "max_position" in subject.free and last < MOST_ROWS:
        return plan.but(settings={**plan.settings, "max_position": 2 * (last + 1)})
    if told:
        near = lambda at: None if at is None else tuple(near(p) if isinstance(p, tuple) else p % capacity for p in at)  # noqa: E731
        return plan.but(query_positions=near(plan.query_positions), key_positions=near(plan.key_positions))
    Lq, Lk = min(plan.query_length, capacity), min(plan.key_length, capacity)
    return plan.but(query_length=Lq, key_length=Lk, offset=min(plan.offset, capacity - Lq))


def _near(plan: Plan, most: int) -> Plan:
    """The plan with positions, and its context, below a number: beyond it the scheme's powers overflow."""
    every = (plan.offset + plan.query_length, *flat(plan.query_positions), *flat(plan.key_positions))
    if max(every) < most and (plan.context_length or 0) <= most:
        return plan
    start = min((plan.offset, *flat(plan.query_positions), *flat(plan.key_positions))[1 if plan.query_positions else 0 :])
    down = start % max(most // 2, 1) - start
    near = lambda positions: tuple(near(p) if isinstance(p, tuple) else (p + down) % most for p in positions)  # noqa: E731
    return plan.but(
        offset=plan.offset if plan.query_positions else plan.offset + down,
        query_positions=None if plan.query_positions is None else near(plan.query_positions),
        key_positions=None if plan.key_positions is None else near(plan.key_positions),
        context_length=None,
    )


def moved(positions: tuple | None, shift: int) -> tuple:
    """All positions, of all samples, moved by the same shift."""
    return tuple(moved(p, shift) if isinstance(p, tuple) else p if p is None else p + shift for p in positions or ())


def flat(positions: tuple | None) -> tuple[int, ...]:
    """Positions of all samples (their coordinates, on several axes) in one row; empty for None."""
    rows = [flat(p) if isinstance(p, tuple) else (p,) for p in positions or () if p is not None]
    return tuple(p for row in rows for p in row)
