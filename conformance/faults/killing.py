"""One cell of the kill table: how many inputs a law takes to catch a fault, pinned ones first, then drawn ones by seed.

Nothing is shrunk or diagnosed. Pinned inputs are the same for every seed, so that they are tried once; only where a law
measures may the same input come out differently, and there they are tried again for each seed.
"""

from dataclasses import dataclass
from time import perf_counter

from relpos.conformance.faults.cells import PINNED, Cell
from relpos.conformance.laws import law
from relpos.conformance.laws.base import Law
from relpos.conformance.plan import Plan
from relpos.conformance.planting import plant
from relpos.conformance.profiles import Profile
from relpos.conformance.runner import FAIL, replay
from relpos.conformance.searching import Count, drawn
from relpos.conformance.subject import Subject


@dataclass(frozen=True)
class Attempt:
    """One seed, or the pinned inputs.

    inputs   inputs tried, the killing one included
    killed   whether one killed
    seconds  until then
    """

    inputs: int
    killed: bool
    seconds: float


def kill(cell: Cell, blocks: tuple[str, ...], pinned: Attempt | None = None) -> dict[str, list[Attempt]]:
    """Attempts by block: the pinned inputs unless they are known, and the seeds of each block if those do not kill."""
    subject, one = plant(cell.scheme, cell.level, cell.planted()), law(cell.law)
    found: dict[str, list[Attempt]] = {}
    if pinned is None:
        found[PINNED] = [try_pinned(one, subject)]
        pinned = found[PINNED][0]
    for block in () if cell.settled(pinned.killed) else blocks:
        first, last = map(int, block.split("-"))
        numbers = range(first, last + 1)
        if pinned.killed:
            found[block] = [try_pinned(one, subject) for _ in numbers]
        else:
            found[block] = [_after(pinned, try_drawn(one, subject, cell.profile, number)) for number in numbers]
    return found


def try_pinned(one: Law, subject: Subject) -> Attempt:
    """The inputs that are always tried, until one kills."""
    started, inputs = perf_counter(), 0
    for plan in one.pinned(subject):
        inputs += 1
        if replay(one, subject, plan).verdict == FAIL:
            return Attempt(inputs, True, perf_counter() - started)
    return Attempt(inputs, False, perf_counter() - started)


def try_drawn(one: Law, subject: Subject, depth: Profile, number: int) -> Attempt:
    """Inputs drawn from a seed, until one kills; a step of a history is an input."""
    started, (seen, killed) = perf_counter(), drawn_until(one, subject, depth, number)
    return Attempt(len(seen), killed, perf_counter() - started)


def drawn_until(one: Law, subject: Subject, depth: Profile, number: int) -> tuple[list[Plan], bool]:
    """The drawn inputs up to the first that kills, and whether one does. Nothing is climbed or shrunk."""
    seen: list[Plan] = []
    count = Count(journal=lambda law, plan: seen.append(plan))
    failure = drawn(one, subject, depth, number, count, shrink=False, climb=False)
    if failure is None:
        return seen, False
    return seen[: seen.index(failure.plan) + 1], True  # it comes a second time when Hypothesis reports it


def _after(pinned: Attempt, drawn: Attempt) -> Attempt:
    """What a user waits for: the pinned inputs come first, in vain."""
    return Attempt(pinned.inputs + drawn.inputs, drawn.killed, pinned.seconds + drawn.seconds)
