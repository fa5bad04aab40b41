"""L19: positions past the numbers where narrow types end."""

from relpos.conformance.answers import answer, comparisons, prepared
from relpos.conformance.judge import demand
from relpos.conformance.laws.base import Law
from relpos.conformance.placing import within_reach
from relpos.conformance.plan import Plan
from relpos.conformance.precision import unit_roundoff
from relpos.conformance.smoke import smoke_plan
from relpos.conformance.strategies import plans
from relpos.conformance.subject import Subject

# int16, uint16, whole numbers in float32, int32, uint32: the first position that each cannot hold.
ENDS = (2**15, 2**16, 2**24, 2**31, 2**32)
TURN = 0.1  # radians: where an angle is off by more, first order says nothing
AROUND = 2  # positions on either side, so that a wrap shows in distances too


def check(subject: Subject, plan: Plan) -> float:
    """Positions on both sides of such an end, or as far apart, against the definition."""
    given = prepared(subject, plan)
    found = comparisons(subject, given, answer(subject, given))
    where = "at distances around" if plan.extra.get("way") == "apart" else "around position"
    return max(demand(c, f"the {c.name} is wrong {where} {plan.extra['end']}", plan) for c in found)


def ends(subject: Subject) -> list[int]:
    """The ends that lie within what it claims, and where its angles still mean something."""
    most = subject.card.max_position
    if subject.form in ("rotation", "embedding"):
        most = min(most, int(TURN / unit_roundoff("float32")))
    settings = subject.cls(**smoke_plan(subject).settings)
    most = min(most, settings.farthest()) if hasattr(settings, "farthest") else most
    return [end for end in ENDS if end + AROUND <= most]


def _pinned(subject: Subject) -> list[Plan]:
    base = smoke_plan(subject, batch=1, heads=2)
    dtype = next((d for d in ("float32", "float64") if d in subject.dtypes), base.dtype)
    base = base.but(dtype=dtype)
    found = [plan for end in ends(subject) for plan in (_around(subject, base, end), *_apart(subject, base, end))]
    return [within_reach(subject, plan) for plan in found]


def _around(subject: Subject, base: Plan, end: int) -> Plan:
    plan = base.but(causal=base.causal or "causal" in subject.asks, extra={"end": end})
    if base.query_positions is None or base.key_positions is None:
        return plan.but(offset=end - AROUND)
    keys = tuple(range(end - AROUND, end - AROUND + base.key_length))
    start = 0 if subject.one_length else base.key_length - base.query_length
    return plan.but(query_positions=keys[start : start + base.query_length], key_positions=keys)


def _apart(subject: Subject, base: Plan, end: int) -> list[Plan]:
    """Keys as far from the queries, before them and, where those are seen, after them: a difference wraps as well."""
    if base.query_positions is None or base.key_positions is None or subject.one_length or subject.together:
        return []
    far, near = tuple(range(end - AROUND, end - AROUND + base.query_length)), tuple(range(base.key_length))
    extra = {"end": end, "way": "apart"}
    before = base.but(query_positions=far, key_positions=near, extra=extra)
    if base.causal:
        return [before]
    far, near = tuple(range(end - AROUND, end - AROUND + base.key_length)), near[: base.query_length]
    return [before, base.but(query_positions=near, key_positions=far, extra=extra)]


def _applies(subject: Subject) -> str | None:
    if subject.on_grid:
        return "positions on several axes are coordinates inside a window"
    alone = subject.level == "contribution" and subject.positions == "offset" and subject.form != "logits"
    if subject.positions != "arbitrary" and not alone:
        return "it cannot be told a far position without as many keys"
    if not ends(subject):
        return "neither it nor the scheme goes as far as 2^15"
    return None


LAW = Law(
    name="L19",
    title="far positions do not wrap",
    slug="far-positions",
    why="Positions kept in narrow integers wrap around in long contexts, and what comes back still looks plausible.",
    statement="Around 2^15, 2^16, 2^24, 2^31 and 2^32, as far as is claimed, every element equals the definition.",
    check=check,
    plans=lambda subject: plans(subject),
    applies=_applies,
    pinned=_pinned,
    share=0.0,
)
