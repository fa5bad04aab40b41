"""How every figure looks: colours and markers that survive greyscale and colour blindness, sizes that survive half width."""

from typing import Any

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

# Okabe and Ito's colours without yellow, which vanishes on white; markers and dashes tell apart what greyscale does not.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#6A3D9A", "#7F7F7F")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (4, 1, 1, 1)), (0, (8, 2)))
LIMIT_LOOK: dict[str, Any] = {"color": "black", "linewidth": 2.6, "linestyle": "-", "marker": ""}
GUIDE: dict[str, Any] = {"color": "0.7", "linewidth": 0.9, "linestyle": (0, (2, 2)), "zorder": 0}
# From the end of a line to its name: no colour of data, thinner and lighter than a guide.
LEADER: dict[str, Any] = {"color": "0.6", "linewidth": 0.6, "linestyle": ":", "zorder": 0.5}
BEHIND = {"facecolor": "white", "edgecolor": "none", "pad": 1.0, "alpha": 0.8}  # of text across a line
DARK, LIGHT, PALE = "#08306B", "#D55E00", "0.55"  # two that greyscale tells apart, and what is only said in passing
WIDTH, ROW = 8.0, 4.6  # inches; at half of it the smallest letters are still 5 points
SMALL = 10  # points: nothing is written smaller
LETTER_INCHES = 0.185  # from one line of small text to the next
STYLE: Any = {
    "font.family": "DejaVu Sans", "font.size": 11,
    "axes.titlesize": 11.5, "axes.labelsize": 11, "xtick.labelsize": SMALL, "ytick.labelsize": SMALL,
    "axes.spines.top": False, "axes.spines.right": False, "lines.linewidth": 1.7, "lines.markersize": 6.5,
    "svg.fonttype": "none", "svg.hashsalt": "relpos", "figure.dpi": 150, "savefig.dpi": 150,
}  # fmt: skip


def look(number: int) -> dict[str, Any]:
    """Colour, marker and dash of the n-th line; no two of the first forty are the same, in shades of grey neither."""
    turn = number // len(COLOURS)
    marker, dash = MARKERS[(number + turn) % len(MARKERS)], DASHES[turn % len(DASHES)]
    return {"color": COLOURS[number % len(COLOURS)], "marker": marker, "linestyle": dash}


def canvas(rows: int, columns: int, *, height: float = ROW, sharey: bool = False) -> tuple[Figure, Any]:
    """A figure with so many panels, [rows, columns], each row so many inches high, and room for its footer."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, height * rows), layout="constrained")
        FigureCanvasAgg(figure)
        panels = figure.subplots(rows, columns, squeeze=False, sharey=sharey)
    return figure, panels
