"""What of the rows a figure shows: series of points, one per variant, by mode, direction and dtype."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from relpos.perf.point import CONTROL, LIMIT
from relpos.perf.rows import MEASURED, OOM, UNSTABLE, latest

MIB = 2**20
Panel = tuple[str, str]  # mode and dtype: one figure
COLUMNS = (
    "panel", "variant", "mode", "causal", "dtype", "device", "key_length", "value", "low", "high", "unit", "status", "machine",
    "commit", "dirty", "version", "date",
)  # fmt: skip


@dataclass(frozen=True)
class Metric:
    """What is drawn: `sampled` names the column of samples that its band is of, if it has one."""

    name: str
    label: str
    unit: str
    column: str
    sampled: str = ""
    scale: float = 1.0


LATENCY = Metric("latency", "time of a call in ms", "ms", "latency_ms", "samples_ms")
MEMORY = Metric("memory", "peak memory above the inputs in MiB", "MiB", "peak_bytes", scale=1 / MIB)
OVERHEAD = Metric("overhead", "time over that of no positions", "ratio", "median_of_ratios", "ratios")


def points(rows: Iterable[Mapping[str, Any]], metric: Metric) -> list[dict[str, Any]]:
    """One point per variant and shape that has the figure, or had no memory for it; p20 and p80 where there are samples."""
    found = []
    for one in latest(rows).values():
        if one["variant"] == CONTROL or (metric is OVERHEAD and one["variant"] == LIMIT):
            continue
        value = one.get(metric.column) if one["status"] in MEASURED else None
        if value is None and one["status"] != OOM:
            continue
        samples = one.get(metric.sampled, ()) if value is not None else ()
        low, high = np.percentile(samples, [20, 80]) if samples else (value, value)
        names = (
            "variant",
            "mode",
            "causal",
            "dtype",
            "device",
            "key_length",
            "status",
            "machine",
            "commit",
            "dirty",
            "version",
            "date",
        )
        shown = {n: v if v is None else float(v) * metric.scale for n, v in (("value", value), ("low", low), ("high", high))}
        panel = "causal" if one["causal"] else "bidirectional"
        found.append({**{n: one.get(n, "") for n in names}, **shown, "panel": panel, "unit": metric.unit})
    return found


def lines(found: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Points of one panel by variant, in order of length."""
    series: dict[str, list[dict[str, Any]]] = {}
    for one in sorted(found, key=lambda one: one["key_length"]):
        series.setdefault(one["variant"], []).append(one)
    return series


def hollow(point: Mapping[str, Any]) -> bool:
    """Whether a point is shown and never ranked."""
    return point["status"] == UNSTABLE
