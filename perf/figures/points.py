"""What of the rows a figure shows: series of points, one per variant, by mode, direction and dtype."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from relpos.perf.point import CONTROL, LIMIT
from relpos.perf.rows import FAILED, MEASURED, OOM, UNSTABLE, latest

MIB = 2**20
DECODE = "decode"
MOST = 20  # lines in one panel
CHOSEN = "of each scheme and package the variant that came furthest, then fastest there"  # said where not all are shown
LIMIT_NAME = "no positions (limit)"
TAKEN = (
    "variant", "mode", "causal", "dtype", "device", "key_length", "status", "machine", "commit", "dirty", "version", "date",
    "scheme", "origin",
)  # fmt: skip
COLUMNS = (
    "panel", "metric", "variant", "scheme", "origin", "mode", "causal", "dtype", "device", "key_length", "value", "low", "high",
    "unit", "status", "machine", "commit", "dirty", "version", "date",
)  # fmt: skip
Row = Mapping[str, Any]
Point = dict[str, Any]


@dataclass(frozen=True)
class Metric:
    """What is drawn.

    column   of the rows that has it, and `per` the one that it is divided by, if any
    sampled  names the column of samples that its band is of, if it has one
    shown    statuses whose figure is shown
    floor    of what is drawn: a figure below it, such as no error at all, stands there
    line     height of a line that everything is held against, with what is said of it
    """

    name: str
    label: str
    unit: str
    column: str
    sampled: str = ""
    per: str = ""
    scale: float = 1.0
    shown: tuple[str, ...] = MEASURED
    floor: float = 0.0
    line: tuple[float, str] | None = None


LATENCY = Metric("latency", "time of a call in ms", "ms", "latency_ms", "samples_ms")
MEMORY = Metric("memory", "peak memory above the inputs in MiB", "MiB", "peak_bytes", scale=1 / MIB)
OVERHEAD = Metric("overhead", "time over that of no positions", "ratio", "median_of_ratios", "ratios", line=(1.0, LIMIT_NAME))
ERROR = Metric(
    "error", "largest error over its bound", "bound", "error_units", per="error_allowed_units", shown=(*MEASURED, FAILED),
    floor=1e-3, line=(1.0, "the bound: above it an output is wrong"),
)  # fmt: skip


def points(rows: Iterable[Row], metric: Metric) -> list[Point]:
    """One point per variant and shape that has the figure, or had no memory for it; p20 and p80 where there are samples."""
    found = []
    for one in latest(rows).values():
        if one["variant"] == CONTROL or (metric in (OVERHEAD, ERROR) and one["variant"] == LIMIT):
            continue
        value = one.get(metric.column) if one["status"] in metric.shown else None
        if value is None and one["status"] != OOM:
            continue
        samples = one.get(metric.sampled, ()) if value is not None else ()
        low, high = np.percentile(samples, [20, 80]) if samples else (value, value)
        scale = metric.scale / one[metric.per] if metric.per and value is not None else metric.scale
        shown = {n: v if v is None else float(v) * scale for n, v in (("value", value), ("low", low), ("high", high))}
        found.append({**taken(one), **shown, "metric": metric.name, "unit": metric.unit})
    return found


def taken(row: Row) -> Point:
    """What a point has of its row, whatever it shows."""
    return {**{name: row.get(name, "") for name in TAKEN}, "panel": "causal" if row["causal"] else "bidirectional"}


def lines(found: Iterable[Point]) -> dict[str, list[Point]]:
    """Points of one panel by variant, in order of length."""
    series: dict[str, list[Point]] = {}
    for one in sorted(found, key=lambda one: one["key_length"]):
        series.setdefault(one["variant"], []).append(one)
    return series


def hollow(point: Row) -> bool:
    """Whether a point is shown and never ranked."""
    return point["status"] == UNSTABLE


def by(found: Iterable[Point], *names: str) -> Iterator[tuple[tuple[Any, ...], list[Point]]]:
    """Points in groups that are alike in these columns, in the order they come."""
    groups: dict[tuple[Any, ...], list[Point]] = {}
    for one in found:
        groups.setdefault(tuple(one[name] for name in names), []).append(one)
    yield from groups.items()


def few_enough(rows: Sequence[Row], mode: str, dtype: str) -> set[str]:
    """Variants that a panel over L has room for: all, or, of each scheme and package, the fastest at its greatest length."""
    found = [one for one in latest(rows).values() if (one["mode"], one["dtype"]) == (mode, dtype)]
    found = [one for one in found if one["variant"] not in (LIMIT, CONTROL) and one["status"] in (*MEASURED, OOM, FAILED)]
    labels = {one["variant"] for one in found}
    if len(labels) <= MOST:
        return labels | {LIMIT}
    standing: dict[tuple[str, str], list[str]] = {}
    for (label, scheme, origin), _ in by(map(taken, found), "variant", "scheme", "origin"):
        standing.setdefault((scheme, origin), []).append(label)
    ranks = {label: _rank([one for one in found if one["variant"] == label]) for label in labels}
    return {min(those, key=lambda label: (ranks[label], label)) for those in standing.values()} | {LIMIT}


def _rank(of_one: Sequence[Row]) -> tuple[float, ...]:
    """Least is best: how far it came, in how many directions, whether stably, how fast."""
    measured = [one for one in of_one if one["status"] in MEASURED and one.get("median_of_ratios")]
    if not measured:
        return (0.0,)
    furthest = max(one["key_length"] for one in measured)
    there = [one for one in measured if one["key_length"] == furthest]
    return (-furthest, -len(there), sum(map(hollow, there)), sum(one["median_of_ratios"] for one in there))
