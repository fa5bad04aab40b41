"""One cell of the kill table: how many inputs a law takes to catch a fault, pinned ones first, then drawn ones by seed.

Nothing is shrunk or diagnosed. Pinned inputs are the same for every seed, so that they are tried once; only where a law
measures may the same input come out differently, and there they are tried again for each seed.
"""

from dataclasses import dataclass
from time import perf_counter

from hypothesis import HealthCheck, Phase, given, seed, settings

from relpos.conformance.faults.cells import PINNED, Cell
from relpos.conformance.laws import law
from relpos.conformance.laws.base import Law
from relpos.conformance.plan import Plan
from relpos.conformance.planting import plant
from relpos.conformance.runner import FAIL, private_storage, replay
from relpos.conformance.subject import Subject


class _Killed(Exception):
    """The law failed."""


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
            found[block] = [_after(pinned, try_drawn(one, subject, cell.tries, number)) for number in numbers]
    return found


def try_pinned(one: Law, subject: Subject) -> Attempt:
    """The inputs that are always tried, until one kills."""
    started, inputs = perf_counter(), 0
    for plan in one.pinned(subject):
        inputs += 1
        if replay(one, subject, plan).verdict == FAIL:
            return Attempt(inputs, True, perf_counter() - started)
    return Attempt(inputs, False, perf_counter() - started)


def try_drawn(one: Law, subject: Subject, tries: int, number: int) -> Attempt:
    """Inputs drawn from a seed, until one kills."""
    started, seen = perf_counter(), list(drawn_until(one, subject, tries, number))
    return Attempt(len(seen), bool(seen) and seen[-1][1], perf_counter() - started)


def drawn_until(one: Law, subject: Subject, tries: int, number: int) -> list[tuple[Plan, bool]]:
    """The drawn inputs with whether each kills; the first that does is the last."""
    seen: list[tuple[Plan, bool]] = []
    if tries == 0:
        return seen

    def attempt(plan: Plan) -> None:
        if not (seen and seen[-1][1]):  # the failing input comes a second time when Hypothesis reports it
            seen.append((plan, replay(one, subject, plan).verdict == FAIL))
        if seen[-1][1]:
            raise _Killed

    quiet = settings(
        max_examples=tries,
        derandomize=False,
        database=None,
        deadline=None,
        phases=(Phase.generate,),
        suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.nested_given),
        report_multiple_bugs=False,
        print_blob=False,
    )
    try:
        with private_storage():
            seed(number)(quiet(given(one.plans(subject))(attempt)))()
    except _Killed:
        pass
    return seen


def _after(pinned: Attempt, drawn: Attempt) -> Attempt:
    """What a user waits for: the pinned inputs come first, in vain."""
    return Attempt(pinned.inputs + drawn.inputs, drawn.killed, pinned.seconds + drawn.seconds)
