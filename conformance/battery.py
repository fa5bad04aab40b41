"""A fixed set of inputs on which behaviours are told apart: distinct sizes, L = 37, both masks, an offset, far positions.

A shrunk input fits many mistakes; these fit few. Every entry is a plan that the subject can be given.
"""

from relpos.conformance import grids
from relpos.conformance.placing import farthest, within_reach
from relpos.conformance.plan import Plan
from relpos.conformance.smoke import smoke_plan
from relpos.conformance.strategies import takes_groups
from relpos.conformance.subject import Subject

LONG = 37
FAR = 40058  # past 2^15, past every short table, and 6 before bfloat16 jumps by 256
ENDS = (2**15, 2**31)  # where narrow whole numbers wrap: positions on both sides
GAPS = (0, 1, 3, 4, 8, 9, 15)
AHEAD = (9, 2, 5, 20, 7)  # out of order, one of them after all keys
MANY_HEADS = 24  # slopes of 3 or 4 heads are whole powers of two, which any dtype holds


def battery(subject: Subject, **sizes: int) -> list[Plan]:
    """Plans for one subject, in the order they are tried; `sizes` replaces some of those of the smoke gate."""
    base = smoke_plan(subject, **sizes).but(dtype=subject.dtypes[0], seed=3)
    found = [base]
    if not subject.one_length and subject.kind != "decoder":
        found.append(_one_step(subject, base))
    found += [_long(subject, base), *_elsewhere(subject, base)]
    if subject.kind == "decoder" and base.query_length > 1:
        found.append(base.but(extra={"chunks": (base.query_length - base.query_length // 2, base.query_length // 2)}))
    if "causal" in subject.asks and not base.causal:
        found += [plan.but(causal=True) for plan in found]
    if "mask" in subject.asks:
        found += [base.but(mask="random")] + ([base.but(mask="empty")] if subject.empty_rows else [])
        found += [base.but(mask="random", causal=True)] if "causal" in subject.asks else []
    if "scale" in subject.asks:
        found.append(base.but(scale=0.5))
    found += _heads(subject, base)
    return [within_reach(subject, plan) for plan in found]


def _one_step(subject: Subject, base: Plan) -> Plan:
    """One query at the end of the keys: a decode step."""
    if subject.on_grid:
        return grids.one_token(subject, base)[-1].but(seed=4)
    explicit = base.query_positions is not None
    last = base.key_length - 1
    told = subject.positions != "contiguous" or subject.card.corner == "bottom-right"
    return base.but(
        query_length=1, offset=last if told and not explicit else 0, query_positions=(last,) if explicit else None, seed=4
    )


def _long(subject: Subject, base: Plan) -> Plan:
    if subject.on_grid:
        return grids.long(subject, base)
    n = min(LONG, subject.card.max_length or LONG)
    explicit = base.query_positions is not None
    positions = tuple(range(n)) if explicit else None
    return base.but(batch=1, query_length=n, key_length=n, offset=0, query_positions=positions, key_positions=positions, seed=5)


def _elsewhere(subject: Subject, base: Plan) -> list[Plan]:
    """Positions that nobody would guess, as far as the subject can be told them; per sample where it takes that."""
    if subject.kind == "decoder" or subject.on_grid or subject.positions == "contiguous":
        return []
    far = min(FAR, farthest(subject))
    if subject.positions == "offset":
        alone = subject.level == "contribution" and subject.form in ("rotation", "embedding")
        return [base.but(offset=far if alone else max(base.offset - 1, 0), seed=6)]
    reached = farthest(subject) if subject.form not in ("rotation", "embedding") else far
    listed = [_listed(subject, base, far), *(_listed(subject, base, end - 4) for end in ENDS if end + max(AHEAD) <= reached)]
    if subject.card.positions == "per_row":
        rows = [_listed(subject, base, far), _listed(subject, base, 3, -1)]
        queries, keys = (tuple(getattr(row, f"{side}_positions") for row in rows) for side in ("query", "key"))
        listed.append(base.but(batch=2, query_positions=queries, key_positions=keys, seed=7))
    return listed


def _listed(subject: Subject, base: Plan, start: int, step: int = 1) -> Plan:
    keys = tuple(start + gap for gap in GAPS[: base.key_length])
    queries = keys if subject.one_length else tuple(start + ahead for ahead in AHEAD[: base.query_length][::step])
    return base.but(query_positions=queries[: base.query_length], key_positions=keys, seed=6)


def _heads(subject: Subject, base: Plan) -> list[Plan]:
    """Two groups of two heads, and as many heads as it takes for every slope rule to show."""
    if "num_heads" in subject.fixed:
        return []
    grouped = [smoke_plan(subject, heads=4).but(kv_heads=2)] if takes_groups(subject) else []
    many = [smoke_plan(subject, heads=MANY_HEADS)] if hasattr(subject.cls, "slopes") else []
    return [plan.but(dtype=base.dtype, seed=8) for plan in grouped + many]
