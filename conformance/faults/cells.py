"""The cells of the kill table: every planted fault, at every level it shows at, under the law that owes its kill."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace

from relpos.conformance.faults.api import Fault, Planted
from relpos.conformance.faults.kill_table import owed
from relpos.conformance.faults.registry import faults
from relpos.conformance.faults.sources import fingerprint
from relpos.conformance.laws import law, laws
from relpos.conformance.planting import levels_of, plant
from relpos.conformance.profiles import PROFILES, Profile
from relpos.spec.registry import schemes

BLOCK = 10  # seeds that stand in one row together
ELSEWHERE = 10  # seeds at the levels of a fault after its first
HEAVY = 20  # seeds of a law that measures or compiles
PINNED = "pinned"


@dataclass(frozen=True)
class Cell:
    """One fault at one level under one law.

    level  where it is planted, as `levels_of` names it
    at     level at which the planted subject answers
    kind   the law that the fault names, whatever law owes its kill at this level
    home   whether this is the first level of the fault
    owed   whether this law owes the kill; False only in the whole matrix
    """

    scheme: str
    fault: str
    level: str
    at: str
    law: str
    kind: str
    home: bool = True
    owed: bool = True

    @property
    def name(self) -> str:
        """Where it stands, in words."""
        return f"{self.scheme} {self.fault} ({self.level}, {self.law})"

    @property
    def profile(self) -> Profile:
        """What an implementation of a user's gets; the quick one where no kill is owed."""
        return PROFILES["default" if self.owed else "quick"]

    @property
    def tries(self) -> int:
        """Drawn inputs of one seed."""
        return self.profile.inputs_for(law(self.law))

    @property
    def heavy(self) -> bool:
        """Whether its law measures or compiles, so that one input may come out differently."""
        return law(self.law).heavy

    def seeds(self, asked: int) -> int:
        """How many of the seeds asked for are spent here."""
        if not self.owed:
            return 1
        most = HEAVY if self.heavy else asked
        return min(asked, most if self.home else ELSEWHERE)

    def blocks(self, asked: int) -> tuple[str, ...]:
        """Names of the rows with drawn inputs, such as "0-9"."""
        seeds = self.seeds(asked)
        return tuple(f"{first}-{min(first + BLOCK, seeds) - 1}" for first in range(0, seeds, BLOCK))

    def key(self, block: str) -> tuple[str, ...]:
        """What tells one row from the others."""
        return (self.scheme, self.fault, self.level, self.law, block)

    def settled(self, killed: bool) -> bool:
        """Whether the pinned inputs decide for every seed: they kill and nothing is measured, or nothing is drawn."""
        return not self.heavy if killed else self.tries == 0

    def planted(self) -> Fault | Planted:
        """The fault of that name."""
        return next(fault for fault in faults(self.scheme) if fault.name == self.fault)

    def hash(self, *more: str) -> str:
        """Of every file that its rows depend on, of more modules by name, and of how many inputs are drawn."""
        one = law(self.law)
        judge = {function.__module__ for function in (one.check, one.plans, one.pinned)}
        own = [f"relpos.{folder}.{self.scheme}" for folder in ("conformance.faults", "spec", "conformance.derivatives")]
        return fingerprint(sorted({*judge, *own, *more}), str(self.tries))


def cells(scheme: str | None = None, fault: str | None = None) -> list[Cell]:
    """All cells, or those of a scheme or of a fault."""
    found = []
    for name in schemes() if scheme is None else (scheme,):
        for planted in faults(name):
            if fault in (None, planted.name):
                found += _of_fault(name, planted)
    return found


def _of_fault(scheme: str, fault: Fault | Planted) -> Iterable[Cell]:
    for n, level in enumerate(levels_of(scheme, fault)):
        subject = plant(scheme, level, fault)
        yield Cell(scheme, fault.name, level, subject.level, owed(fault, subject).name, fault.law, home=n == 0)


def matrix(found: Iterable[Cell]) -> list[Cell]:
    """Every cell under every law that applies to it; laws that measure or compile only where they owe the kill."""
    grown = []
    for cell in found:
        subject = plant(cell.scheme, cell.level, cell.planted())
        for one in laws():
            stands = not (one.applies(subject) or one.claimed(subject)) and (subject.kind == "resizer") == (one.name == "L31")
            if one.name == cell.law or (stands and not one.heavy):
                grown.append(cell if one.name == cell.law else replace(cell, law=one.name, owed=False))
    return grown


def sampled(found: list[Cell], number: int | None) -> list[Cell]:
    """So many of them, always the same, spread over schemes and laws."""
    if number is None:
        return found
    chosen = set(sorted(found, key=lambda cell: hashlib.sha256(cell.name.encode()).digest())[:number])
    return [cell for cell in found if cell in chosen]
