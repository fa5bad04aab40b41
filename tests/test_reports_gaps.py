"""A report of little: columns of lengths that there are, and where nothing has a figure it says so first."""

from dataclasses import replace

import pytest

from perf_rows import pretended
from relpos.perf import scaling
from relpos.perf.growth import growth_lines, growths
from relpos.perf.point import CONTROL, LIMIT
from relpos.perf.rows import MEASURED
from relpos.reports import provenance
from relpos.reports.render import rendered
from relpos.reports.run import Run, Way
from relpos.reports.source import HOME
from report_rows import RECORD, cells, section

MAIN, BACK = Way("forward", False, "float32"), Way("forward_backward", True, "float32")
FIGURES = ("latency_ms", "samples_ms", "ratios", "median_of_ratios", "ratio_of_minima", "tokens_per_second", "peak_bytes")


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(scaling, "RESAMPLED", 20)


def without_figures(row, status="failed"):
    return {name: value for name, value in row.items() if name not in FIGURES} | {"status": status, "reason": "no"}


def at(rows, *lengths):
    """Rows as if they were of these lengths."""
    there = sorted({r["key_length"] for r in rows})
    return [r | {"key_length": n} for old, n in zip(there, lengths, strict=False) for r in rows if r["key_length"] == old]


@pytest.mark.parametrize(
    ("lengths", "shown"),
    [
        ((512, 1024, 2048, 4096), (512, 2048, 4096)),
        ((1024, 2048, 4096, 16384), (1024, 4096, 16384)),
        ((512, 1024, 4096, 8192), (512, 4096, 8192)),
        ((64, 128), (64, 128)),
        ((64,), (64,)),
    ],
)
def test_columns_are_those_of_lengths_that_have_figures(rows, lengths, shown):
    assert Run(at(rows, *lengths)).shown(MAIN) == shown


def test_a_length_at_which_nothing_this_way_has_a_figure_has_no_column(rows):
    gone = [without_figures(r) if (r["mode"], r["key_length"]) == (BACK.mode, 4096) else r for r in rows]
    assert Run(gone).shown(BACK) == (512, 1024, 2048) and Run(gone).shown(MAIN) == (512, 2048, 4096)


def test_no_column_of_the_verdict_is_empty(bare, rows):
    text = rendered(replace(bare, rows=tuple(rows), machine=RECORD), [], HOME)
    table = cells(section(text, "Verdict: forward, bidirectional, float32"))
    times = [name for name in next(iter(table.values())) if name.startswith("× limit at")]
    assert times == ["× limit at 512", "× limit at 2k", "× limit at 4k"]
    assert all(any(not line[name].startswith("—") for line in table.values()) for name in times)


def test_a_report_without_a_figure_says_so_first(bare, rows):
    gone = [r if r["variant"] in (LIMIT, CONTROL) else without_figures(r) for r in rows]
    found = replace(bare, rows=tuple(gone), machine=RECORD)
    said = f"none of its {len(gone)} rows has a figure of an implementation"
    assert next(provenance.doubts(found, Run(found.rows))) == said
    text = rendered(found, [], HOME)
    status = next(line for line in text.splitlines() if line.startswith("**Status"))
    assert said in status
    tried = sum(r["variant"] not in (LIMIT, CONTROL) for r in gone)
    assert f"no measured point of {tried} that were tried, of a default run" in text


def test_points_with_a_figure_are_counted_beside_those_that_were_tried(bare, rows):
    run = Run(rows)
    assert run.measured == sum(r["status"] in MEASURED and "/" in r["variant"] for r in rows) > 0
    text = rendered(replace(bare, rows=tuple(rows), machine=RECORD), [], HOME)
    assert f"{run.measured} measured points of {sum('/' in r['variant'] for r in rows)} that were tried" in text


def test_memory_is_counted_and_its_exponent_has_no_interval(bare, rows):
    memory = [line for line in growth_lines(growths(rows)) if "peak memory: p" in line]
    assert memory and all("(exact)" in line and "[" not in line for line in memory)
    assert all("[" in line for line in growth_lines(growths(rows)) if " time: p" in line)
    text = rendered(replace(bare, rows=tuple(rows), machine=RECORD), [], HOME)
    exponents = [
        line["memory grows like L to the"] for line in cells(section(text, "Verdict: forward, bidirectional, float32")).values()
    ]
    assert any(e.replace(".", "").isdigit() for e in exponents) and not any("[" in e for e in exponents)


def test_growth_is_fitted_over_grids_of_like_proportions_alone():
    """511 patches are 7 × 73, 4095 are 63 × 65: what differs between them is not their number alone."""
    rows = pretended(lengths=(512, 1024, 2048, 4096))
    label = next(one["variant"] for one in rows if "/" in one["variant"])
    ours = [one for one in rows if one["variant"] == label]
    for sides, fitted in (((16, 32), True), ((7, 73), False)):
        for one in ours:
            one["settings"] = {"window_size": list(sides) if one["key_length"] == 512 else [32, 32]}
        assert (label in {one["variant"] for one in growths(rows)}) is fitted
