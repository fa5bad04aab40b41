"""L26: the smallest sizes and every pair of options work, or are refused by name."""

from itertools import combinations

from hypothesis import strategies as st

from relpos.conformance import grids
from relpos.conformance.answers import answer, comparisons, prepared
from relpos.conformance.errors import Raised, Refused
from relpos.conformance.judge import LawFailure, demand
from relpos.conformance.laws.base import Law
from relpos.conformance.placing import flat, moved, within_reach
from relpos.conformance.plan import Plan
from relpos.conformance.settings import SIZES, bundles, choices, legal
from relpos.conformance.smoke import smoke_plan
from relpos.conformance.subject import Subject


def check(subject: Subject, plan: Plan) -> float:
    """Right, or refused with the name of the setting; nothing else."""
    given = prepared(subject, plan)
    try:
        got = answer(subject, given)
    except Refused:
        return 0.0
    except Raised:
        if "outside" in plan.extra:
            return 0.0  # a failing lookup is no answer either
        raise
    if "outside" in plan.extra:
        raise LawFailure(f"a position {plan.extra['outside']} the table is answered, not refused", plan=plan)
    says = "is wrong at a smallest size or pair of options"
    return max(demand(c, f"the {c.name} {says}", plan) for c in comparisons(subject, given, got))


def _pinned(subject: Subject) -> list[Plan]:
    base = smoke_plan(subject)
    short, extremes = (grids.one_token, grids.pinned) if subject.on_grid else (_short, _extremes)
    plans = [*short(subject, base), *_narrow(subject, base), *extremes(subject, base), *_pairs(subject, base)]
    return [within_reach(subject, plan) for plan in plans] + _outside(subject, base)


def _outside(subject: Subject, base: Plan) -> list[Plan]:
    """One position more than a table of positions has rows, and one below 0."""
    if not hasattr(subject.cls, "capacity") or "max_position" not in subject.free:
        return []
    alone = subject.level == "contribution"  # no keys there
    told = flat(base.query_positions) + (() if alone else flat(base.key_positions))
    last = max(told or (base.offset + base.query_length - 1, 0 if alone else base.key_length - 1))
    found = [base.but(settings={**base.settings, "max_position": last}, extra={"outside": "beyond"})]
    if base.query_positions is not None:
        down = -1 - min(told)
        below = {n: moved(getattr(base, n), down) for n in ("query_positions", "key_positions")}
        found.append(base.but(**below, extra={"outside": "before"}))
    return found


def _short(subject: Subject, base: Plan) -> list[Plan]:
    """One query, one key, one sample."""
    told = base.query_positions is not None
    cases = [(1, 1)] if subject.one_length or subject.kind == "decoder" else [(1, 1), (1, base.key_length)]
    found = [base.but(batch=1)]
    for Lq, Lk in cases:
        last = Lk - Lq if told or base.offset else 0
        queries = tuple(range(Lk - Lq, Lk)) if told else None
        keys = tuple(range(Lk)) if told else None
        found.append(base.but(query_length=Lq, key_length=Lk, offset=last, query_positions=queries, key_positions=keys))
    return found


def _narrow(subject: Subject, base: Plan) -> list[Plan]:
    """One head; the narrowest and an odd width, where the scheme has a meaning for them."""
    found = []
    for axis, values in (("heads", (1,)), ("head_dim", (1, 2, 5))):
        names = [n for n, a in SIZES.items() if a == axis and n in base.settings]
        if any(n in subject.fixed or n not in subject.free for n in names):
            continue
        if not names and not {"q", "x"} & subject.asks:
            continue
        for value in values:
            settings = {**base.settings, **dict.fromkeys(names, value)}
            if legal(subject.cls, settings):
                found.append(base.but(settings=settings, **{axis: value}))
    return found


def _extremes(subject: Subject, base: Plan) -> list[Plan]:
    """Every value that the scheme's settings name as worth trying, a clip of 0 among them."""
    drawn = getattr(subject.cls, "draws", {})
    beside = [dict(base.settings), *bundles(subject.cls, subject.free, dict(base.settings))]
    found = [{**those, name: value} for those in beside for name in subject.free for value in drawn.get(name, ())]
    return [base.but(settings=settings) for settings in found if legal(subject.cls, settings)]


def _pairs(subject: Subject, base: Plan) -> list[Plan]:
    """Every pair of named values that are legal together."""
    named = {n: v for n, v in choices(subject.cls).items() if n in subject.free}
    found = []
    for (a, values), (b, others) in combinations(named.items(), 2):
        for settings in ({**base.settings, a: x, b: y} for x in values for y in others):
            if legal(subject.cls, settings):
                found.append(base.but(settings=settings))
    return found


LAW = Law(
    name="L26",
    title="smallest sizes, pairs of options",
    slug="smallest-sizes",
    why="The first decode step has one query, and a search over configurations meets every pair of options.",
    statement="One query, key, head or sample, odd widths, a clip of 0 and every pair of options are right or refused by name.",
    check=check,
    plans=lambda subject: st.sampled_from(_pinned(subject)),
    pinned=_pinned,
    share=0.0,
)
