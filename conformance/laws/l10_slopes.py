"""L10: the slopes follow the named rule for every number of heads."""

import numpy as np
from hypothesis import strategies as st

from relpos.conformance.answers import answer, definition, prepared
from relpos.conformance.judge import bound_of, compare_within, demand
from relpos.conformance.laws.base import Law
from relpos.conformance.plan import Inputs, Plan
from relpos.conformance.settings import choices, legal, sized
from relpos.conformance.subject import Subject
from relpos.conformance.tolerance import C

MOST_HEADS = 128
FEW = 5  # heads, of which each number can be biased


def check(subject: Subject, plan: Plan) -> float:
    """Slopes read off the cells at distance 1, for one number of heads."""
    given = _probe(prepared(subject, plan), subject)
    got, want = answer(subject, given), definition(subject, given)
    name = next(iter(want))
    bound = bound_of(want[name], plan.dtype)
    H, kind = plan.heads, want[name].kind
    if name == "output":
        # Of both queries: a causal mask leaves the first one nothing to weigh, a head that looks ahead the second one.
        found, value, loose = (a[0, :, :, 0] for a in (got[name], want[name].value, bound))
        label, axes = "weights of key 0", ("head", "query")
    else:
        found, value = _slopes(got[name]), _slopes(want[name].value)
        loose, label, axes = bound.reshape(-1, H, 4)[0].sum(axis=-1), "slopes", ("head",)
    comparison = compare_within(found, value, loose, name=label, allowed=C[kind], axes=axes)
    return demand(comparison, f"the {label} of {H} head{'s' * (H > 1)} are not those of the rule", plan)


def _probe(given: Inputs, subject: Subject) -> Inputs:
    """Two positions, no content: what is left is the bias at distances 0 and 1."""
    zero, v = np.zeros_like(given.q), np.zeros_like(given.v)
    if subject.level == "attention":
        v[:, :, 0, 0] = 1.0
    return given.but(q=zero, k=np.zeros_like(given.k), v=v)


def _slopes(values: np.ndarray) -> np.ndarray:
    """−(value at distance 1 − value at distance 0) per head, looking back, or ahead where the past is cut off."""
    table = values.reshape(-1, *values.shape[-3:])[0]
    back, ahead = table[:, 1, 1] - table[:, 1, 0], table[:, 0, 0] - table[:, 0, 1]
    return np.where(np.isfinite(back), back, ahead)


def _plan(subject: Subject, heads: int, rule: dict) -> Plan | None:
    settings = {**sized(subject.cls, subject.fixed), **rule, "num_heads": heads}
    if not legal(subject.cls, settings):
        return None
    explicit = (0, 1) if subject.positions == "arbitrary" else None
    causal = subject.level == "attention" and (subject.card.softmax == "causal" or subject.kind == "decoder")
    two = {"query_length": 2, "key_length": 2, "query_positions": explicit, "key_positions": explicit}
    return Plan(settings=settings, heads=heads, **two, causal=causal, dtype=subject.dtypes[0])


def _pinned(subject: Subject) -> list[Plan]:
    told = {"num_heads", "settings"} & subject.asks or subject.level != "contribution"
    counts = range(1, MOST_HEADS + 1) if told and "num_heads" not in subject.fixed else [subject.fixed.get("num_heads", 1)]
    rules = [{}]
    if "slope_rule" in subject.free:
        rules = [{"slope_rule": rule} for rule in choices(subject.cls)["slope_rule"]]
    found = [_plan(subject, H, rule) for rule in rules for H in counts]
    found += [_plan(subject, H, {**rule, **part}) for rule in rules for H in counts if H <= FEW for part in _parts(subject, H)]
    return [plan for plan in found if plan is not None]


def _parts(subject: Subject, heads: int) -> list[dict]:
    """None, one, all but one and all of the heads biased, under every form of the distance that the subject is told."""
    if "num_biased_heads" not in subject.free:
        return []
    forms = choices(subject.cls)["distance"] if "distance" in subject.free else (None,)
    counts = sorted({0, 1, heads - 1, heads})
    return [{"num_biased_heads": n, **({"distance": form} if form else {})} for form in forms for n in counts]


def _applies(subject: Subject) -> str | None:
    if not hasattr(subject.cls, "slopes"):
        return "the scheme has no slopes"
    return None if _pinned(subject) else "no number of heads is legal beside the fixed settings"


LAW = Law(
    name="L10",
    title="slopes for 1…128 heads",
    slug="slopes",
    why="Slopes are not learned: a checkpoint trained with one rule for odd numbers of heads cannot be run with another.",
    statement="The slope of every head follows the named rule for every number of heads.",
    check=check,
    plans=lambda subject: st.sampled_from(_pinned(subject)),
    applies=_applies,
    pinned=_pinned,
    share=0.0,
)
