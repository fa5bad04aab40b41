"""The figures beside a report: drawn from its rows and certificates, listed with what to see in them and with their data."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from relpos.perf import figures
from relpos.perf.point import LIMIT
from relpos.perf.rows import OK, UNSTABLE
from relpos.perf.variants import CERTIFICATES
from relpos.reports.numbers import HOLLOW, short
from relpos.reports.run import Run
from relpos.reports.source import Row

KINDS = (".csv", ".svg", ".png")
# By the beginning of a figure's name, in the order of the report.
SEEN = {
    "overhead": "Time over that of attention without positions: what lies on the black line costs nothing",
    "latency": "Time of a call: beside the black line a constant factor is paid, above a steeper one more at every doubling",
    "memory": "Peak memory above the inputs: what runs along ∝ L² forms a matrix of L × L, what runs along ∝ L does not",
    "memory-time": "Memory against time at one length, over the limit: further down and left is better in both",
    "backward": "Forward against forward + backward, over the limit: a long line pays more in training than in inference",
    "decode": "One step of decoding: a line that does not rise does not mind how long the past is",
    "error": "Error at the shape that is timed, in units of its bound, which nothing may exceed",
    "conformance": "Which implementation holds which law, and which laws do not apply to it",
    "kills": "Which share of the planted faults of each kind is caught by the law that owes it",
}
OTHER = "Its data says what it shows"
RATIO = "ratio"
OVER_LENGTH = ("overhead", "latency", "memory", "decode", "error")  # lines over L


@dataclass(frozen=True)
class Figure:
    """A figure that lies there: its name, and one sentence on what to see."""

    stem: str
    caption: str


def draw(rows: Sequence[Row], kills: Path, folder: Path) -> list[Path]:
    """Draw all that there is data for, of the rows those of the first dtype of the report; the files that were written."""
    dtype = Run(rows).ways[0].dtype if rows else ""
    written = figures.draw([one for one in rows if one["dtype"] == dtype], folder) if rows else []
    for name, data in (("draw_conformance", CERTIFICATES), ("draw_kills", kills)):
        if data.exists() and (drawn := _drawing(name)) is not None:
            written += drawn(data, folder)
    return written


def _drawing(name: str) -> Any:
    return getattr(import_module("relpos.perf.figures"), name, None)


def listing(folder: Path) -> list[Figure]:
    """Figures of a folder, those of time first, decoding after whole sequences. One is three files of one name."""
    stems = [p.stem for p in folder.glob("*.svg") if all(p.with_suffix(kind).exists() for kind in KINDS)]
    kinds = [*SEEN, ""]

    def place(stem: str) -> tuple[int, bool, str]:
        return kinds.index(kind_of(stem)), "decode" in stem, stem

    return [Figure(stem, _caption(folder / f"{stem}.csv")) for stem in sorted(stems, key=place)]


def kind_of(stem: str) -> str:
    """Which kind of figure has such a name; empty: none that is known here."""
    return max((kind for kind in SEEN if stem == kind or stem.startswith(f"{kind}-")), key=len, default="")


def _caption(path: Path) -> str:
    with path.open(encoding="utf-8", newline="") as file:
        points = list(csv.DictReader(file))
    kind = kind_of(path.stem)
    return f"{SEEN.get(kind, OTHER)}{_ends(points) if kind in OVER_LENGTH else ''}."


def _ends(points: Sequence[dict[str, str]]) -> str:
    """Which variant is least and which most at the greatest length of the first panel; empty where there are no lengths.

    Where a figure shows times and ratios, the ratios.
    """
    if not points or not {"panel", "variant", "key_length", "value", "unit", "status"} <= set(points[0]):
        return ""
    unit = RATIO if any(p["unit"] == RATIO for p in points) else points[0]["unit"]
    points = [p for p in points if p["unit"] == unit]
    panel, length = points[0]["panel"], max(int(p["key_length"]) for p in points)
    there = [p for p in points if p["panel"] == panel and int(p["key_length"]) == length and p["variant"] != LIMIT]
    found = sorted((float(p["value"]), p["variant"]) for p in there if p["value"] and p["status"] == OK)
    if len(found) < 2:
        return ""
    (least, first), (most, last) = found[0], found[-1]
    said = f"{first} is least with {short(least)}{_of(unit)} and {last} most with {short(most)}{_of(unit)}"
    more = f"; hollow ({HOLLOW}) is unstable" if any(p["status"] == UNSTABLE for p in points) else ""
    return f"; at L = {length}, {panel}, {said}{more}"


def _of(unit: str) -> str:
    return {RATIO: "", "bound": " of the bound"}.get(unit, f" {unit}")
