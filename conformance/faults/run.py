"""Runs what is missing of a kill table: cells and alarms, over several processes, each kept as soon as it is there."""

from collections.abc import Iterable

from rich.progress import Progress

from relpos.conformance.faults.alarms import Right, listen
from relpos.conformance.faults.cells import PINNED, Cell
from relpos.conformance.faults.killing import Attempt, kill
from relpos.conformance.faults.rows import Row, Rows, row_of
from relpos.conformance.faults.spread import spread
from relpos.conformance.faults.summary import Line

# Means on one core, for the estimate before the first row alone.
PINNED_SECONDS, DRAWN_SECONDS, MEASURED_SECONDS, ALARM_SECONDS = 0.15, 0.1, 3.0, 12.0
DRAWN_SHARE = 0.02  # of the cells that no pinned input decides

Kills = list[tuple[Cell, tuple[str, ...], Attempt | None]]
Listening = list[tuple[Right, int]]


def plan_kills(rows: Rows, found: Iterable[Cell], seeds: int) -> Kills:
    """The cells with rows missing, the names of those, and what is known of the pinned inputs."""
    planned: Kills = []
    for cell in found:
        _, missing = rows.attempts(cell, seeds)
        if missing:
            planned.append(
                (cell, tuple(b for b in missing if b != PINNED), rows.pinned(cell) if PINNED not in missing else None)
            )
    return planned


def plan_alarms(rows: Rows, right: Iterable[Right], seeds: int) -> Listening:
    """The right implementations and seeds without a row."""
    wanted = [(one, number) for one in right for number in range(one.seeds(seeds))]
    return [(one, number) for one, number in wanted if rows.get((one.name, number), one.hash()) is None]


def seconds_of(kills: Kills, listening: Listening) -> float:
    """About how long it takes on one core."""
    total = ALARM_SECONDS * len(listening)
    for cell, blocks, known in kills:
        seeds = sum(1 - int.__sub__(*map(int, block.split("-"))) for block in blocks)
        if cell.heavy:
            total += MEASURED_SECONDS * (seeds + 1)
        elif known is not None:
            total += DRAWN_SECONDS * seeds
        else:
            total += PINNED_SECONDS + DRAWN_SHARE * DRAWN_SECONDS * seeds * (cell.tries > 0)
    return total


def run_kills(rows: Rows, kills: Kills, jobs: int, bar: Progress) -> None:
    """Try all cells; the rows of a cell are kept together, when it is through."""
    shown = bar.add_task("faults", total=len(kills))

    def done(task: tuple, found: dict[str, list[Attempt]]) -> None:
        rows.add(row_of(task[0], block, attempts) for block, attempts in found.items())
        bar.update(shown, description=f"{task[0].scheme} {task[0].fault}", advance=1)

    spread(kill, kills, jobs, done)


def run_alarms(rows: Rows, listening: Listening, jobs: int, bar: Progress) -> None:
    """Try the right implementations."""
    shown = bar.add_task("right implementations", total=len(listening))

    def done(task: tuple, row: Row) -> None:
        rows.add([row])
        bar.update(shown, description=task[0].name, advance=1)

    spread(listen, listening, jobs, done)


def lines_of(rows: Rows, found: Iterable[Cell], seeds: int) -> list[Line]:
    """One line per cell of which all rows are there."""
    lines = []
    for cell in found:
        attempts, missing = rows.attempts(cell, seeds)
        known = rows.pinned(cell)
        if known is not None and not missing:
            lines.append(Line(cell, tuple(attempts), known.killed))
    return lines


def heard(rows: Rows, right: Iterable[Right], seeds: int) -> list[Row]:
    """The rows of the right implementations that are there."""
    wanted = [rows.get((one.name, number), one.hash()) for one in right for number in range(one.seeds(seeds))]
    return [row for row in wanted if row is not None]
