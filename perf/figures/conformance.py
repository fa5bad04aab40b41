"""The conformance matrix: which variant passes which law, of the certificates of a folder."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from relpos.conformance.certificate import read
from relpos.conformance.errors import UsageError
from relpos.perf.figures.drawing import Drawing, add_footer, each, settle
from relpos.perf.figures.points import by
from relpos.perf.figures.style import DARK, LIGHT, PALE, SMALL, STYLE, canvas
from relpos.perf.rows import RowsError

COLUMNS = ("variant", "scheme", "law", "title", "verdict", "inputs", "largest_units", "profile", "version", "laws_hash", "date")
CELL, HEADS, GAP = 0.172, 3.3, 0.35  # inches of a line; of titles and footer; lines between two schemes
# Marks by shape and weight, so that they are told apart without colour: verdict, marker, colour, size, what it says.
MARKS: Mapping[str, tuple[str, str, float, str]] = {
    "pass": ("s", DARK, 7.0, "passed"),
    "fail": ("X", LIGHT, 10.0, "failed"),
    "accepted": ("d", LIGHT, 7.0, "fails as declared"),
    "not claimed": ("o", DARK, 6.0, "not claimed"),
    "refused": ("^", DARK, 6.0, "refused every input"),
    "not applicable": (".", PALE, 3.0, "not applicable"),
}
OPEN = ("not claimed", "refused")
Mark = Mapping[str, Any]


def conformance(folder: Path) -> Drawing:
    """The figure of all certificates of a folder; RowsError if there is none or one is broken."""
    found = marks(folder)
    return Drawing("conformance", figure_of(found), COLUMNS, found)


def marks(folder: Path) -> list[Mark]:
    """One mark per certificate and law that was judged."""
    try:
        documents = {path.stem.replace("__", "/"): read(path) for path in sorted(folder.glob("*.json"))}
    except (UsageError, OSError) as error:
        raise RowsError(f"no conformance matrix: {error}") from None
    if not documents:
        raise RowsError(f"no conformance matrix: there are no certificates in {folder}; `relpos builtins --certificates` "
                        "writes them.")  # fmt: skip
    return [_mark(variant, document["header"], one) for variant, document in documents.items() for one in document["results"]]


def _mark(variant: str, header: Mapping[str, Any], result: Mapping[str, Any]) -> Mark:
    of_result = {name: result[name] for name in ("law", "title", "verdict", "inputs", "largest_units")}
    of_header = {"version": header["relpos"], **{name: header[name] for name in ("profile", "scheme", "laws_hash", "date")}}
    return {"variant": variant, **of_result, **of_header}


def figure_of(found: Sequence[Mark]) -> Figure:
    """A line per variant, a column per law, schemes set apart."""
    heights = _heights(found)
    columns = range(1, max(_number(one) for one in found) + 1)
    titles = {_number(one): f"L{_number(one)} {one['title']}" for one in found}
    figure, ((ax,),) = canvas(1, 1, height=HEADS + CELL * (max(heights.values()) + 1))
    with matplotlib.rc_context(STYLE):
        blank = "" if len(titles) == len(columns) else f"blank: not tried at this profile ({', '.join(each(found, 'profile'))})"
        add_footer(figure, f"{_of(found)}", blank)
        for (verdict,), part in by(map(dict, found), "verdict"):
            marker, colour, size, _ = MARKS[verdict]
            ax.plot([_number(one) for one in part], [heights[one["variant"]] for one in part], marker, color=colour,
                    markersize=size, markerfacecolor="white" if verdict in OPEN else colour)  # fmt: skip
        ax.set_xticks(list(columns), [titles.get(n, f"L{n}") for n in columns], rotation=90)
        ax.set_yticks(list(heights.values()), list(heights))
        ax.tick_params(length=0, labeltop=True, labelbottom=False)
        ax.set(xlim=(0.4, len(columns) + 0.6), ylim=(max(heights.values()) + 0.7, -0.7))
        ax.grid(color="0.93", linewidth=0.8)
        ax.set_axisbelow(True)
        ax.spines[:].set_visible(False)
        figure.legend(handles=_legend(found), loc="upper left", frameon=False, fontsize=SMALL)
        settle(figure)
    return figure


def _number(one: Mark) -> int:
    return int(one["law"].removeprefix("L"))


def _heights(found: Sequence[Mark]) -> dict[str, float]:
    heights: dict[str, float] = {}
    height, before = -1.0, ""
    for one in found:
        if one["variant"] not in heights:
            height += 1 + (GAP if before not in ("", one["scheme"]) else 0)
            heights[one["variant"]], before = height, one["scheme"]
    return heights


def _of(found: Sequence[Mark]) -> str:
    return " · ".join(
        f"{word} {', '.join(each(found, name))}".strip()
        for word, name in (("relpos", "version"), ("laws", "laws_hash"), ("profile", "profile"), ("", "date"))
    )


def _legend(found: Sequence[Mark]) -> list[Line2D]:
    """All marks that there are, and the one for failure in any case: that there is none is what the figure says."""
    there = {one["verdict"] for one in found} | {"pass", "fail", "not claimed"}
    return [
        Line2D([], [], linestyle="", marker=marker, color=colour, markersize=size, label=said,
               markerfacecolor="white" if verdict in OPEN else colour)
        for verdict, (marker, colour, size, said) in MARKS.items()
        if verdict in there
    ]  # fmt: skip
