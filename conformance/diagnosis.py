"""Which named mistake or variant a failing implementation behaves like, told on the fixed battery."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from relpos.conformance import grids
from relpos.conformance.answers import answer, comparisons, definition, prepared
from relpos.conformance.battery import battery
from relpos.conformance.errors import AdapterError, Raised, Refused, UsageError
from relpos.conformance.faults.api import Fault
from relpos.conformance.faults.registry import faults
from relpos.conformance.judge import Comparison
from relpos.conformance.plan import Inputs
from relpos.conformance.settings import alternatives, legal
from relpos.conformance.smoke import POWER_OF_TWO
from relpos.conformance.subject import Subject
from relpos.conformance.tolerance import units

Cases = list[tuple[Inputs, dict[str, np.ndarray]]]

# Raised where a mistake has no meaning on an input.
NO_MEANING = (ValueError, IndexError, KeyError, TypeError, ZeroDivisionError)


@dataclass(frozen=True)
class Diagnosis:
    """What a failing implementation looks like.

    like      sentences, one per mistake or variant that explains the whole battery
    settings  named settings that explain it, as `--set` takes them
    hint      where it first differs, when nothing explains it
    equal     it answers as the definition does on the whole battery
    beside    what it raised on inputs of the battery that it did not answer
    """

    like: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    hint: str = ""
    equal: bool = False
    beside: str = ""


def diagnose(subject: Subject) -> Diagnosis:
    """All faults and named settings whose answers are the subject's on every input of the battery."""
    if subject.kind == "resizer":
        return Diagnosis()  # the battery is of calls at positions
    cases, raised = _cases(subject)
    if not cases:
        return Diagnosis(hint=f"none, since on the fixed battery it raised {raised}")
    if all(_same(subject, given, given, got) for given, got in cases):
        where = "where it answers on the fixed battery" if raised else "on the fixed battery"
        return Diagnosis(
            hint=f"no known mistake matches; {where} it is right, and wrong on inputs like the one shown",
            equal=True,
            beside=raised,
        )
    known = [f for f in faults(subject.scheme) if isinstance(f, Fault) and subject.level in f.levels]
    like = tuple(f.says for f in known if _explains(subject, (f,), cases))
    settings = tuple(_settings(subject, cases))
    if not like and not settings:
        like = tuple(_pairs(subject, known, cases))
    hint = "" if like or settings else f"no known mistake matches; {_first(subject, cases)}"
    return Diagnosis(like, settings, hint, beside=raised)


def _cases(subject: Subject) -> tuple[Cases, str]:
    """What it answers on the battery, and what it raised first where it did not."""
    for sizes in ({}, POWER_OF_TWO):
        cases, raised, refused = [], "", False
        for plan in battery(subject, **sizes):
            try:
                given = prepared(subject, plan)
                cases.append((given, answer(subject, given)))
            except Refused:
                refused = True
            except (Raised, AdapterError, UsageError) as error:
                raised = raised or str(error)
        if cases or not refused:
            break
    return cases, raised


def _pairs(subject: Subject, known: list[Fault], cases: Cases) -> Iterator[str]:
    """Two mistakes at once, or one together with another named setting."""
    # Hundreds of pairs: the cheapest input refutes most of them.
    cases = sorted(cases, key=lambda case: size(case[0]))
    for first, second in combinations(known, 2):
        if _explains(subject, (first, second), cases):
            yield f"{first.says}, and with {second.says}"
    for name, value in alternatives(subject.cls, subject.fixed):
        if name in subject.free or name in subject.fixed:
            continue
        changed = [(other, got) for given, got in cases if (other := _with(subject, given, {name: value})) is not None]
        if len(changed) == len(cases):
            yield from (f"{name}={value}, and with {f.says}" for f in known if _explains(subject, (f,), changed))


def _explains(subject: Subject, mistakes: tuple[Fault, ...], cases: Cases) -> bool:
    if any(foreign(given, fault) for fault in mistakes for given, _ in cases):
        return False
    return all(_made(subject, given, mistakes, got) for given, got in cases)


def _made(subject: Subject, given: Inputs, mistakes: tuple[Fault, ...], got: dict[str, np.ndarray]) -> bool:
    try:
        changed = given
        for fault in mistakes:
            changed = fault.apply(changed)
    except NO_MEANING:
        return False
    return _same(subject, given, changed, got)


def foreign(given: Inputs, fault: Fault) -> bool:
    """Whether a fault belongs to other settings than those of an input."""
    return any(getattr(given.settings, name, value) != value for name, value in fault.settings.items())


def _same(subject: Subject, given: Inputs, changed: Inputs, got: dict[str, np.ndarray]) -> bool:
    try:
        found = comparisons(subject, changed.but(plan=given.plan), got, asked=given)
    except NO_MEANING:
        return False
    return all(agrees(comparison, given.plan.dtype) for comparison in found)


def agrees(comparison: Comparison, dtype: str) -> bool:
    """Within bounds, or off by roundings of the value itself: M is written for the right terms, not for those of a mistake."""
    if comparison.ok:
        return True
    rounding = comparison.allowed * units(dtype).u * np.abs(comparison.expected)
    with np.errstate(invalid="ignore"):
        near = np.abs(comparison.got - comparison.expected) <= rounding
    return bool(np.all((comparison.units <= comparison.allowed) | near))


def _settings(subject: Subject, cases: Cases) -> Iterator[str]:
    for name, value in alternatives(subject.cls, subject.fixed):
        if name in subject.free or name in subject.fixed:
            continue
        if all(_under(subject, given, {name: value}, got) for given, got in cases):
            yield f"{name}={value}"


def _under(subject: Subject, given: Inputs, change: dict, got: dict[str, np.ndarray]) -> bool:
    changed = _with(subject, given, change)
    return changed is not None and _same(subject, given, changed, got)


def _with(subject: Subject, given: Inputs, change: dict) -> Inputs | None:
    """The inputs under another named setting; None where it has no meaning or needs parameters that there are not."""
    values = {**given.plan.settings, **change}
    if not legal(subject.cls, values):
        return None
    settings = subject.cls(**values)
    if set(settings.parameters()) - set(given.params):
        return None
    params = {name: given.params[name] for name in settings.parameters()}
    return given.but(settings=settings, params=params)


def _first(subject: Subject, cases: Cases) -> str:
    """The smallest distance at which a bias or logit differs, or the first row of anything else."""
    for given, got in cases:
        for comparison in comparisons(subject, given, got):
            if comparison.ok:
                continue
            wrong = np.argwhere(comparison.units > comparison.allowed)
            if comparison.name in ("bias", "logits"):
                i, j = list(given.query_positions.row(0)), list(given.key_positions.row(0))
                apart = {grids.apart(i[c[-2]], j[c[-1]]) for c in wrong}
                first = min(apart, key=lambda d: (isinstance(d, str), 0 if isinstance(d, str) else np.abs(d).sum(), str(d)))
                return f"it differs first at {_distance(first)}"
            where = ", ".join(f"{axis} {n}" for axis, n in zip(comparison.axes, wrong[0], strict=True))
            return f"it differs first at {where}"
    return "it differs"


def _distance(apart: Any) -> str:
    without = {"both": "two tokens", "query": "a query", "key": "a key"}
    return f"{without[apart]} without a position" if isinstance(apart, str) else f"distance i − j = {apart}"


def size(given: Inputs) -> int:
    """What an input costs."""
    return given.q.shape[2] * given.k.shape[2]


def shows(subject: Subject, fault: Fault) -> bool:
    """Whether a fault makes a difference on the subject's battery at all."""
    for plan in battery(subject):
        given = prepared(subject, plan)
        right = {name: want.value for name, want in definition(subject, given).items()}
        if not _same(subject, given, fault.apply(given), right):
            return True
    return False
