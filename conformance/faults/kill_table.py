"""Which laws catch which faults: the rows of the kill table."""

from collections.abc import Iterator
from dataclasses import dataclass

from relpos.conformance.faults.api import Fault, Planted
from relpos.conformance.faults.registry import faults
from relpos.conformance.laws import law, laws
from relpos.conformance.laws.base import Law
from relpos.conformance.planting import levels_of, plant
from relpos.conformance.profiles import Profile
from relpos.conformance.runner import FAIL, run_law
from relpos.conformance.subject import Subject


@dataclass(frozen=True)
class Kill:
    """One fault at one level.

    owed     the law that must catch it there
    by       laws that did
    cases    ids of public reports of this kind
    """

    scheme: str
    fault: str
    says: str
    level: str
    cases: tuple[str, ...]
    owed: str
    by: tuple[str, ...]

    @property
    def killed(self) -> bool:
        """Whether the law that must catch it did."""
        return self.owed in self.by


def kill_rows(scheme: str, profile: Profile) -> Iterator[Kill]:
    """One row per fault of a scheme and level it can be planted at, under all laws."""
    for fault in faults(scheme):
        for level in levels_of(scheme, fault):
            subject = plant(scheme, level, fault)
            by = tuple(one.name for one in laws() if catches(one, subject, profile))
            yield Kill(scheme, fault.name, fault.says, subject.level, fault.cases, owed(fault, subject).name, by)


def owed(fault: Fault | Planted, subject: Subject) -> Law:
    """The law that a fault names, or L1 where that one does not apply."""
    named = law(fault.law)
    return law("L1") if named.applies(subject) or named.claimed(subject) else named


def catches(one: Law, subject: Subject, profile: Profile) -> bool:
    """Whether a law fails on a subject; the failing input is not shrunk."""
    return run_law(one, subject, profile, shrink=False).verdict == FAIL
