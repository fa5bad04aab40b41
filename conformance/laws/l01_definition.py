"""L1: equals the definition."""

from relpos.conformance.answers import answer, comparisons, prepared
from relpos.conformance.judge import demand
from relpos.conformance.laws.base import Law
from relpos.conformance.placing import farthest, moved, within_reach
from relpos.conformance.plan import Plan
from relpos.conformance.settings import alternatives, legal
from relpos.conformance.smoke import smoke_plan
from relpos.conformance.strategies import plans, takes_groups
from relpos.conformance.subject import Subject


def check(subject: Subject, plan: Plan) -> float:
    """Every element against the float64 definition."""
    given = prepared(subject, plan)
    found = comparisons(subject, given, answer(subject, given))
    return max(demand(c, f"the {c.name} differs from the definition", plan) for c in found)


def _pinned(subject: Subject) -> list[Plan]:
    """Ordinary content at distinct sizes, then one step away from it at a time; few drawn inputs do not cover these."""
    base = smoke_plan(subject, heads=4)
    found = [base, *_masked(subject, base), *_elsewhere(subject, base), *_named(subject, base)]
    if takes_groups(subject) and base.heads % 2 == 0:
        found.append(base.but(kv_heads=2 if base.heads > 2 else 1))
    if "scale" in subject.asks:
        found.append(base.but(scale=0.5))
    return [within_reach(subject, plan) for plan in found]


def _masked(subject: Subject, base: Plan) -> list[Plan]:
    found = [base.but(causal=True)] if "causal" in subject.asks else []
    return found + ([base.but(mask="random"), base.but(mask="empty")] if "mask" in subject.asks else [])


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
    changed = [{**base.settings, name: value} for name, value in told]
    return [base.but(settings=settings) for settings in changed if legal(subject.cls, settings)]


LAW = Law(
    name="L1",
    title="equals the definition",
    statement="Every element equals the float64 definition up to rounding, for every setting, size, position and mask taken.",
    check=check,
    plans=lambda subject: plans(subject),
    pinned=_pinned,
)
