"""One panel: lines over L on logarithmic axes, bands, hollow and missing points, guides, and labels at the lines' ends."""

from collections.abc import Mapping, Sequence
from math import nan
from typing import Any

import numpy as np
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator
from scipy.optimize import isotonic_regression

from relpos.perf.figures.points import LIMIT_NAME, Metric, Point, hollow
from relpos.perf.figures.style import BEHIND, GUIDE, LEADER, LETTER_INCHES, SMALL
from relpos.perf.point import LIMIT

ROOM = 2.0  # below the lowest line, for the guides
FEW, NARROW = 100.0, 8.0  # ranges that get marks at 2 and 5 besides the powers of ten, and at more
# Of the panel's height: the first mark of no memory, from one to the next at the same length, and all of them at most.
TOP, CROSS, CROSSES = 0.98, 0.045, 0.6
BESIDE = 1.07  # of the panel's width: where marks of names stand
Line = Sequence[Point]
Looks = Mapping[str, dict[str, Any]]


def draw_lines(ax: Any, series: Mapping[str, Line], looks: Looks, metric: Metric) -> None:
    """All lines of a panel, with the limit or the bound below them, and above them a cross where there was no memory."""
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    for label, line in series.items():
        _line(ax, line, looks[label], metric)
    places = crosses(series)
    for label, at in places.items():
        ax.plot(*zip(*at, strict=True), "x", color=looks[label]["color"], markersize=9, markeredgewidth=2.2, clip_on=False,
                transform=ax.get_xaxis_transform())  # fmt: skip
    if metric.line is not None:
        ax.axhline(metric.line[0], color="black", linewidth=2.0, zorder=0)
        ax.annotate(metric.line[1], (0.01, metric.line[0]), xycoords=("axes fraction", "data"), xytext=(0, -3),
                    textcoords="offset points", va="top", fontsize=SMALL, bbox=BEHIND)  # fmt: skip
    _scales(ax, sorted({one["key_length"] for line in series.values() for one in line}), metric, places)


def _line(ax: Any, line: Line, look: Mapping[str, Any], metric: Metric) -> None:
    x, y = [one["key_length"] for one in line], [_height(one["value"], metric) for one in line]
    ax.plot(x, y, color=look["color"], linestyle=look["linestyle"], linewidth=look.get("linewidth", 1.7))
    if metric.sampled:
        low, high = ([_height(one[name], metric) for one in line] for name in ("low", "high"))
        ax.fill_between(x, low, high, color=look["color"], alpha=0.15, linewidth=0)
    for face, shaky in ((look["color"], False), ("white", True)):
        at = [(one["key_length"], height) for one, height in zip(line, y, strict=True)
              if one["value"] is not None and hollow(one) is shaky]  # fmt: skip
        if at:
            ax.plot(*zip(*at, strict=True), look["marker"] or "o", color=look["color"], markerfacecolor=face)


def _height(value: float | None, metric: Metric) -> float:
    """Where a figure is drawn; nowhere, and a gap in its line, if there is none."""
    return nan if value is None else max(value, metric.floor)


def crosses(series: Mapping[str, Line]) -> dict[str, list[tuple[int, float]]]:
    """Where the lack of memory is marked: length and height, as a fraction of the panel; no two marks are at one place."""
    gone = [one["key_length"] for line in series.values() for one in line if one["value"] is None]
    step = min(CROSS, CROSSES / max(map(gone.count, gone), default=1))
    taken: dict[int, int] = {}
    found: dict[str, list[tuple[int, float]]] = {}
    for label, line in series.items():
        for one in line:
            if one["value"] is None:
                number = taken[one["key_length"]] = taken.get(one["key_length"], -1) + 1
                found.setdefault(label, []).append((one["key_length"], TOP - step * number))
    return found


def _scales(ax: Any, lengths: list[int], metric: Metric, places: Mapping[str, list[tuple[int, float]]]) -> None:
    ax.xaxis.set_major_locator(FixedLocator(lengths))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: in_k(x)))
    ax.set_xlim(lengths[0] / 1.12, lengths[-1] * 1.12)
    low, high = ax.get_ylim()
    low = low / ROOM if metric.line is None else min(low, metric.line[0]) / 1.3
    lowest = min((y for at in places.values() for _, y in at), default=None)
    if lowest is not None:  # the lines stay below the marks
        high *= (high / low) ** (1 / (lowest - CROSS) - 1)
    ax.set_ylim(low, high)
    log_marks(ax.yaxis, low, high)
    ax.set_xlabel("L")
    ax.set_ylabel(metric.label)


def in_k(length: float) -> str:
    """A length as it is written on an axis."""
    return f"{length / 1024:g}k" if length >= 1024 else f"{length:g}"


def log_marks(axis: Any, low: float, high: float) -> None:
    """Marks of a logarithmic axis, as plain numbers, more of them where the range is small."""
    subs = (1, 1.5, 2, 3, 5, 7) if high / low < NARROW else (1, 2, 5) if high / low < FEW else (1,)
    axis.set_major_locator(LogLocator(subs=subs, numticks=20))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())


def draw_guides(ax: Any) -> None:
    """Slopes 1 and 2 through the lower left corner of what is drawn."""
    (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()
    for slope in (1, 2):
        x = np.geomspace(left, right, 50)
        y = low * 1.15 * (x / left) ** slope
        inside = y <= high
        ax.plot(x[inside], y[inside], **GUIDE)
        at = int(0.7 * np.flatnonzero(inside)[-1])
        name = f"∝ L{'²' if slope == 2 else ''}"
        ax.text(x[at], y[at], name, ha="center", va="center", color="0.4", fontsize=SMALL, bbox=BEHIND, zorder=0.5)
    ax.set_ylim(low, high)


def label_ends(ax: Any, series: Mapping[str, Line], looks: Looks, metric: Metric) -> None:
    """Names of lines, tied to their ends."""
    places = crosses(series)
    label_beside(ax, {label: _end(ax, line, places.get(label), metric) for label, line in series.items()}, looks)


def label_beside(ax: Any, at: Mapping[str, tuple[float, float]], looks: Looks) -> None:
    """Names and marks right of the panel, moved apart so that none covers another, each tied to its place in the panel.

    at   places as fractions of the panel's width and height
    """
    order = sorted(at, key=lambda name: (at[name][1], -at[name][0], name))
    inches = ax.get_window_extent().height / ax.figure.dpi
    for name, y in zip(order, spread([at[name][1] for name in order], LETTER_INCHES / inches), strict=True):
        style = {"color": looks[name]["color"], "transform": ax.transAxes, "clip_on": False}
        ax.plot([at[name][0], BESIDE], [at[name][1], y], **LEADER, transform=ax.transAxes, clip_on=False)
        ax.plot(BESIDE, y, looks[name]["marker"] or "o", markersize=5, **style)
        ax.text(BESIDE + 0.02, y, LIMIT_NAME if name == LIMIT else name, transform=ax.transAxes, va="center", fontsize=SMALL)


def _end(ax: Any, line: Line, marks: Sequence[tuple[int, float]] | None, metric: Metric) -> tuple[float, float]:
    """Where a line ends, or where the lack of memory that ended it is marked, as a fraction of the panel."""
    last = line[-1]
    height = _height(last["value"], metric) if last["value"] is not None else 1.0
    x, y = in_panel(ax, last["key_length"], height)
    return x, y if last["value"] is not None or marks is None else marks[-1][1]


def in_panel(ax: Any, x: float, y: float) -> tuple[float, float]:
    """A place of the data as fractions of the panel's width and height."""
    across, up = ax.transAxes.inverted().transform(ax.transData.transform((x, y)))
    return float(across), float(up)


def spread(heights: Sequence[float], letter: float) -> list[float]:
    """Sorted heights with at least a letter between them and, while there is room, within 0 … 1, moved as little as can be."""
    steps = letter * np.arange(len(heights))
    moved = isotonic_regression(np.asarray(heights) - steps).x
    return [float(y) for y in np.clip(moved, 0.0, max(0.0, 1.0 - steps[-1])) + steps]
