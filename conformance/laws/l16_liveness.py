"""L16: every option does something."""

import numpy as np
from hypothesis import strategies as st

from relpos.conformance import grids
from relpos.conformance.answers import answer, definition, prepared
from relpos.conformance.judge import LawFailure, bound_of
from relpos.conformance.laws.base import Law
from relpos.conformance.placing import within_reach
from relpos.conformance.plan import Inputs, Plan
from relpos.conformance.settings import alternatives, bundles, legal
from relpos.conformance.smoke import smoke_plan
from relpos.conformance.subject import Subject
from relpos.conformance.tolerance import C


def check(subject: Subject, plan: Plan) -> float:
    """Where the definition's answer changes with an option, the implementation's does."""
    name, value = plan.extra["option"], plan.extra["value"]
    before, after = prepared(subject, plan), _changed(subject, plan, name, value)
    want_before, want_after = definition(subject, before), definition(subject, after)
    got_before, got_after = answer(subject, before), answer(subject, after)
    for key, want in want_before.items():
        moved = _differs(want.value, want_after[key].value, C[want.kind] * bound_of(want, plan.dtype))
        if moved and np.array_equal(got_before[key], got_after[key], equal_nan=True):
            raise LawFailure(f"`{name}` = {value} changes nothing, but should", plan=plan)
    return 0.0


def _changed(subject: Subject, plan: Plan, name: str, value: object) -> Inputs:
    if name in ("causal", "mask", "scale"):
        return prepared(subject, plan.but(**{name: value}))
    given = prepared(subject, plan)
    if name in given.params:
        return given.but(params={**given.params, name: -given.params[name]})
    return prepared(subject, plan.but(settings={**plan.settings, name: value}))


def _differs(a: np.ndarray, b: np.ndarray, bound: np.ndarray) -> bool:
    if a.shape != b.shape:
        return True
    with np.errstate(invalid="ignore"):
        apart = np.abs(a - b)
    return bool(np.any((apart > bound) | (np.isfinite(a) != np.isfinite(b))))


def _pinned(subject: Subject) -> list[Plan]:
    base = smoke_plan(subject)
    found = [(name, value) for name, value in _values(subject, base)]
    learned = () if subject.form == "none" else prepared(subject, base).params
    told = {"params"} & subject.asks or subject.owns_parameters
    found += [(name, "its negative") for name in learned if told or name in subject.asks]
    if subject.level == "attention" and "causal" in subject.asks and not base.causal:
        found.append(("causal", True))
    if "mask" in subject.asks:
        found.append(("mask", "random"))
    if "scale" in subject.asks:
        found.append(("scale", 0.5))
    placed = [
        (name, value, grids.inside_both(subject, base, value) if name == "window_size" else base) for name, value in found
    ]
    plans = [within_reach(subject, plan).but(extra={"option": name, "value": value}) for name, value, plan in placed if plan]
    return plans + _beside(subject, base)


def _beside(subject: Subject, base: Plan) -> list[Plan]:
    """Options that have a meaning only beside others."""
    found = []
    for settings in bundles(subject.cls, subject.free, dict(base.settings)):
        plan = base.but(settings=settings)
        alone = {(name, str(value)) for name, value in _values(subject, base)}
        fresh = [(name, value) for name, value in _values(subject, plan) if (name, str(value)) not in alone]
        found += [within_reach(subject, plan).but(extra={"option": name, "value": value}) for name, value in fresh]
    return found


def _values(subject: Subject, base: Plan) -> list[tuple[str, object]]:
    """Another value of every setting that the implementation is told, as long as no shape hangs on it."""
    found = [(n, v) for n, v in alternatives(subject.cls, {**subject.fixed, **base.settings}) if n in subject.free]
    for name, values in getattr(subject.cls, "draws", {}).items():
        if name in subject.free:
            found += [(name, v) for v in values if v != base.settings.get(name, values[0])][:1]
    same = subject.cls(**base.settings).parameters()
    return [
        (name, value)
        for name, value in found
        if legal(subject.cls, {**base.settings, name: value})
        and subject.cls(**{**base.settings, name: value}).parameters() == same
    ]


LAW = Law(
    name="L16",
    title="every option does something",
    slug="options",
    why="An option that is taken and ignored makes two experiments the same, or a configuration a lie.",
    statement="Every setting, parameter and flag that is taken changes the result wherever it changes the definition's.",
    check=check,
    plans=lambda subject: st.sampled_from(_pinned(subject)),
    applies=lambda subject: None if _pinned(subject) else "it takes no option",
    pinned=_pinned,
    share=0.0,
)
