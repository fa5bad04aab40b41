"""The kill table as a heat map: kind of fault by law, shaded by the share of seeds in which the law catches it."""

import csv
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from relpos.perf.figures.drawing import Drawing, add_footer, each, settle
from relpos.perf.figures.style import LIGHT, SMALL, STYLE, canvas
from relpos.perf.rows import RowsError

COLUMNS = ("kind", "law", "title", "planted", "pinned", "missed", "seeds", "killed", "share", "version", "laws_hash")
COUNTS = ("planted", "pinned", "missed", "seeds", "killed")
LETTERS = 30  # of a kind's line
LINE, HEADS = 0.36, 3.7  # inches of a kind; of titles, scale and footer
DARKEST = 0.5  # of the scale: beyond it what is written is white
Cell = Mapping[str, Any]


def kills(table: Path) -> Drawing:
    """The figure of a table that `python -m relpos faults --kills` wrote; RowsError if it is none or empty."""
    found = read(table)
    return Drawing("kills", figure_of(found), COLUMNS, found)


def read(table: Path) -> list[Cell]:
    """The cells of the table, as numbers."""
    if not table.exists():
        raise RowsError(f"no heat map of kills: there is no {table}; `nox -s faults` writes it.")
    with table.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    found: list[Cell] = []
    lacking = list(COLUMNS)
    try:
        found = [{**one, **{n: int(one[n]) for n in COUNTS}, "share": float(one["share"])} for one in rows]
        lacking = [name for name in COLUMNS if name not in found[0]]
    except (KeyError, TypeError, ValueError, IndexError):
        pass  # said below, with what is lacking
    if lacking:
        raise RowsError(f"no heat map of kills: {table} must have rows with the columns {', '.join(COLUMNS)}, as "
                        "`python -m relpos faults --kills FILE` writes them.")  # fmt: skip
    return found


def figure_of(found: Sequence[Cell]) -> Figure:
    """A line per kind of fault, a column per law that owes a kill."""
    kinds = list(dict.fromkeys(one["kind"] for one in found))
    laws = sorted({(int(one["law"].removeprefix("L")), one["title"]) for one in found})
    x = {f"L{number}": place for place, (number, _) in enumerate(laws)}
    y = {kind: place for place, kind in enumerate(kinds)}
    figure, ((ax,),) = canvas(1, 1, height=HEADS + LINE * len(kinds))
    with matplotlib.rc_context(STYLE):
        add_footer(figure, _of(found), "number: faults planted where that law owes the kill, at every level they show at · "
                   "shade: share of seeds that kill · frame: places with fewer than 99 % of the seeds")  # fmt: skip
        colours = matplotlib.colormaps["Blues"]
        for one in found:
            _cell(ax, x[one["law"]], y[one["kind"]], one, colours)
        ax.set_xticks(list(x.values()), [f"L{number} {title}" for number, title in laws], rotation=90)
        ax.set_yticks(list(y.values()), [textwrap.fill(kind, LETTERS) for kind in kinds], linespacing=0.95)
        ax.tick_params(length=0, labeltop=True, labelbottom=False)
        ax.set(xlim=(-0.6, len(laws) - 0.4), ylim=(len(kinds) - 0.4, -0.6))
        ax.grid(color="0.93", linewidth=0.8)
        ax.set_axisbelow(True)
        ax.spines[:].set_visible(False)
        scale = ScalarMappable(Normalize(0, 100), colours)
        bar = figure.colorbar(scale, ax=ax, location="bottom", fraction=0.02, pad=0.01, aspect=50, ticks=range(0, 101, 20))
        bar.set_label("seeds that kill, in percent", fontsize=SMALL)
        settle(figure)
    return figure


def _cell(ax: Any, x: int, y: int, one: Cell, colours: Any) -> None:
    frame: dict[str, Any] = {"edgecolor": "white", "linewidth": 1.0}
    if one["missed"]:
        frame = {"edgecolor": LIGHT, "linewidth": 2.5, "zorder": 2}
    ax.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=colours(one["share"]), **frame))
    text = str(one["planted"])
    ax.text(x, y, text, ha="center", va="center", fontsize=SMALL, rotation=90 if len(text) > 2 else 0,
            color="white" if one["share"] > DARKEST else "black")  # fmt: skip


def _of(found: Sequence[Cell]) -> str:
    places, missed = sum(one["planted"] for one in found), sum(one["missed"] for one in found)
    of = f"relpos {', '.join(each(found, 'version'))} · laws {', '.join(each(found, 'laws_hash'))}"
    return f"{of} · {places} places, {missed} missed"
