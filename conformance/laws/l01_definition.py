"""L1: equals the definition."""

from relpos.conformance.answers import answer, comparisons, prepared
from relpos.conformance.judge import demand
from relpos.conformance.laws.base import Law
from relpos.conformance.plan import Plan
from relpos.conformance.strategies import plans
from relpos.conformance.subject import Subject


def check(subject: Subject, plan: Plan) -> float:
    """Every element against the float64 definition."""
    given = prepared(subject, plan)
    found = comparisons(subject, given, answer(subject, given))
    return max(demand(c, f"the {c.name} differs from the definition", plan) for c in found)


LAW = Law(
    name="L1",
    title="equals the definition",
    statement="Every element equals the float64 definition up to rounding, for every setting, size, position and mask it takes.",
    check=check,
    plans=lambda subject: plans(subject),
)
