"""One panel: lines over L on logarithmic axes, bands, hollow and missing points, guides, and labels at the lines' ends."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

from relpos.perf.figures.points import Metric, hollow
from relpos.perf.figures.style import GUIDE, LIMIT_LOOK
from relpos.perf.point import LIMIT

LETTER = 0.047  # of the panel's height: what a line of text needs
ROOM = 2.0  # below the lowest line, for the guides and for what is said of the limit
FEW = 300.0  # a range that gets marks at 2 and 5 besides the powers of ten
TOP = 0.985  # of the panel's height: where a point without memory is marked
Line = Sequence[Mapping[str, Any]]


def draw_lines(ax: Any, series: Mapping[str, Line], looks: Mapping[str, dict[str, Any]], metric: Metric) -> None:
    """All lines of a panel, with the limit below them."""
    lengths = sorted({one["key_length"] for line in series.values() for one in line})
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    for label, line in series.items():
        _line(ax, line, LIMIT_LOOK if label == LIMIT else looks[label])
    if lengths:
        ax.xaxis.set_major_locator(FixedLocator(lengths))
        ax.xaxis.set_minor_locator(NullLocator())
        ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x / 1024:g}k" if x >= 1024 else f"{x:g}"))
        ax.set_xlim(lengths[0] / 1.12, lengths[-1] * 1.12)
    low, high = ax.get_ylim()
    ax.set_ylim(low / ROOM, high)
    ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high / low < FEW else (1,), numticks=20))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
    ax.yaxis.set_minor_formatter(FuncFormatter(lambda y, _: ""))
    ax.set_xlabel("L (queries = keys)" if metric.name else "L")
    ax.set_ylabel(metric.label)


def _line(ax: Any, line: Line, look: Mapping[str, Any]) -> None:
    there = [one for one in line if one["value"] is not None]
    x, y = [one["key_length"] for one in there], [one["value"] for one in there]
    ax.plot(x, y, color=look["color"], linestyle=look["linestyle"], linewidth=look.get("linewidth", 1.7))
    ax.fill_between(x, [p["low"] for p in there], [p["high"] for p in there], color=look["color"], alpha=0.15, linewidth=0)
    for one in there:
        face = "white" if hollow(one) else look["color"]
        marker = look["marker"] or "o"
        ax.plot(one["key_length"], one["value"], marker, color=look["color"], markerfacecolor=face, markersize=6.5)
    for one in line:
        if one["value"] is None:  # no memory: a cross at the top, where the line would have gone
            ax.plot(one["key_length"], TOP, "x", color=look["color"], markersize=10, markeredgewidth=2.2,
                    transform=ax.get_xaxis_transform(), clip_on=False)  # fmt: skip


def draw_guides(ax: Any) -> None:
    """Slopes 1 and 2 through the lower left corner of what is drawn."""
    (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()
    for slope in (1, 2):
        x = np.geomspace(left, right, 50)
        y = low * 1.15 * (x / left) ** slope
        inside = y <= high
        ax.plot(x[inside], y[inside], **GUIDE)
        at = int(0.7 * np.flatnonzero(inside)[-1])
        background = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}
        name = f"∝ L{'²' if slope == 2 else ''}"
        ax.text(x[at], y[at], name, ha="center", va="center", color="0.4", fontsize=9, bbox=background, zorder=0.5)
    ax.set_ylim(low, high)


def label_ends(ax: Any, series: Mapping[str, Line], looks: Mapping[str, dict[str, Any]]) -> None:
    """Names right of the lines' ends, moved apart so that none covers another, each tied to its line by a thin one."""
    at = {label: _end(ax, line) for label, line in series.items()}
    order = sorted(at, key=lambda name: at[name][1])
    for name, y in zip(order, spread([at[name][1] for name in order]), strict=True):
        colour = "black" if name == LIMIT else looks[name]["color"]
        text = "no positions (limit)" if name == LIMIT else name
        tie = {"arrowstyle": "-", "color": colour, "linewidth": 0.6, "shrinkA": 1, "shrinkB": 4, "relpos": (0, 0.5)}
        ax.annotate(text, xy=at[name], xytext=(1.05, y), xycoords="axes fraction", textcoords="axes fraction", va="center",
                    fontsize=10, color=colour, annotation_clip=False, arrowprops=tie)  # fmt: skip


def _end(ax: Any, line: Line) -> tuple[float, float]:
    """Where a line ends, or where the lack of memory ended it, as a fraction of the panel."""
    last = line[-1]
    height = last["value"] if last["value"] is not None else ax.get_ylim()[1]
    x, y = ax.transAxes.inverted().transform(ax.transData.transform((last["key_length"], height)))
    return float(x), float(y) if last["value"] is not None else TOP


def spread(heights: Sequence[float]) -> list[float]:
    """Sorted heights with at least a line of text between them, as near to where they were as that allows."""
    found = list(heights)
    for _ in range(200):
        moved = False
        for n in range(len(found) - 1):
            lacking = LETTER - (found[n + 1] - found[n])
            if lacking > 1e-6:
                found[n], found[n + 1], moved = found[n] - lacking / 2, found[n + 1] + lacking / 2, True
        if not moved:
            break
    return found
