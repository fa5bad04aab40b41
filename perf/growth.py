"""How time and memory of every variant grow over L: one row per variant, mode, direction, dtype and metric."""

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from relpos.perf.point import CONTROL
from relpos.perf.rows import MEASURED, UNSTABLE, RowsError, latest
from relpos.perf.scaling import against_claim, fit

METRICS = {"latency_ms": "time", "peak_bytes": "peak memory"}
SAMPLED = ("latency_ms",)  # by rounds; other figures are the same in every one
UNLIKE = 2  # times longer for its width: 512 tokens are 16 × 32, and 1024 are 32 × 32
COLUMNS = (
    "scheme", "variant", "mode", "causal", "dtype", "metric", "points", "unstable_points", "a", "b", "p", "p_low", "p_high",
    "residual", "growth", "claimed_memory", "note",
)  # fmt: skip


def growths(rows: Iterable[Mapping[str, Any]], *, seed: int = 0) -> list[dict[str, Any]]:
    """Fits a + b·L^p of all that was measured at four lengths or more, on grids of like proportions."""
    series: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for one in latest(rows).values():
        if one["status"] in MEASURED and one["variant"] != CONTROL:
            name = tuple(one[n] for n in ("scheme", "variant", "mode", "causal", "dtype", "device"))
            series.setdefault(name, []).append(one)
    found = [_growth(points, metric, seed) for points in series.values() for metric in METRICS]
    return [one for one in found if one is not None]


def _growth(points: Sequence[Mapping[str, Any]], metric: str, seed: int) -> dict[str, Any] | None:
    points = sorted((one for one in points if one.get(metric)), key=lambda one: one["key_length"])
    samples = [one["samples_ms"] if metric == "latency_ms" else [one[metric]] for one in points]
    got = fit([one["key_length"] for one in points], samples, seed=seed) if points and _proportionate(points) else None
    if got is None:
        return None
    first, claim = points[0], points[0].get("claimed_memory")
    note = against_claim(got, claim) if metric == "peak_bytes" and claim and first["mode"] == "forward" else ""
    return {
        **{name: first[name] for name in ("scheme", "variant", "mode", "causal", "dtype")},
        "metric": metric, "points": len(points), "unstable_points": sum(one["status"] == UNSTABLE for one in points),
        "a": got.a, "b": got.b, "p": got.p, "p_low": got.low, "p_high": got.high, "residual": got.residual,
        "growth": got.word, "claimed_memory": claim or "", "note": note,
    }  # fmt: skip


def _proportionate(points: Sequence[Mapping[str, Any]]) -> bool:
    """Whether grids, where there are any, differ in size alone: 7 × 73 tokens cost something else than 64 × 64."""
    grids = [one.get("settings", {}).get("window_size") or (1, 1) for one in points]
    longer = [max(sides) / min(sides) for sides in grids]
    return max(longer) <= UNLIKE * min(longer)


def growth_lines(found: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A line per fit; growth is named only where the interval excludes its neighbours."""
    if found:
        yield "\ngrowth a + b·L^p, p with its 95 % interval"
    for one in found:
        way = f"{one['mode'].replace('_', ' + ')}, {'causal' if one['causal'] else 'bidirectional'}, {one['dtype']}"
        said = one["growth"] or "no growth is named: the interval does not exclude its neighbours"
        where = f"{one['variant']} ({way}) {METRICS[one['metric']]}"
        shaky = f"; {one['unstable_points']} of {one['points']} points unstable" if one["unstable_points"] else ""
        note = f"; {one['note']}" if one["note"] else ""
        yield f"{where}: p = {one['p']:.2f} {_sure(one)}, {said}{shaky}{note}"


def _sure(one: Mapping[str, Any]) -> str:
    """How sure an exponent is: memory is counted, so that there is nothing to resample."""
    return f"[{one['p_low']:.2f}, {one['p_high']:.2f}]" if one["metric"] in SAMPLED else "(exact)"


def write_table(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """A CSV of these columns; RowsError if there is no space or no right to write."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", newline="", encoding="utf-8") as file:
            table = csv.DictWriter(file, columns, extrasaction="ignore", lineterminator="\n")
            table.writeheader()
            table.writerows(rows)
    except OSError as error:
        raise RowsError(f"{path} could not be written ({error.strerror}).") from None
