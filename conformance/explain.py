"""A law in words: what it says, why it matters, what is drawn, to whom it applies, and the real faults it has caught."""

from collections.abc import Iterator
from functools import cache
from typing import Any

from hypothesis import given, settings

from relpos.conformance.builtins import definitions
from relpos.conformance.faults.cases import cases
from relpos.conformance.faults.common import common
from relpos.conformance.faults.registry import faults
from relpos.conformance.laws.base import Law
from relpos.conformance.loading import load
from relpos.conformance.message import headline
from relpos.conformance.plan import Plan
from relpos.conformance.profiles import PROFILES
from relpos.conformance.searching import private_storage
from relpos.conformance.subject import Subject, plug_in
from relpos.spec.registry import schemes, settings_class

EXAMPLES = 3  # drawn inputs that are shown
ANY = "any scheme"


def explanation(law: Law, subject: Subject | None = None) -> dict[str, list[str]]:
    """Paragraphs by heading; with a subject, what of it concerns that one."""
    return {
        headline(law): [law.statement],
        "Why it matters": [law.why],
        "What is drawn": [_numbers(law), *_drawn(law, subject)],
        "To whom it applies": list(_here(law, subject) if subject is not None else _everywhere(law)),
        "Real faults it has caught": list(_caught(law)),
    }


def _numbers(law: Law) -> str:
    tried = [p for p in PROFILES.values() if p.heavy or not law.heavy]
    if law.share == 0:
        return f"A fixed list of inputs, all of them at every profile ({', '.join(p.name for p in tried)})."
    return "Inputs by profile: " + ", ".join(f"{p.name} {p.inputs_for(law)}" for p in tried) + ", besides some that are fixed."


def _drawn(law: Law, subject: Subject | None) -> list[str]:
    """The first inputs for a subject, or for the first definition to which the law applies."""
    shown = subject if subject is not None and _reason(law, subject) is None else next(iter(_subjects(law)), None)
    if shown is None:
        return []
    found = [plan.describe() for plan in law.pinned(shown)[:1]] + _sample(law, shown)
    return [f"For example, of {_called(shown)}:", *(f"· {text}" for text in dict.fromkeys(found))][: EXAMPLES + 1]


def _sample(law: Law, subject: Subject) -> list[str]:
    found: list[Plan] = []

    @settings(max_examples=EXAMPLES, derandomize=True, database=None, deadline=None)
    @given(law.plans(subject))
    def collect(plan: Plan) -> None:
        found.append(plan)

    with private_storage():
        collect()
    return [plan.describe() for plan in found]


def _called(subject: Subject) -> str:
    return f"{subject.scheme} at {subject.level} level"


def _reason(law: Law, subject: Subject) -> str | None:
    """Why a law is not judged on a subject; None where it is."""
    if subject.kind == "resizer":
        return law.applies(subject)
    if reason := law.applies(subject):
        return f"it does not apply: {reason}"
    if reason := law.claimed(subject):
        return f"it is not claimed: {reason}"
    return "it is not claimed: the card says so (unclaimed)" if law.name in subject.card.unclaimed else None


def _here(law: Law, subject: Subject) -> Iterator[str]:
    reason = _reason(law, subject)
    yield f"{subject.spec} ({_called(subject)}): {'it is judged' if reason is None else reason}."
    yield _switch(law)


def _switch(law: Law) -> str:
    return f"Not claimed, it is listed and not judged: --claim unclaimed={law.name}."


@cache
def _definitions() -> tuple[Subject, ...]:
    """Every scheme's definition at every level, as the judge sees it."""
    return tuple(plug_in(load(spec), spec=spec) for spec in definitions().values())


def _subjects(law: Law) -> list[Subject]:
    return [subject for subject in _definitions() if _reason(law, subject) is None]


def _everywhere(law: Law) -> Iterator[str]:
    """Schemes by level for which it is judged, and the reasons for which it is not elsewhere."""
    found = _subjects(law)
    for level in ("contribution", "logits", "attention"):
        there = [s.scheme for s in found if s.level == level]
        possible = {s.scheme for s in _definitions() if s.level == level}
        if there:
            yield f"{level} level: " + ("every scheme" if set(there) == possible else ", ".join(there))
    if not found:
        yield "no definition of a scheme"
    reasons = {reason for s in _definitions() if (reason := _reason(law, s))}
    if reasons:
        yield "Where it is not judged:"
        yield from (f"· {reason}" for reason in sorted(reasons))
    yield _switch(law)


def _caught(law: Law) -> Iterator[str]:
    """Planted faults that it must catch, grouped by scheme; those of every scheme once."""
    groups = {name: found for name, found in _groups(law) if found}
    every = [fault for found in groups.values() for fault in found]
    ids = sorted({case for fault in every for case in fault.cases})
    if not every:
        yield "None is planted for it alone."
        return
    told = f"{len(ids)} public report{'s' * (len(ids) != 1)}" if ids else "no public report"
    yield f"{len(every)} planted fault{'s' * (len(every) != 1)}, after {told}:"
    for name, found in groups.items():
        yield f"{name}:"
        yield from (f"· {fault.says}{_ids(fault.cases)}" for fault in found)
    yield from (f"{one.id}: {one.summary}" for one in cases() if one.id in ids)


def _groups(law: Law) -> Iterator[tuple[str, list[Any]]]:
    shared = {fault.name: fault for name in schemes() for fault in common(settings_class(name)) if fault.law == law.name}
    yield ANY, list(shared.values())
    for name in schemes():
        yield name, [fault for fault in faults(name) if fault.law == law.name and fault.name not in shared]


def _ids(cases: tuple[str, ...]) -> str:
    return f" ({', '.join(cases)})" if cases else ""
