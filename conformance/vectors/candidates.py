"""Inputs that are worth a vector: what the laws pin, what their strategies draw, and the battery that tells mistakes apart."""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from math import prod
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from relpos.conformance.battery import battery
from relpos.conformance.faults.api import Fault
from relpos.conformance.laws import law, laws
from relpos.conformance.laws.base import Law
from relpos.conformance.placing import flat
from relpos.conformance.plan import Plan
from relpos.conformance.planting import NO_FAULT, plant
from relpos.conformance.runner import RESIZING
from relpos.conformance.searching import private_storage
from relpos.conformance.settings import legal
from relpos.conformance.subject import Subject

WORKING = "bfloat16"  # what it holds, float32 holds too: one vector serves every working dtype
PER_LAW = 4  # pinned inputs of one law, spread over all that it pins; those of L1 hold every named setting
MOST_NUMBERS = 3000  # of one vector: larger inputs show the same mistakes
ROOM = 8  # rows of a table of positions beyond the last that is read
EVERYTHING, BACKWARD, OPTIONS = "L1", "L20", "L26"


@dataclass(frozen=True)
class Candidate:
    """An input, and the laws that asked for it."""

    plan: Plan
    laws: tuple[str, ...]
    gradient: bool = False


def subject_of(scheme: str, level: str, fixed: dict[str, Any], claims: dict[str, Any] | None = None) -> Subject:
    """The definition at one level, with settings that do not vary, told of positions per sample."""
    return plant(scheme, level, replace(NO_FAULT, settings=fixed, claims={"positions": "per_row", **(claims or {})}))


def chosen(subject: Subject, *, count: int, number: int, brief: bool) -> list[Candidate]:
    """What is written whatever it shows: pinned inputs of every law, and `count` drawn ones; the first of each if brief."""
    every = [(one.name, _some(one, subject)[: 1 if brief else None]) for one in applicable(subject)]
    found = [Candidate(_plain(plan), (name,)) for name, some in every for plan in some]
    found += [Candidate(_plain(plan), (name,)) for name, plan in _drawn(subject, count, number)]
    found += [Candidate(_plain(plan), (BACKWARD,), True) for plan in _backward(subject)]
    return _merged(found)


def searched(scheme: str, level: str, fault: Fault, fixed: dict[str, Any]) -> Iterator[Candidate]:
    """What may tell one mistake from the right answer: the battery and its law's inputs, under its settings and claims."""
    together = {**fault.settings, **fixed}
    if any(fixed.get(name, value) != value for name, value in fault.settings.items()):
        return
    subject = subject_of(scheme, level, together, dict(fault.claims))
    owner = law(fault.law)
    if owner.applies(subject) is None:
        yield from (Candidate(_plain(plan), (owner.name,)) for plan in _fitting(subject, owner.pinned(subject)))
    for name, every in ((EVERYTHING, battery(subject)), *((n, law(n).pinned(subject)) for n in (EVERYTHING, OPTIONS))):
        yield from (Candidate(_plain(plan), (name,)) for plan in _fitting(subject, every, 4 * MOST_NUMBERS))
    yield from (Candidate(_plain(plan), (name,)) for name, plan in _drawn(subject, PER_LAW, 0, owner))


def applicable(subject: Subject) -> list[Law]:
    """Laws that judge single calls of the subject."""
    return [one for one in laws() if not one.heavy and one.name not in (RESIZING, BACKWARD) and one.applies(subject) is None]


def weight(subject: Subject, plan: Plan) -> int:
    """How many numbers a vector of a plan holds, roughly: inputs, parameters, outputs with their bounds."""
    B, H, Lq, Lk, D = plan.batch, plan.heads, plan.query_length, plan.key_length, plan.head_dim
    learned = sum(prod(shape) for shape in subject.cls(**plan.settings).parameters().values())
    queries, keys, pairs = B * H * Lq * D, B * (plan.kv_heads or H) * Lk * D, B * H * Lq * Lk
    if subject.level == "attention":
        return learned + 4 * queries + 2 * keys + 3 * pairs
    if subject.level == "logits":
        return learned + queries + keys + 3 * pairs
    return learned + {"rotation": 4 * (queries + keys), "embedding": 3 * Lq * D}.get(subject.form, 3 * H * Lq * Lk)


def _fitting(subject: Subject, every: list[Plan], most: int = MOST_NUMBERS) -> list[Plan]:
    """Plans that the scheme has a meaning for and that are small enough, with no longer a table than they need."""
    found = [_compact(subject, plan) for plan in every if legal(subject.cls, dict(plan.settings))]
    return [plan for plan in found if weight(subject, plan) <= most]


def _compact(subject: Subject, plan: Plan) -> Plan:
    """The plan with no more to learn than it takes: sizes that the scheme draws, and a table of positions that it reads."""
    settings, defaults = dict(plan.settings), {f.name: f.default for f in fields(subject.cls)}
    for name, values in getattr(subject.cls, "draws", {}).items():
        now = settings.get(name, defaults[name])
        smaller = {**settings, name: values[0]}
        if name in subject.free and type(now) is int and now not in values and legal(subject.cls, smaller):
            settings = smaller
    if "max_position" in subject.free and hasattr(subject.cls, "capacity"):
        told = (*flat(plan.query_positions), *flat(plan.key_positions), plan.offset + plan.query_length, plan.key_length)
        settings["max_position"] = min(plan.settings["max_position"], max(told) + ROOM)
    return plan.but(settings=settings)


def _plain(plan: Plan) -> Plan:
    return plan.but(dtype=WORKING, extra={})


def _some(one: Law, subject: Subject) -> list[Plan]:
    every = _fitting(subject, one.pinned(subject))
    if one.name == EVERYTHING or len(every) <= PER_LAW:
        return every
    return [every[n * (len(every) - 1) // (PER_LAW - 1)] for n in range(PER_LAW)]


def _backward(subject: Subject) -> list[Plan]:
    """The inputs at which gradients are owed, once each: a vector has the gradients of all inputs."""
    return list({_plain(plan).to_json(): plan for plan in _fitting(subject, law(BACKWARD).pinned(subject))}.values())


def _drawn(subject: Subject, count: int, number: int, owner: Law | None = None) -> list[tuple[str, Plan]]:
    """Inputs from the strategies of the laws, the same for the same seed."""
    if count == 0:
        return []
    found: list[tuple[str, Plan]] = []
    sources = [owner] if owner is not None else applicable(subject)
    strategy = st.one_of(*(st.tuples(st.just(one.name), one.plans(subject)) for one in sources))
    checks = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.nested_given)
    repeat = settings(
        max_examples=4 * count + 4, database=None, deadline=None, phases=(Phase.generate,), suppress_health_check=checks
    )

    @seed(number)
    @repeat
    @given(strategy)
    def collect(pair: tuple[str, Plan]) -> None:
        found.extend((pair[0], plan) for plan in _fitting(subject, [pair[1]]))

    with private_storage():
        collect()
    return found[-count:]  # the first are the simplest


def _merged(found: list[Candidate]) -> list[Candidate]:
    """One candidate per input, with all the laws that asked for it."""
    once: dict[tuple[str, bool], Candidate] = {}
    for candidate in found:
        key = (candidate.plan.to_json(), candidate.gradient)
        before = once.get(key)
        names = (*before.laws, *candidate.laws) if before else candidate.laws
        once[key] = replace(candidate, laws=tuple(sorted(set(names), key=lambda name: int(name[1:]))))
    return list(once.values())
