"""Forward against forward + backward: what each costs over the limit, a line per variant, at the greatest length of both."""

from collections.abc import Iterator, Mapping, Sequence
from math import inf
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from relpos.perf.figures.drawing import HOLLOW, Drawing, add_footer, of_rows, settle
from relpos.perf.figures.panel import in_k, log_marks
from relpos.perf.figures.points import COLUMNS, LIMIT_NAME, OVERHEAD, Point, Row, by, hollow, points
from relpos.perf.figures.style import DARK, LIGHT, PALE, SMALL, STYLE, canvas

FORWARD, TRAINING = "forward", "forward_backward"
# Told apart by shape and shade, not by colour alone.
LOOKS = {FORWARD: ("forward", "o", DARK), TRAINING: ("forward + backward", "s", LIGHT)}
LINE, AROUND = 0.235, 1.5  # inches of a variant's line, and of all else
NO_MEMORY = {FORWARD: 1.15, TRAINING: 1.3}  # times the greatest ratio: where a lack of memory is marked


def backward(rows: Sequence[Row]) -> Iterator[Drawing]:
    """One figure per dtype that has both modes at one length, one panel per direction."""
    found = [one for one in points(rows, OVERHEAD) if one["mode"] in LOOKS]
    for (dtype,), part in by(found, "dtype"):
        length = _greatest(part)
        if length is not None:
            shown = _paired([one for one in part if one["key_length"] == length])
            yield Drawing(f"backward-{dtype}", figure_of(shown), COLUMNS, shown)


def _greatest(found: Sequence[Point]) -> int | None:
    """The greatest length at which half or more of the variants that have both ratios anywhere have both."""
    both: dict[int, set[str]] = {}
    for (variant, _, length), those in by(found, "variant", "panel", "key_length"):
        if sum(one["value"] is not None for one in those) == len(LOOKS):
            both.setdefault(length, set()).add(variant)
    anywhere = set[str]().union(*both.values())
    return max((length for length, names in both.items() if 2 * len(names) >= len(anywhere)), default=None)


def _paired(found: Sequence[Point]) -> list[Point]:
    """Without the directions in which no variant has both."""
    return [one for _, part in sorted(by(found, "panel")) if _greatest(part) is not None for one in part]


def figure_of(found: Sequence[Point]) -> Figure:
    """A line per variant, cheapest training step on top."""
    panels = list(dict.fromkeys(one["panel"] for one in found))
    order = _order(found)
    heights = {name: number for number, name in enumerate(order)}
    figure, axes = canvas(1, len(panels), height=AROUND + LINE * max(4, len(order)), sharey=True)
    with matplotlib.rc_context(STYLE):
        missing = any(one["value"] is None for one in found)
        add_footer(figure, of_rows(found), " · ".join([HOLLOW, *(["× at the right: out of memory"] if missing else [])]))
        top = max(one["value"] for one in found if one["value"] is not None)
        for ax, panel in zip(axes[0], panels, strict=True):
            _panel(ax, [one for one in found if one["panel"] == panel], heights, top)
            ax.set_title(panel, loc="left")
        axes[0, 0].set_yticks(list(heights.values()), list(heights))
        first = found[0]
        figure.suptitle(f"time over that of {LIMIT_NAME}, L = {in_k(first['key_length'])}, {first['dtype']}", x=0.01, ha="left",
                        fontsize=STYLE["axes.titlesize"])  # fmt: skip
        figure.legend(handles=[*map(_handle, LOOKS.values())], loc="outside upper right", ncols=2, frameon=False,
                      fontsize=SMALL, borderpad=0.1)  # fmt: skip
        settle(figure)
    return figure


def _order(found: Sequence[Point]) -> list[str]:
    """Greatest ratio of a training step first, then of a call: the lowest line is drawn first."""
    cost = {one["variant"]: {TRAINING: inf, FORWARD: inf} for one in found}
    for one in found:
        if one["value"] is not None:
            of_one = cost[one["variant"]]
            of_one[one["mode"]] = min(one["value"], of_one[one["mode"]])
    return sorted(cost, key=lambda name: (*cost[name].values(), name), reverse=True)


def _panel(ax: Any, found: Sequence[Point], heights: Mapping[str, int], top: float) -> None:
    ax.set_xscale("log")
    for (name,), part in by(found, "variant"):
        values = [one["value"] for one in part if one["value"] is not None]
        if len(values) > 1:
            ax.plot(values, [heights[name]] * len(values), color=PALE, linewidth=1.2, zorder=1)
        for one in part:
            _, marker, colour = LOOKS[one["mode"]]
            if one["value"] is None:
                ax.plot(top * NO_MEMORY[one["mode"]], heights[name], "x", color=colour, markersize=8, markeredgewidth=2.2)
            else:
                ax.plot(one["value"], heights[name], marker, color=colour, markerfacecolor="white" if hollow(one) else colour)
    ax.axvline(1.0, color="black", linewidth=2.0, zorder=0.9)
    ax.grid(axis="y", color="0.9", linewidth=0.8)
    ax.set_axisbelow(True)
    ax.set_ylim(-0.7, len(heights) - 0.3)
    low, high = ax.get_xlim()
    log_marks(ax.xaxis, low, high)
    ax.set_xlabel("time over the limit's")


def _handle(one: tuple[str, str, str]) -> Any:
    name, marker, colour = one
    return Line2D([], [], linestyle="", marker=marker, color=colour, label=name)
