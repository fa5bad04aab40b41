"""How small a fault's counterexample gets, from one run of the law that owes the kill, beside the size of its public report.

A size is B·H·Lq·Lk·D, the axes that nobody looks at there counted as 1, as they are in the reports; of a decode it is that of
its longest step, since reports give the step that goes wrong and not the tokens before it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from statistics import quantiles
from time import perf_counter

from rich.progress import Progress

from relpos.conformance.faults.cases import case
from relpos.conformance.faults.cells import Cell
from relpos.conformance.faults.rows import KEY, Row, Rows
from relpos.conformance.faults.spread import spread
from relpos.conformance.history_steps import BESIDE, CALL, plan_of
from relpos.conformance.judge import LawFailure
from relpos.conformance.laws import law
from relpos.conformance.plan import Plan
from relpos.conformance.planting import plant
from relpos.conformance.profiles import PROFILES
from relpos.conformance.reducing import reduced
from relpos.conformance.runner import replay, run_law
from relpos.conformance.searching import Count
from relpos.conformance.subject import Subject

BLOCK, SEED = "size", 0
SECONDS = 0.75  # of one fault, on one core
ITSELF = "relpos.conformance.faults.sizes"
HEADS_ALONE = "L10"  # slopes are one number per head


@dataclass(frozen=True)
class Size:
    """What one fault's counterexample came to; size None: the law did not fail on so few inputs."""

    cell: Cell
    size: int | None
    seconds: float

    @property
    def reported(self) -> int | None:
        """The smallest of the sizes that its public reports give; None where none does."""
        return min((s for s in (case(name).size for name in self.cell.planted().cases) if s is not None), default=None)


def homes(found: Iterable[Cell]) -> list[Cell]:
    """The places where each fault is at home, under the law that owes its kill."""
    return [cell for cell in found if cell.home and cell.owed]


def missing_sizes(rows: Rows, found: Iterable[Cell]) -> list[Cell]:
    """The places without a row."""
    return [cell for cell in homes(found) if rows.get(cell.key(BLOCK), cell.hash(ITSELF)) is None]


def run_sizes(rows: Rows, missing: Iterable[Cell], jobs: int, bar: Progress) -> None:
    """Shrink all of them, each row kept as soon as it is there."""
    tasks = [(cell,) for cell in missing]
    shown = bar.add_task("sizes", total=len(tasks))

    def done(task: tuple, row: Row) -> None:
        rows.add([row])
        bar.update(shown, description=f"{task[0].scheme} {task[0].fault}", advance=1)

    spread(measure, tasks, jobs, done)


def sizes_of(rows: Rows, found: Iterable[Cell]) -> list[Size]:
    """What the rows that are there say."""
    there = [(cell, rows.get(cell.key(BLOCK), cell.hash(ITSELF))) for cell in homes(found)]
    return [Size(cell, row["size"], row["seconds"]) for cell, row in there if row is not None]


def measure(cell: Cell) -> Row:
    """One row: the law that owes the kill, from a fixed seed, its first failure made as small as it gets."""
    started, subject = perf_counter(), plant(cell.scheme, cell.level, cell.planted())
    failure = _failure(cell, subject)
    return {
        **dict(zip(KEY, cell.key(BLOCK), strict=True)),
        "at": cell.at,
        "size": None if failure is None else size_of(cell.law, subject, failure.plan),
        "plan": None if failure is None else failure.plan.to_json(),
        "seconds": round(perf_counter() - started, 3),
        "hash": cell.hash(ITSELF),
    }


def _failure(cell: Cell, subject: Subject) -> LawFailure | None:
    one = law(cell.law)
    if cell.heavy:  # the first input that fails: each takes seconds
        results = (replay(one, subject, plan) for plan in one.pinned(subject))
        first = next((result.failure for result in results if result.failure is not None), None)
        return None if first is None else reduced(one, subject, first, Count())
    found = (run_law(one, subject, PROFILES[name], seed_number=SEED).failure for name in ("quick", "default"))
    return next((failure for failure in found if failure is not None), None)


def size_of(name: str, subject: Subject, plan: Plan) -> int:
    """B·H·Lq·Lk·D of an input, of the axes that the answer has or is made from; of several calls, the largest."""
    calls = [plan_of(plan, step) for step in plan.extra.get("steps", ()) if step["do"] in (CALL, BESIDE)]
    if "chunks" in plan.extra:  # a decode: the whole is what its steps are held against
        longest = max(plan.extra["chunks"])
        alone = subject.level == "contribution" and subject.form in ("rotation", "embedding")  # of a step's own tokens
        calls = [plan.but(query_length=longest, key_length=longest if alone else plan.key_length)]
    return max(_cells(name, subject, one) for one in calls or [plan])


def _cells(name: str, subject: Subject, plan: Plan) -> int:
    B, H, Lq, Lk, D = plan.batch, plan.heads, plan.query_length, plan.key_length, plan.head_dim
    if name == HEADS_ALONE:
        return H
    if subject.kind == "resizer":
        return max(prod(plan.extra["source_window"]), prod(plan.settings["window_size"])) ** 2
    if subject.level != "contribution":
        return B * H * Lq * Lk * D
    if subject.form == "embedding":
        return B * Lq * D
    return B * H * max(Lq, Lk) * D if subject.form == "rotation" else B * H * Lq * Lk


def told(sizes: list[Size]) -> list[str]:
    """The distribution in sentences; nothing where nothing was measured."""
    found = sorted(one.size for one in sizes if one.size is not None)
    if not found:
        return []
    low, middle, high = quantiles(found, n=4, method="inclusive") if len(found) > 1 else found * 3
    beside = [one for one in sizes if one.reported is not None and one.size is not None]
    small = sum((one.size or 0) <= (one.reported or 0) for one in beside)
    return [
        f"Counterexamples of {len(found)} of {len(sizes)} faults, made as small as they get: size B·H·Lq·Lk·D {middle:.0f} in "
        f"the median, {low:.0f} and {high:.0f} at the quartiles, {found[-1]} at worst.",
        f"Of {len(beside)} with a public report that gives a smallest input, {small} are as small as that, or smaller.",
    ]


def larger(sizes: list[Size]) -> list[tuple[str, ...]]:
    """Those that are larger than their report's, the worst ratio first; with those on which the law did not fail."""
    beside = [one for one in sizes if one.reported is not None and (one.size is None or one.size > one.reported)]
    beside.sort(key=lambda one: -(one.size or 0) / (one.reported or 1))
    return [
        (f"{one.cell.scheme} {one.cell.fault}", one.cell.at, one.cell.law, "none" if one.size is None else str(one.size),
         str(one.reported), " ".join(one.cell.planted().cases))
        for one in beside
    ]  # fmt: skip
