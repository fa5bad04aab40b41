"""The bars: what an implementation may cost over the limit; each is held against rows of one interleaved run.

A bar of time has two statistics, the ratio of minima and the median of the ratios round by round. It is missed only where both
miss it: on a machine with other work either of them is off now and then, seldom both.
"""

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from relpos.perf.point import CONTROL, LIMIT, THE_LIMIT, Shape, Variant
from relpos.perf.rows import MEASURED, OK, SIZED, key, row

Rows = Mapping[tuple[Any, ...], Mapping[str, Any]]
Statistic = Callable[["Bar", str, Rows], tuple[float, ...]]
LONG, LONGER = 4096, 16384
AT = Shape(key_length=LONG)
BYTES = {"float32": 4, "bfloat16": 2}
SHARE = 8  # no single allocation may hold more than this part of all scores


class Missing(LookupError):
    """There is no figure, and why."""


@dataclass(frozen=True, kw_only=True)
class Bar:
    """What is asked of some variants at a shape; whichever of them does best stands for all.

    must, aim   not to be exceeded; where `at_least`, to be reached
    against     the label of what it is held against
    also        a second shape that the statistic looks at
    """

    what: str
    labels: tuple[str, ...]
    shape: Shape
    must: float
    aim: float
    statistic: Statistic
    against: str = LIMIT
    at_least: bool = False
    also: Shape | None = None

    def reaches(self, values: tuple[float, ...], mark: float) -> bool:
        """Whether one of the statistics does."""
        return any(v >= mark if self.at_least else v <= mark for v in values)


@dataclass(frozen=True, kw_only=True)
class Reached:
    """What came of a bar: the variant that stands for it, its statistics, and the limit's against itself; or why nothing."""

    bar: Bar
    label: str = ""
    values: tuple[float, ...] = ()
    floor: tuple[float, ...] = ()
    unstable: bool = False
    reason: str = ""

    @property
    def word(self) -> str:
        """One of: not measured, missed, met, aim reached."""
        if not self.values:
            return "not measured"
        if not self.bar.reaches(self.values, self.bar.must):
            return "missed"
        return "aim reached" if self.bar.reaches(self.values, self.bar.aim) else "met"


def over_limit(bar: Bar, label: str, rows: Rows) -> tuple[float, ...]:
    """Time over the limit's: of minima, and the median of rounds."""
    one = figure(rows, label, bar.shape, "median_of_ratios")
    return one["ratio_of_minima"], one["median_of_ratios"]


def faster(bar: Bar, label: str, rows: Rows) -> tuple[float, ...]:
    """Time of the other over ours, the same two."""
    ours, theirs = (figure(rows, name, bar.shape, "samples_ms")["samples_ms"] for name in (label, bar.against))
    return min(theirs) / min(ours), statistics.median(a / b for a, b in zip(theirs, ours, strict=True))


def peak(bar: Bar, label: str, rows: Rows) -> tuple[float, ...]:
    """Peak memory over the limit's, outputs included."""
    ours, limit = (figure(rows, name, bar.shape, "peak_bytes")["peak_bytes"] for name in (label, LIMIT))
    return (ours / limit,)


def exponent(bar: Bar, label: str, rows: Rows) -> tuple[float, ...]:
    """Power of the length that the peak of a first call grows with, between both shapes."""
    assert bar.also is not None
    small, large = (figure(rows, label, shape, "first_peak_bytes")["first_peak_bytes"] for shape in (bar.shape, bar.also))
    return (math.log(large / small) / math.log(bar.also.key_length / bar.shape.key_length),)


def largest(bar: Bar, label: str, rows: Rows) -> tuple[float, ...]:
    """The largest single allocation as a part of all scores in the dtype of the call, times `SHARE`."""
    one, s = figure(rows, label, bar.shape, "largest_bytes"), bar.shape
    return (SHARE * one["largest_bytes"] / (s.batch * s.heads * s.query_length * s.key_length * BYTES[s.dtype]),)


def figure(rows: Rows, label: str, shape: Shape, column: str) -> Mapping[str, Any]:
    """The row of a variant at a shape. Missing: it has none, or not this figure."""
    name = key(row({}, Variant(label=label, spec="", scheme=""), shape, OK))
    one = rows.get(name)
    if one is None:
        raise Missing(f"{label} was not measured")
    if one["status"] not in (*MEASURED, SIZED) or column not in one:
        raise Missing(f"{label}: {one['status']}, {one.get('reason', f'no {column}')}")
    return one


def held(bars: Iterable[Bar], rows: Rows) -> Iterator[Reached]:
    """What came of every bar."""
    for bar in bars:
        found, reasons = [], []
        for label in bar.labels:
            try:
                found.append((bar.statistic(bar, label, rows), label))
            except Missing as missing:
                reasons.append(str(missing))
        if not found:
            yield Reached(bar=bar, reason="; ".join(reasons))
            continue
        values, label = (max if bar.at_least else min)(found)
        stands = figure(rows, label, bar.shape, "status")
        yield Reached(
            bar=bar, label=label, values=values, floor=_floor(bar, rows), unstable=len(values) > 1 and stands["status"] != OK
        )


def _floor(bar: Bar, rows: Rows) -> tuple[float, ...]:
    if bar.statistic not in (over_limit, faster):
        return ()
    try:
        return over_limit(bar, CONTROL, rows)
    except Missing:  # the control has failed: the bar has its figure all the same
        return ()


def sized(bars: Iterable[Bar]) -> set[Shape]:
    """Shapes at which memory is asked for."""
    asking = [bar for bar in bars if bar.statistic in (peak, exponent, largest)]
    return {shape for bar in asking for shape in (bar.shape, bar.also) if shape is not None}


def of_shapes(bars: Iterable[Bar]) -> dict[Shape, tuple[str, ...]]:
    """Which variants race at which shape, those that they are held against among them."""
    found: dict[Shape, dict[str, None]] = {}
    for bar in bars:
        for shape in (bar.shape, *((bar.also,) if bar.also else ())):
            racing = found.setdefault(shape, {})
            racing |= dict.fromkeys(bar.labels)
            if bar.against != THE_LIMIT.label:
                racing[bar.against] = None
    return {shape: tuple(labels) for shape, labels in found.items()}
