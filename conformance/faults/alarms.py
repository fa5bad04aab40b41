"""Alarms on right implementations: the negative controls, the definitions and the built-ins, under all laws by seed."""

from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter

from relpos.conformance.builtins import builtins, definitions
from relpos.conformance.errors import AdapterError
from relpos.conformance.faults.controls import CONTROLS
from relpos.conformance.faults.rows import Row
from relpos.conformance.faults.sources import fingerprint
from relpos.conformance.laws.base import Law
from relpos.conformance.loading import load
from relpos.conformance.profiles import PROFILES
from relpos.conformance.runner import FAIL, run_law
from relpos.conformance.smoke import smoke
from relpos.conformance.subject import Subject, plug_in

FEW = 2  # seeds of what is neither a control nor the plain variant of its scheme
PROFILE = PROFILES["quick"]
DRAWN = replace(PROFILE, scope=None)
HERE = Path(__file__).parent


@dataclass(frozen=True)
class Right:
    """An implementation on which no law may fail.

    name   of a control, a definition or a built-in
    often  whether it is tried with all the seeds asked for
    """

    name: str
    scheme: str
    often: bool

    def seeds(self, asked: int) -> int:
        """How many of the seeds asked for are spent on it."""
        return asked if self.often else min(asked, FEW)

    def hash(self) -> str:
        """Of every file that its rows depend on."""
        laws = [f"relpos.conformance.laws.{path.stem}" for path in sorted(HERE.parent.glob("laws/l[0-9]*.py"))]
        own = [f"relpos.{folder}.{self.scheme}" for folder in ("spec", "impls", "conformance.derivatives")]
        return fingerprint([*laws, *own, "relpos.conformance.faults.controls"], PROFILE.name)


def rights(scheme: str | None = None) -> list[Right]:
    """Everything that must raise no alarm; the first definition of each scheme is its plain variant."""
    found = [Right(control.name, control.scheme, True) for control in CONTROLS if scheme in (None, control.scheme)]
    plain: set[str] = set()
    for label in definitions(scheme):
        name = label.partition(" as ")[0]
        found.append(Right(label, name, name not in plain))
        plain.add(name)
    return found + [Right(label, label.partition("/")[0], False) for label in builtins(scheme)]


def subject_of(right: Right) -> Subject:
    """The implementation, plugged in and looked at by the smoke gate."""
    for control in CONTROLS:
        if control.name == right.name:
            plugged = plug_in(
                control.target, spec=control.name, scheme=control.scheme, given=control.settings, claims=control.claims
            )
            return smoke(plugged)
    spec = {**definitions(right.scheme), **builtins(right.scheme)}[right.name]
    return smoke(plug_in(load(spec), spec=spec))


def listen(right: Right, number: int) -> Row:
    """One row: the laws that raise an alarm at a seed, with the failing input of each.

    Inputs that are the same for every seed, the pinned ones and those of a small scope, are tried at seed 0 alone.
    """
    started, alarms, inputs = perf_counter(), {}, 0
    try:
        subject = subject_of(right)
        for one in PROFILE.laws() if number == 0 else map(_drawn_alone, PROFILE.laws()):
            result = run_law(one, subject, PROFILE if number == 0 else DRAWN, seed_number=number, shrink=False)
            inputs += result.inputs
            if result.verdict == FAIL and result.failure is not None:
                alarms[one.name] = f"{result.failure.says}: {result.failure.plan.to_json()}"
    except AdapterError as error:
        alarms["smoke"] = str(error)
    seconds = round(perf_counter() - started, 2)
    return {"subject": right.name, "seed": number, "alarms": alarms, "inputs": inputs, "seconds": seconds, "hash": right.hash()}


def _drawn_alone(law: Law) -> Law:
    return replace(law, pinned=lambda subject: [])
