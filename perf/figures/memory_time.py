"""Memory against time at one length, both over those of the limit: what is down and left of another is better in both."""

from collections.abc import Iterator, Sequence
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from relpos.perf.figures.drawing import HOLLOW, Drawing, add_footer, of_rows, settle
from relpos.perf.figures.panel import CROSS, CROSSES, TOP, Looks, in_k, in_panel, label_beside, log_marks
from relpos.perf.figures.points import CHOSEN, DECODE, TAKEN, Point, Row, by, few_enough, hollow, taken
from relpos.perf.figures.style import DASHES, LETTER_INCHES, LIMIT_LOOK, PALE, ROW, STYLE, canvas, look
from relpos.perf.point import CONTROL, LIMIT
from relpos.perf.rows import MEASURED, OK, OOM, latest

LENGTH = 4096
NONE = "none"  # the scheme that adds nothing to the limit, and so beats all that do
COLUMNS = ("panel", *TAKEN, "time_ratio", "memory_ratio", "on_front")
ROOM = 1.1  # beyond the outermost points
AROUND, EDGE = 1.1, 0.985  # inches of a panel's row that are no panel; of its width, where a lack of memory is marked
CROSS_SAID = " · × at the right edge: out of memory"
FRONT_SAID = "dashed: no other stable scheme with positions is both faster and smaller"


def memory_time(rows: Sequence[Row]) -> Iterator[Drawing]:
    """One figure per mode and dtype, one panel per direction, at L = 4096 or the greatest length below it that there is.

    A decode step is left out: what it allocates is a few rows.
    """
    for (mode, dtype), found in by([one for one in ratios(rows) if one["mode"] != DECODE], "mode", "dtype"):
        shown = few_enough(rows, mode, dtype)
        part = [one for one in found if one["variant"] in shown]
        panels = [_front(at) for _, of_panel in sorted(by(part, "panel")) if (at := _at_length(of_panel))]
        if panels:
            points = [one for panel in panels for one in panel]
            note = CHOSEN if len(part) < len(found) else ""
            yield Drawing(f"memory-time-{mode}-{dtype}", figure_of(panels, note), COLUMNS, points)


def ratios(rows: Sequence[Row]) -> list[Point]:
    """Time and peak memory over the limit's at the same shape, of all that have both or had no memory."""
    all_rows = list(latest(rows).values())
    of_limit = {_shape(one): one["peak_bytes"] for one in all_rows if one["variant"] == LIMIT and one.get("peak_bytes")}
    found = []
    for one in all_rows:
        if one["variant"] in (LIMIT, CONTROL) or one["status"] not in (*MEASURED, OOM):
            continue
        point = taken(one) | {"time_ratio": None, "memory_ratio": None, "on_front": False}
        if one["status"] != OOM:
            if not one.get("median_of_ratios") or not one.get("peak_bytes") or _shape(one) not in of_limit:
                continue
            point |= {"time_ratio": one["median_of_ratios"], "memory_ratio": one["peak_bytes"] / of_limit[_shape(one)]}
        found.append(point)
    return found


def _shape(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("mode", "causal", "dtype", "key_length"))


def _at_length(found: Sequence[Point]) -> list[Point]:
    length = max((one["key_length"] for one in found if one["time_ratio"] and one["key_length"] <= LENGTH), default=None)
    return [one for one in found if one["key_length"] == length]


def _front(found: Sequence[Point]) -> list[Point]:
    """The points, those marked that no other stable one with positions beats in both time and memory."""
    stable = [one for one in found if one["status"] == OK and one["scheme"] != NONE]

    def beaten(one: Point) -> bool:
        mine = one["time_ratio"], one["memory_ratio"]
        others = ((other["time_ratio"], other["memory_ratio"]) for other in stable)
        return any(t <= mine[0] and m <= mine[1] and (t, m) != mine for t, m in others)

    return [one | {"on_front": one in stable and not beaten(one)} for one in found]


def figure_of(panels: Sequence[Sequence[Point]], note: str = "") -> Figure:
    """Panels below one another, high enough for the names of their points."""
    found = [one for panel in panels for one in panel]
    names = dict.fromkeys(one["variant"] for one in found)
    looks = {name: look(number) for number, name in enumerate(names)} | {LIMIT: LIMIT_LOOK}
    most = max(map(len, panels)) + 1
    figure, axes = canvas(len(panels), 1, height=max(ROW, most * LETTER_INCHES + AROUND))
    with matplotlib.rc_context(STYLE):
        missing = CROSS_SAID if any(one["time_ratio"] is None for one in found) else ""
        add_footer(figure, of_rows(found), HOLLOW + missing, FRONT_SAID, note)
        at = [_panel(ax, panel, looks) for ax, panel in zip(axes[:, 0], panels, strict=True)]
        settle(figure, last=False)  # names stand where the axes have come to
        for ax, places in zip(axes[:, 0], at, strict=True):
            label_beside(ax, places, looks)
        settle(figure)
    return figure


def _panel(ax: Any, found: Sequence[Point], looks: Looks) -> dict[str, tuple[float, float]]:
    """Draws one panel; where each name belongs, as fractions of it."""
    there = [one for one in found if one["time_ratio"] is not None]
    _points(ax, there, looks)
    for limits, scale, axis in ((ax.get_xlim, ax.set_xlim, ax.xaxis), (ax.get_ylim, ax.set_ylim, ax.yaxis)):
        low, high = limits()
        scale(low / ROOM, high * ROOM)
        log_marks(axis, low, high)
    _draw_front(ax, sorted((one["time_ratio"], one["memory_ratio"]) for one in there if one["on_front"]))
    first = found[0]
    way = f"{first['mode'].replace('_', ' + ')}, {first['panel']}, {first['dtype']}, L = {in_k(first['key_length'])}"
    ax.set_title(way, loc="left")
    ax.set(xlabel="time over the limit's", ylabel="peak memory over the limit's")
    places = {LIMIT: in_panel(ax, 1.0, 1.0)}
    places |= {one["variant"]: in_panel(ax, one["time_ratio"], one["memory_ratio"]) for one in there}
    gone = [one for one in found if one["time_ratio"] is None]
    for number, one in enumerate(gone):
        places[one["variant"]] = (EDGE, TOP - min(CROSS, CROSSES / len(gone)) * number)
        ax.plot(*places[one["variant"]], "x", color=looks[one["variant"]]["color"], markersize=9, markeredgewidth=2.2,
                transform=ax.transAxes)  # fmt: skip
    return places


def _points(ax: Any, there: Sequence[Point], looks: Looks) -> None:
    ax.set_xscale("log")
    ax.set_yscale("log")
    for line in (ax.axvline, ax.axhline):
        line(1.0, color="black", linewidth=1.0, zorder=0)
    ax.plot(1.0, 1.0, "o", color="black", markersize=12, zorder=1)
    for one in there:
        style = looks[one["variant"]]
        face, edge = ("white", style["color"]) if hollow(one) else (style["color"], "white")  # what lies on another stands out
        ax.plot(one["time_ratio"], one["memory_ratio"], style["marker"], markersize=9, markerfacecolor=face,
                markeredgecolor=edge, markeredgewidth=1.2 if hollow(one) else 0.5)  # fmt: skip


def _draw_front(ax: Any, front: list[tuple[float, float]]) -> None:
    """The edge of what is beaten, to the ends of the axes."""
    if front:
        (_, right), (_, top) = ax.get_xlim(), ax.get_ylim()
        edge = [(front[0][0], top), *front, (right, front[-1][1])]
        ax.step(*zip(*edge, strict=True), where="post", color=PALE, linewidth=1.2, linestyle=DASHES[1], zorder=0.8)
