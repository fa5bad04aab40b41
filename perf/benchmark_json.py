"""Our rows as pytest-benchmark writes its own, so that `pytest-benchmark compare` and its histograms read them."""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from pytest_benchmark import __version__ as benchmark_version
from pytest_benchmark.plugin import pytest_benchmark_generate_machine_info as get_machine_info
from pytest_benchmark.stats import Stats
from pytest_benchmark.utils import get_commit_info

from relpos.perf.rows import MEASURED

FIELDS = (
    "min", "max", "mean", "stddev", "rounds", "median", "iqr", "q1", "q3", "iqr_outliers", "stddev_outliers", "outliers",
    "ld15iqr", "hd15iqr", "ops", "total",
)  # fmt: skip


def document(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """One document of all rows that have samples, seconds as pytest-benchmark counts."""
    return {
        "machine_info": get_machine_info(),
        "commit_info": get_commit_info(),
        "benchmarks": [_benchmark(row) for row in rows if row["status"] in MEASURED and row.get("samples_ms")],
        "datetime": datetime.now(UTC).isoformat(),
        "version": benchmark_version,
    }


def dumps(rows: Iterable[Mapping[str, Any]]) -> str:
    """The document as text."""
    return json.dumps(document(rows), indent=1)


def _benchmark(row: Mapping[str, Any]) -> dict[str, Any]:
    stats = Stats()
    for sample in row["samples_ms"]:
        stats.update(sample / 1000)
    shape = {n: row[n] for n in ("mode", "causal", "dtype", "key_length")}
    direction = "causal" if row["causal"] else "bidirectional"
    name = f"{row['variant']}[{row['mode']}-{direction}-{row['dtype']}-{row['key_length']}]"
    return {
        "group": f"{row['mode']}-{direction}-{row['dtype']}-{row['key_length']}",
        "name": name,
        "fullname": f"relpos.perf::{name}",
        "params": shape,
        "param": None,
        "extra_info": {n: row[n] for n in ("status", "peak_bytes", "median_of_ratios", "machine") if n in row},
        "options": {"timer": "perf_counter_ns", "warmup": True, "disable_gc": True, "min_rounds": len(row["samples_ms"])},
        "stats": {**{n: getattr(stats, n) for n in FIELDS}, "data": stats.data, "iterations": 1},
    }
