"""L29: the scale is applied exactly once."""

from collections.abc import Callable, Iterator
from math import sqrt

import numpy as np
from hypothesis import strategies as st

from relpos.conformance.answers import answer, comparisons, prepared
from relpos.conformance.expected import scale_of
from relpos.conformance.faults.api import Wrong
from relpos.conformance.judge import LawFailure
from relpos.conformance.laws.base import Law
from relpos.conformance.placing import within_reach
from relpos.conformance.plan import Inputs, Plan
from relpos.conformance.smoke import smoke_plan
from relpos.conformance.strategies import plans
from relpos.conformance.subject import Subject


def check(subject: Subject, plan: Plan) -> float:
    """At widths where 1, 1/√D and 1/D differ, and with several keys, so that a scale cannot cancel.

    Fails only where a misapplied scale explains what came; anything else that is wrong is the business of L1.
    """
    given = prepared(subject, plan)
    got = answer(subject, given)
    for comparison in comparisons(subject, given, got):
        if not comparison.ok and (says := _explained(subject, given, got)):
            raise LawFailure(says, plan=plan, comparison=comparison)
    return 0.0


def _explained(subject: Subject, given: Inputs, got: dict[str, np.ndarray]) -> str | None:
    return next((says for says, wrong in _suspects(given) if all(c.ok for c in comparisons(subject, wrong, got))), None)


def _suspects(given: Inputs) -> Iterator[tuple[str, Inputs]]:
    scale, s = scale_of(given), given.settings
    yield "the scale is not applied to q·k at all", given.but(scale=1.0)
    yield "the scale is applied twice", given.but(scale=scale * scale)
    yield "the square root of the scale is applied", given.but(scale=sqrt(scale))
    D = given.q.shape[-1]
    if given.scale is not None:
        yield "1/√D is applied and the given scale is ignored", given.but(scale=1 / sqrt(D))
        yield "the given scale is ignored", given.but(scale=None)
        yield "1/√D is applied besides the given scale", given.but(scale=scale / sqrt(D))
    elif scale != 1 / sqrt(D):
        yield "1/√D is applied, which this scheme does not have", given.but(scale=1 / sqrt(D))
        for n in (2, 3):
            yield f"1/√({n}D) is applied, which this scheme does not have here", given.but(scale=1 / sqrt(n * D))
    if s.form == "logits":
        unscaled = Wrong(s, logits=lambda params, q, k, i, j, *, scale: s.logits(params, q, k, i, j, scale=1.0))
        yield "the position term is not scaled", given.but(settings=unscaled)
    if s.form == "bias":
        # A scale of 1/√D that nobody gave is known as √D.
        factors = (("multiplied by √D", sqrt(D)), ("multiplied by the scale", scale), ("divided by the scale", 1 / scale))
        for words, factor in (*factors, ("divided by √D", 1 / sqrt(D))):
            replaced = {"bias": _times(s.bias, factor)}
            if hasattr(s, "magnitude"):
                replaced["magnitude"] = _times(s.magnitude, factor)
            yield f"the bias is {words}", given.but(settings=Wrong(s, **replaced))


def _times(method: Callable[..., np.ndarray], factor: float) -> Callable[..., np.ndarray]:
    return lambda *arguments: method(*arguments) * factor


@st.composite
def _plans(draw: st.DrawFn, subject: Subject) -> Plan:
    plan = draw(
        plans(subject, min_keys=3, min_queries=2, contents=("normal",), masks=("none",), dtypes=subject.dtypes[:1], far=False)
    )
    width = draw(st.sampled_from((4, 16, 8)))
    names = [n for n in ("head_dim", "embed_dim") if n in plan.settings and n not in subject.fixed]
    if not set(subject.fixed) & {"head_dim", "embed_dim"}:
        settings = {**plan.settings, **dict.fromkeys(names, width)}
        settings |= {"rotary_dim": None} if "rotary_dim" in settings and "rotary_dim" in subject.free else {}
        plan = plan.but(settings=settings, head_dim=width)
    return within_reach(subject, plan)


def _pinned(subject: Subject) -> list[Plan]:
    plan = smoke_plan(subject, head_dim=16)
    return [plan, plan.but(scale=0.5)] if "scale" in subject.asks else [plan]


def _applies(subject: Subject) -> str | None:
    return None if subject.level in ("logits", "attention") else "judged on logits and attention"


LAW = Law(
    name="L29",
    title="the scale is applied once",
    slug="scale",
    why="Scaled twice or not at all, attention is too flat or too sharp, and a ported checkpoint is silently worse.",
    statement="q·k is multiplied by the scale exactly once, and the position term exactly as the scheme says.",
    check=check,
    plans=_plans,
    applies=_applies,
    pinned=_pinned,
    share=0.3,
)
