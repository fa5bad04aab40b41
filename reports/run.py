"""The rows of a report by what they measure, and the variant that stands for its scheme."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from relpos.perf.growth import growths
from relpos.perf.point import CONTROL, LIMIT, MODES
from relpos.perf.rows import MEASURED
from relpos.reports.numbers import ranked
from relpos.reports.source import Row

SHOWN, RANKED_AT = (1024, 4096, 16384), 4096
DTYPES = ("float32", "bfloat16", "float16", "float64")


@dataclass(frozen=True, order=True)
class Way:
    """What is compared with each other: a mode, a direction and a dtype."""

    mode: str
    causal: bool
    dtype: str

    @property
    def words(self) -> str:
        """forward, bidirectional, float32."""
        parts = [self.mode.replace("_", " + "), "causal" if self.causal else "bidirectional", self.dtype]
        return ", ".join(part for part in parts if not (self.mode == "decode" and part == "causal"))


class Run:
    """Rows of one run. Ways come in the order of the report; lengths are ascending."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.rows = tuple(rows)
        self.found = {(r["variant"], Way(r["mode"], r["causal"], r["dtype"]), r["key_length"]): r for r in self.rows}

    @cached_property
    def ways(self) -> tuple[Way, ...]:
        """All that were measured."""
        return tuple(sorted({way for _, way, _ in self.found}, key=_order))

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        """All that were measured."""
        return tuple(sorted({L for _, _, L in self.found}))

    def shown(self, way: Way) -> tuple[int, ...]:
        """Lengths with a column: the usual ones if all have figures this way, or the first, middle and last that have some."""
        there = {r["key_length"] for r in self.rows if r["status"] in MEASURED and _of(r) == (way.mode, way.causal, way.dtype)}
        able = sorted(there) or self.lengths
        if not able or set(SHOWN) <= set(able):
            return SHOWN
        middle = self.ranked_at if self.ranked_at in able[:-1] else able[len(able) // 2]
        return tuple(sorted({able[0], middle, able[-1]}))

    @property
    def measured(self) -> int:
        """Rows with a figure, those of the limit left aside."""
        return sum(r["status"] in MEASURED and r["variant"] not in (LIMIT, CONTROL) for r in self.rows)

    @property
    def ranked_at(self) -> int:
        """The length that schemes are ranked at."""
        return RANKED_AT if RANKED_AT in self.lengths or not self.lengths else self.lengths[-1]

    def at(self, variant: str | None, way: Way, length: int) -> Row | None:
        """The row of a point; None if there is none."""
        return None if variant is None else self.found.get((variant, way, length))

    def line(self, variant: str | None, way: Way) -> list[Row]:
        """Rows of all lengths."""
        return [row for length in self.lengths if (row := self.at(variant, way, length)) is not None]

    def best(self, scheme: str, way: Way) -> str | None:
        """Of the scheme's own variants the fastest that is ranked; where none is, the one with most figures; None: no row.

        Compared at `ranked_at`, or where nobody is ranked there at the greatest length at which somebody is.
        """
        mine = sorted({r["variant"] for r in self.rows if r["scheme"] == scheme and r.get("origin") == "relpos"})
        mine = [name for name in mine if self.line(name, way)]
        for length in (self.ranked_at, *reversed(self.lengths)):
            able = {name: row["median_of_ratios"] for name in mine if ranked(row := self.at(name, way, length)) and row}
            if able:
                return min(able, key=lambda name: able[name])
        return max(mine, key=lambda name: self._shown(name, way), default=None)

    def _shown(self, name: str, way: Way) -> tuple[int, float]:
        measured = [r for r in self.line(name, way) if r["status"] in MEASURED and r.get("ratios")]
        return len(measured), -measured[-1]["median_of_ratios"] if measured else 0.0

    def others(self) -> list[str]:
        """Variants from elsewhere, in the order of the rows."""
        ours = {LIMIT, CONTROL}
        return list(dict.fromkeys(r["variant"] for r in self.rows if r.get("origin") != "relpos" and r["variant"] not in ours))

    @cached_property
    def schemes(self) -> tuple[str, ...]:
        """All that have a variant of ours in the run."""
        return tuple(sorted({r["scheme"] for r in self.rows if r.get("origin") == "relpos"}))

    @cache  # noqa: B019 - a run lives as long as the report
    def growth(self, variant: str, way: Way) -> dict[str, dict[str, Any]]:
        """Fits of a variant, by metric; empty where there are too few lengths."""
        return {one["metric"]: one for one in growths(self.line(variant, way))}

    def floor(self, way: Way) -> tuple[float, float, int] | None:
        """Least and greatest median ratio of the limit to itself, and at how many shapes; None: there is no control."""
        medians = [r["median_of_ratios"] for r in self.line(CONTROL, way) if r.get("median_of_ratios")]
        return (min(medians), max(medians), len(medians)) if medians else None


def _of(row: Row) -> tuple[Any, ...]:
    return row["mode"], row["causal"], row["dtype"]


def _order(way: Way) -> tuple[Any, ...]:
    modes, dtypes = (*MODES, way.mode), (*DTYPES, way.dtype)
    return modes.index(way.mode), dtypes.index(way.dtype), way.causal
