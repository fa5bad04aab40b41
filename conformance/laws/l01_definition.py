"""L1: equals the definition."""

from relpos.conformance import grids
from relpos.conformance.answers import answer, comparisons, prepared
from relpos.conformance.judge import demand
from relpos.conformance.laws.base import Law
from relpos.conformance.placing import farthest, moved, within_reach
from relpos.conformance.plan import Plan
from relpos.conformance.scopes import of_sizes, sizes
from relpos.conformance.settings import alternatives, bundles, legal
from relpos.conformance.smoke import smoke_plan
from relpos.conformance.strategies import plans, takes_groups
from relpos.conformance.subject import Subject

FAR = (0, 63, 64, 65, 1000, 5000)
LONG, LONGER, WIDE = 67, 130, 128


def check(subject: Subject, plan: Plan) -> float:
    """Every element against the float64 definition."""
    given = prepared(subject, plan)
    found = comparisons(subject, given, answer(subject, given))
    return max(demand(c, f"the {c.name} differs from the definition", plan) for c in found)


def _pinned(subject: Subject) -> list[Plan]:
    """Ordinary content at distinct sizes, then one step away from it at a time; few drawn inputs do not cover these."""
    base = smoke_plan(subject, heads=4)
    elsewhere = grids.pinned if subject.on_grid else _elsewhere
    found = [base, *_masked(subject, base), *elsewhere(subject, base), *_named(subject, base)]
    if takes_groups(subject) and base.heads % 2 == 0:
        found.append(base.but(kv_heads=2 if base.heads > 2 else 1))
    if "scale" in subject.asks:
        found.append(base.but(scale=0.5))
    if subject.level != "contribution" and base.dtype in ("float32", "float64"):
        found.append(base.but(content="loud"))
    found += [plan for plan in (_far_apart(subject), _wide(subject)) if plan is not None]
    return [within_reach(subject, plan) for plan in found]


def _far_apart(subject: Subject) -> Plan | None:
    """Distances and numbers of keys beyond what a clip, a block or a table might stop at."""
    if subject.kind == "decoder" or subject.on_grid:
        return None
    plan = smoke_plan(subject, batch=1, heads=2, head_dim=2)
    if subject.one_length or (subject.positions == "contiguous" and subject.card.corner != "bottom-right"):
        n = min(LONG, subject.card.max_length or LONG)
        return _at(plan, n, n, tuple(range(n)), tuple(range(n)))
    if subject.positions == "arbitrary":
        keys = tuple(sorted({min(p, subject.card.max_position) for p in FAR}))
        if subject.card.max_length is not None and subject.card.max_length < len(keys):
            return None
        return _at(plan, 1, len(keys), (max(keys),), keys)
    n = min(LONGER, subject.card.max_length or LONGER)
    return _at(plan, 1, n, None, None)


def _at(plan: Plan, Lq: int, Lk: int, queries: tuple | None, keys: tuple | None) -> Plan:
    told = plan.query_positions is not None
    return plan.but(
        query_length=Lq,
        key_length=Lk,
        offset=0 if told else Lk - Lq,
        query_positions=queries if told else None,
        key_positions=keys if told else None,
    )


def _wide(subject: Subject) -> Plan | None:
    """A head as wide as real ones."""
    if {"head_dim", "embed_dim"} & set(subject.fixed):
        return None
    return smoke_plan(subject, batch=1, heads=2, query_length=2, key_length=3, head_dim=WIDE)


def _masked(subject: Subject, base: Plan) -> list[Plan]:
    found = [base.but(causal=True)] if "causal" in subject.asks else []
    empty = [base.but(mask="empty")] if subject.empty_rows else []
    return found + ([base.but(mask="random"), *empty] if "mask" in subject.asks else [])


def _elsewhere(subject: Subject, base: Plan) -> list[Plan]:
    """The far end of the positions, and samples that start one after another."""
    causal, far, B = base.causal or "causal" in subject.asks, farthest(subject), base.batch
    if base.query_positions is None or base.key_positions is None:
        alone = subject.level == "contribution" and subject.form in ("rotation", "embedding") and subject.positions == "offset"
        return [base.but(offset=far)] if alone else []
    queries, keys = base.query_positions, base.key_positions
    found = [base.but(causal=causal, query_positions=moved(queries, far), key_positions=moved(keys, far))]
    if subject.card.positions == "per_row":
        step = 1 if subject.one_length else 2  # the distance between queries and keys differs as well
        query_rows = tuple(moved(queries, b * step) for b in range(B))
        found.append(base.but(causal=causal, query_positions=query_rows, key_positions=tuple(moved(keys, b) for b in range(B))))
    return found


def _named(subject: Subject, base: Plan) -> list[Plan]:
    told = [(name, value) for name, value in alternatives(subject.cls, subject.fixed) if name in subject.free]
    changed = [{**base.settings, name: value} for name, value in told] + bundles(subject.cls, subject.free, dict(base.settings))
    return [base.but(settings=settings) for settings in changed if legal(subject.cls, settings)]


LAW = Law(
    name="L1",
    title="equals the definition",
    slug="definition",
    why="Weights trained with one formula and run with another lose quality without any error message.",
    statement="Every element equals the float64 definition up to rounding, for every setting, size, position and mask taken.",
    check=check,
    plans=lambda subject: plans(subject),
    pinned=_pinned,
    exhausted=sizes,
    covers=of_sizes,
)
