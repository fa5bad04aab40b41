"""L17: length scaling starts where it says, follows its rule, and multiplies once."""

from collections.abc import Iterator
from dataclasses import fields
from math import log
from typing import Any

import numpy as np
from hypothesis import strategies as st

from relpos.conformance.answers import answer, comparisons, prepared
from relpos.conformance.faults.api import Wrong
from relpos.conformance.judge import LawFailure
from relpos.conformance.laws.base import Law
from relpos.conformance.plan import Inputs, Plan
from relpos.conformance.settings import bundles, legal, sized
from relpos.conformance.smoke import smoke_plan
from relpos.conformance.strategies import plans
from relpos.conformance.subject import Subject
from relpos.spec.positions import Range
from relpos.spec.rope_scaling import NEEDS, TAKES

# Beside every group of settings: nothing at factor 1, and each way a magnitude is named.
BESIDE: tuple[dict[str, Any], ...] = (
    {},
    {"factor": 1.0},
    {"attention_factor": 0.9},
    {"factor": 40.0, "mscale": 1.0, "mscale_all_dim": 1.0},
    {"factor": 40.0, "mscale": 0.7, "mscale_all_dim": 1.0},
    {"truncate": False},
    {"rotary_dim": 4},
)
AROUND = (-1, 0, 1, 5)  # tokens from the threshold
OF_SCALING = {"scaling", *(name for names in (*NEEDS.values(), *TAKES.values()) for name in names)}
LONGEST = 64  # contexts beyond it are told, not filled


def check(subject: Subject, plan: Plan) -> float:
    """The definition's answer in this context; what is wrong without scaling too is the business of other laws."""
    given = prepared(subject, plan)
    got = answer(subject, given)
    found = comparisons(subject, given, got)
    wrong = next((c for c in found if not c.ok), None)
    if wrong is None:
        return max(c.largest for c in found)
    if "scaling" in subject.free and not _right_without(subject, plan):
        return 0.0
    raise LawFailure(_says(subject, given, got), plan=plan, comparison=wrong)


def _right_without(subject: Subject, plan: Plan) -> bool:
    plain = prepared(subject, plan.but(settings=_unscaled(subject, plan)))
    return all(c.ok for c in comparisons(subject, plain, answer(subject, plain)))


def _says(subject: Subject, given: Inputs, got: dict[str, np.ndarray]) -> str:
    s = given.settings
    for words, changed in _magnitudes(given):
        if all(c.ok for c in comparisons(subject, changed, got)):
            return f"the magnitude {_magnitude(s):.4g} of scaling={s.scaling} is {words}"
    if s.factor == 1 and s.scaling != "dynamic":
        return f"scaling={s.scaling} at factor 1 is not the rotation without scaling"
    if s.scaling != "dynamic":
        return f"scaling={s.scaling} does not follow its rule"
    n = max(p.row(b).context() for p in (given.query_positions, given.key_positions) for b in range(given.plan.batch))
    if n <= s.max_position:
        return f"a context of {n}, not longer than max_position = {s.max_position}, is scaled"
    return f"a context of {n}, longer than max_position = {s.max_position}, is not scaled by the rule"


def _magnitude(s: Any) -> float:
    gains = s.gains(Range(0, 1), "query").ravel()
    return float(gains[0]) if len(gains) else 1.0


def _magnitudes(given: Inputs) -> Iterator[tuple[str, Inputs]]:
    """Other magnitudes, in words, where there is one to be wrong."""
    s, μ = given.settings, _magnitude(given.settings)
    own = 0.1 * log(s.factor) + 1 if s.scaling == "yarn" else 1.0
    suspects = (
        ("not applied", 1.0, 1.0),
        ("applied twice", μ**2, μ**2),
        ("applied to queries alone", μ, 1.0),
        ("applied to keys alone", 1.0, μ),
        (f"not used, {own:.4g} is", own, own),
        (f"multiplied by {own:.4g} again", μ * own, μ * own),
    )
    for words, query, key in suspects:
        if not np.allclose((query, key), (μ, μ)):
            yield words, given.but(settings=_lengthened(s, {"query": query / μ, "key": key / μ}))


def _lengthened(s: Any, ratio: dict[str, float]) -> Wrong:
    columns = [column for pair in s.pairs() for column in pair]

    def rotate(x, positions, role):
        turned = s.rotate(x, positions, role)
        turned[..., columns] *= ratio[role]
        return turned

    return Wrong(s, rotate=rotate, gains=lambda positions, role: s.gains(positions, role) * ratio[role])


def _settings(subject: Subject, base: Plan) -> list[dict[str, Any]]:
    """Every rule that can be set, or the one that is, with what can be set beside it."""
    groups = bundles(subject.cls, subject.free, dict(base.settings))
    if getattr(subject.cls(**base.settings), "scaling", "none") != "none":
        groups = [dict(base.settings)]
    beside = [more for more in BESIDE if set(more) <= set(subject.free)]
    found = [{**group, **more} for group in groups for more in beside]
    return [settings for n, settings in enumerate(found) if legal(subject.cls, settings) and settings not in found[:n]]


def _contexts(subject: Subject, plan: Plan) -> list[Plan]:
    """The plan in contexts around its threshold; without one, as it is."""
    s = subject.cls(**plan.settings)
    if not s.length_dependent:
        return [plan]
    found = [_ending(subject, plan, s.max_position + more) for more in AROUND if s.max_position + more > 0]
    return [plan for plan in found if plan is not None]


def _ending(subject: Subject, plan: Plan, n: int) -> Plan | None:
    """Keys and queries that end at position n − 1; those that are told of a longer context see the last but one only."""
    told = subject.told_length and n > 1
    Lk = min(n - 1 if told else n, LONGEST)
    if subject.card.max_length is not None:
        Lk = min(Lk, subject.card.max_length)
    together = subject.one_length or subject.kind == "decoder" or subject.positions == "contiguous"
    Lq = Lk if together else min(plan.query_length, Lk)
    explicit = plan.query_positions is not None
    if not told and Lk < n and not explicit:
        return None  # too long to be filled
    last = n if explicit and not told else Lk
    return plan.but(
        query_length=Lq,
        key_length=Lk,
        offset=Lk - Lq,
        query_positions=tuple(range(last - Lq, last)) if explicit else None,
        key_positions=tuple(range(last - Lk, last)) if explicit else None,
        context_length=n if told else None,
    )


def _pinned(subject: Subject) -> list[Plan]:
    base = smoke_plan(subject)
    return [plan for settings in _settings(subject, base) for plan in _contexts(subject, base.but(settings=settings))]


@st.composite
def _plans(draw: st.DrawFn, subject: Subject) -> Plan:
    wish = {"contents": ("normal", "one_hot"), "masks": ("none",), "listed": False, "far": False, "small": True}
    plan = draw(plans(subject, **wish))
    chosen = _settings(subject, plan.but(settings=_unscaled(subject, plan)))
    if not chosen:
        return plan
    return draw(st.sampled_from(_contexts(subject, plan.but(settings=draw(st.sampled_from(chosen)))) or [plan]))


def _unscaled(subject: Subject, plan: Plan) -> dict[str, Any]:
    return {name: value for name, value in plan.settings.items() if name not in OF_SCALING or name in subject.fixed}


def _applies(subject: Subject) -> str | None:
    if "scaling" not in {field.name for field in fields(subject.cls)}:
        return "the scheme has no length scaling"
    scaled = subject.cls(**sized(subject.cls, subject.fixed)).scaling != "none"
    return None if scaled or bundles(subject.cls, subject.free, smoke_settings(subject)) else "it is told of no scaling"


def smoke_settings(subject: Subject) -> dict[str, Any]:
    """The settings of the gate's input."""
    return dict(smoke_plan(subject).settings)


LAW = Law(
    name="L17",
    title="scaling starts, follows, counts once",
    slug="length-scaling",
    why="Long-context rules act past a threshold only; wrong there, a model fails at exactly the lengths it was extended for.",
    statement="Scaling changes nothing at factor 1 or within its threshold, follows its rule past it, and multiplies once.",
    check=check,
    plans=_plans,
    applies=_applies,
    pinned=_pinned,
    share=0.3,
)
