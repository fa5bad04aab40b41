"""Which faults the diagnosis tells apart: every fault planted, and every fault whose answers on the battery are the same.

    python -m relpos.conformance.faults.confusion [scheme …]

prints how many are named, listed among others, passed over, mistaken. The answers of the wrong definitions are compared
directly, by the bounds of the judge, from the smallest input of the battery to the largest, so that all pairs of all schemes
take seconds. `diagnose` must come to the same on whole runs.
"""

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from relpos.conformance import console
from relpos.conformance.answers import definition, prepared
from relpos.conformance.battery import battery
from relpos.conformance.diagnosis import NO_MEANING, agrees, foreign, size
from relpos.conformance.expected import Expected, forms_levels
from relpos.conformance.faults.api import Fault
from relpos.conformance.faults.registry import faults
from relpos.conformance.judge import compare
from relpos.conformance.plan import Inputs
from relpos.conformance.planting import NO_FAULT, levels_of, plant
from relpos.conformance.subject import Subject
from relpos.spec.registry import schemes, settings_class

UNIQUE, LISTED, NOTHING, WRONG = "named", "listed", "nothing", "wrong"
WORDS = (UNIQUE, LISTED, NOTHING, WRONG)
SMALL = 100  # pairs of positions
WIDTH = 9  # of a column


@dataclass(frozen=True)
class Row:
    """One fault at one level: what is said of it.

    like  names of all faults that explain its answers on the whole battery; none where it answers as the definition does
    """

    scheme: str
    level: str
    fault: str
    like: tuple[str, ...]

    @property
    def word(self) -> str:
        """How good the diagnosis is."""
        if not self.like:
            return NOTHING
        if self.fault not in self.like:
            return WRONG
        return UNIQUE if len(self.like) == 1 else LISTED


def rows(scheme: str) -> Iterator[Row]:
    """What is said of every fault of a scheme at every level it can be planted at."""
    for level in forms_levels(settings_class(scheme)):
        known = known_faults(scheme, level)
        for fault in known:
            bench = _bench(scheme, level, tuple(sorted(fault.settings.items())), tuple(sorted(fault.claims.items())))
            seen = not bench.agree(fault, NO_FAULT)
            yield Row(scheme, level, fault.name, tuple(one.name for one in known if seen and bench.agree(fault, one)))


def known_faults(scheme: str, level: str) -> list[Fault]:
    """The faults that a diagnosis at this level chooses from."""
    return [fault for fault in faults(scheme) if isinstance(fault, Fault) and level in levels_of(scheme, fault)]


def accuracy(found: list[Row]) -> list[str]:
    """One line per scheme and level: how many faults are named, listed, passed over, mistaken."""
    lines = [f"{'scheme':<18}{'level':<14}" + "".join(f"{word:>{WIDTH}}" for word in WORDS)]
    for place in dict.fromkeys((row.scheme, row.level) for row in found):
        count = Counter(row.word for row in found if (row.scheme, row.level) == place)
        lines.append(f"{place[0]:<18}{place[1]:<14}" + "".join(f"{count[word]:>{WIDTH}}" for word in WORDS))
    return lines


class _Bench:
    """The battery of one subject, and what every fault answers on it; answers are computed once, and only where asked for."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.cases = sorted((prepared(subject, plan) for plan in battery(subject)), key=size)
        self.kept: dict[tuple[str, int], dict[str, Expected] | None] = {}

    def agree(self, planted: Fault, other: Fault) -> bool:
        """Whether a fault, planted, answers as another one does, up to rounding, on all inputs."""
        if any(foreign(given, other) for given in self.cases):
            return False
        # A fault against itself shows whether its own roundings are forgiven; small inputs show that.
        cases = [n for n, given in enumerate(self.cases) if planted is not other or size(given) <= SMALL]
        return all(self._agree(planted, other, n) for n in cases)

    def _agree(self, planted: Fault, other: Fault, n: int) -> bool:
        got, want = self._answer(planted, n), self._answer(other, n)
        if got is None or want is None:
            return False
        dtype = self.cases[n].plan.dtype
        return all(agrees(compare(got[name].value.astype(np.float32), want[name], dtype), dtype) for name in want)

    def _answer(self, fault: Fault, n: int) -> dict[str, Expected] | None:
        if (fault.name, n) not in self.kept:
            self.kept[fault.name, n] = _definition(self.subject, self.cases[n], fault)
        return self.kept[fault.name, n]


def _definition(subject: Subject, given: Inputs, fault: Fault) -> dict[str, Expected] | None:
    try:
        return definition(subject, fault.apply(given).but(plan=given.plan))
    except NO_MEANING:
        return None


@cache
def _bench(scheme: str, level: str, settings: tuple, claims: tuple) -> _Bench:
    return _Bench(plant(scheme, level, replace(NO_FAULT, settings=dict(settings), claims=dict(claims))))


if __name__ == "__main__":
    console.show_lines(accuracy([row for scheme in sys.argv[1:] or schemes() for row in rows(scheme)]))
