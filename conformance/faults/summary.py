"""What the rows of a run come to: kills of seeds, inputs and time until then, and the bars that are missed."""

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from relpos.conformance.faults.cells import Cell
from relpos.conformance.faults.killing import Attempt
from relpos.conformance.faults.kinds import KINDS, kind_of
from relpos.conformance.faults.rows import Row

PERCENT_KILLED = 99  # of the seeds, at least


@dataclass(frozen=True)
class Line:
    """One cell and its attempts, one per seed.

    pinned  whether the pinned inputs kill, so that all seeds are alike
    """

    cell: Cell
    attempts: tuple[Attempt, ...]
    pinned: bool

    @property
    def killed(self) -> int:
        """Seeds in which the law catches the fault."""
        return sum(one.killed for one in self.attempts)

    @property
    def missed(self) -> bool:
        """Whether too few seeds kill where the law owes it."""
        return self.cell.owed and 100 * self.killed < PERCENT_KILLED * len(self.attempts)

    @property
    def inputs(self) -> list[int]:
        """Inputs until the kill, of the seeds that kill."""
        return sorted(one.inputs for one in self.attempts if one.killed)

    @property
    def seconds(self) -> list[float]:
        """Time until the kill, of the seeds that kill."""
        return sorted(one.seconds for one in self.attempts if one.killed)


@dataclass(frozen=True)
class Kind:
    """All lines of one kind of fault."""

    name: str
    lines: tuple[Line, ...]

    @property
    def cells(self) -> tuple[str, ...]:
        """Faults at levels, pinned, drawn, missed; seeds killed of tried; inputs and seconds, median and worst."""
        inputs, seconds = middle_and_worst(self.lines)
        pinned, missed = sum(line.pinned for line in self.lines), sum(line.missed for line in self.lines)
        seeds = f"{sum(line.killed for line in self.lines)}/{sum(len(line.attempts) for line in self.lines)}"
        counts = (len(self.lines), pinned, len(self.lines) - pinned, missed)
        return (*map(str, counts), seeds, inputs, seconds)


def middle_and_worst(lines: Iterable[Line]) -> tuple[str, str]:
    """Inputs and seconds until the kill, the median over the lines and the worst seed of all."""
    killed = [line for line in lines if line.killed]
    if not killed:
        return "–", "–"
    inputs = median(median(line.inputs) for line in killed), max(line.inputs[-1] for line in killed)
    seconds = median(median(line.seconds) for line in killed), max(line.seconds[-1] for line in killed)
    return f"{inputs[0]:.0f}, {inputs[1]}", f"{seconds[0]:.2g}, {seconds[1]:.2g}"


def kinds(lines: Iterable[Line]) -> list[Kind]:
    """Lines by the kind of their fault, in the order of the kinds."""
    found = [line for line in lines if line.cell.owed]
    names = dict.fromkeys(kind_of(law) for laws in KINDS.values() for law in laws)
    groups = [
        Kind(name, tuple(line for line in found if kind_of(line.cell.kind, line.cell.planted().cases) == name))
        for name in names
    ]
    return [group for group in groups if group.lines]


def complaints(lines: Iterable[Line], alarms: Iterable[Row]) -> list[str]:
    """The bars that are missed, one per line."""
    found = [f"{line.cell.name}: killed in {line.killed} of {len(line.attempts)} seeds" for line in lines if line.missed]
    return found + [
        f"alarm of {law} on {row['subject']} at seed {row['seed']}: {says}"
        for row in alarms
        for law, says in row["alarms"].items()
    ]
