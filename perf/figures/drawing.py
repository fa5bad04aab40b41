"""A drawing: a figure and exactly the data it shows, written as SVG, PNG and CSV; and the footer that says what they are of."""

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from relpos.perf.figures.style import SMALL, STYLE
from relpos.perf.growth import write_table
from relpos.perf.rows import RowsError

LETTERS = 112  # of a footer's line
HOLLOW, CROSS = "hollow: unstable, never ranked", "×: out of memory"


@dataclass(frozen=True)
class Drawing:
    """One figure under its name, and the rows of the CSV beside it."""

    name: str
    figure: Figure
    columns: Sequence[str]
    points: Sequence[Mapping[str, Any]]


def save(one: Drawing, folder: Path) -> list[Path]:
    """Write a drawing as CSV, SVG and PNG, the same bytes for the same data; RowsError if the folder cannot be written."""
    stem = folder / one.name
    write_table(stem.with_name(f"{one.name}.csv"), one.columns, one.points)
    found = [stem.with_name(f"{one.name}.csv")]
    kinds: tuple[tuple[str, Any], ...] = (("svg", {"Date": None}), ("png", {"Software": None}))
    for kind, metadata in kinds:
        drawn = BytesIO()
        with matplotlib.rc_context(STYLE):
            one.figure.savefig(drawn, format=kind, metadata=metadata)
        path = stem.with_name(f"{one.name}.{kind}")
        try:
            path.write_bytes(drawn.getvalue())
        except OSError as error:
            raise RowsError(f"--figures: {path} could not be written ({error.strerror}).") from None
        found.append(path)
    return found


def settle(figure: Figure, *, last: bool = True) -> None:
    """Put panels, titles and labels where they fit; after the last time they stay, which spares every saving the search."""
    with matplotlib.rc_context(STYLE):
        engine = figure.get_layout_engine()
        assert engine is not None
        engine.execute(figure)
        if last:
            figure.set_layout_engine("none")


def add_footer(figure: Figure, *lines: str) -> None:
    """Below all panels: what the data are of, what the marks mean."""
    text = "\n".join(part for line in lines if line for part in textwrap.wrap(line, LETTERS))
    figure.supxlabel(text, fontsize=SMALL, color="0.3", x=0.01, ha="left")


def of_rows(found: Iterable[Mapping[str, Any]]) -> str:
    """Version, machine, commit and day of measured points."""
    found = list(found)
    dirty = " (changed)" if any(one["dirty"] for one in found) else ""
    said = {name: ", ".join(each(found, name)) or "unknown" for name in ("version", "machine", "commit", "date")}
    return f"relpos {said['version']} · machine {said['machine']} · commit {said['commit']}{dirty} · {said['date']}"


def each(found: Iterable[Mapping[str, Any]], name: str) -> list[str]:
    """The values of a column, each once."""
    return sorted({str(one[name]) for one in found if one.get(name)})
