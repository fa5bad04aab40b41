"""Figures over L, one per mode and dtype: latency, memory, overhead and error by direction, and what a decode step costs."""

from collections.abc import Iterator, Sequence

import matplotlib
from matplotlib.figure import Figure

from relpos.perf.figures.drawing import CROSS, HOLLOW, Drawing, add_footer, of_rows, settle
from relpos.perf.figures.panel import draw_guides, draw_lines, label_ends
from relpos.perf.figures.points import (
    CHOSEN,
    COLUMNS,
    DECODE,
    ERROR,
    LATENCY,
    OVERHEAD,
    Metric,
    Point,
    Row,
    by,
    few_enough,
    lines,
    points,
)
from relpos.perf.figures.style import LETTER_INCHES, LIMIT_LOOK, ROW, STYLE, canvas, look
from relpos.perf.point import LIMIT

AROUND = 1.1  # inches of a panel's row that are no panel: title, axis
BAND = "band: p20 to p80"
Panel = tuple[str, Metric, list[Point]]  # title, what is drawn, of which points


def over_length(rows: Sequence[Row], metric: Metric) -> Iterator[Drawing]:
    """One figure per mode and dtype, one panel per direction; latency and overhead of decoding have a figure of their own."""
    for (mode, dtype), found in by(points(rows, metric), "mode", "dtype"):
        if mode == DECODE and metric in (LATENCY, OVERHEAD):
            continue
        shown = few_enough(rows, mode, dtype)
        part = [one for one in found if one["variant"] in shown]
        panels = [(_title(one[0]), metric, one) for _, one in sorted(by(part, "panel")) if _has_values(one)]
        if panels:
            yield _drawing(f"{metric.name}-{mode}-{dtype}", panels, CHOSEN if len(part) < len(found) else "")


def decode_cost(rows: Sequence[Row]) -> Iterator[Drawing]:
    """A step's latency and its ratio to the limit's step over the number of keys, one figure per dtype."""
    steps = [one for one in rows if one["mode"] == DECODE]
    for dtype in dict.fromkeys(one["dtype"] for one in steps):
        shown, panels, left_out = few_enough(steps, DECODE, dtype), [], False
        for metric, said in ((LATENCY, "a step"), (OVERHEAD, "a step over the limit's")):
            found = [one for one in points(steps, metric) if one["dtype"] == dtype]
            part = [one for one in found if one["variant"] in shown]
            left_out |= len(part) < len(found)
            if _has_values(part):
                panels.append((f"decode: {said}, one query, L keys, {dtype}", metric, part))
        if panels:
            yield _drawing(f"{DECODE}-{dtype}", panels, CHOSEN if left_out else "")


def _title(one: Point) -> str:
    return f"{one['mode'].replace('_', ' + ')}, {one['panel']}, {one['dtype']}"


def _has_values(found: Sequence[Point]) -> bool:
    return any(one["value"] is not None and one["variant"] != LIMIT for one in found)


def _drawing(name: str, panels: Sequence[Panel], note: str) -> Drawing:
    found = [one for _, _, part in panels for one in part]
    return Drawing(name, figure_of(panels, note), COLUMNS, found)


def figure_of(panels: Sequence[Panel], note: str = "") -> Figure:
    """The panels below one another, high enough for the labels of their lines."""
    found = [one for _, _, part in panels for one in part]
    names = list(dict.fromkeys(one["variant"] for one in found if one["variant"] != LIMIT))
    looks = {name: look(number) for number, name in enumerate(names)} | {LIMIT: LIMIT_LOOK}
    most = max(len(lines(part)) for _, _, part in panels)
    figure, axes = canvas(len(panels), 1, height=max(ROW, most * LETTER_INCHES + AROUND))
    with matplotlib.rc_context(STYLE):
        add_footer(figure, of_rows(found), _marks(panels), note)
        for ax, (title, metric, part) in zip(axes[:, 0], panels, strict=True):
            draw_lines(ax, lines(part), looks, metric)
            if metric.line is None and part[0]["mode"] != DECODE:
                draw_guides(ax)
            ax.set_title(title, loc="left")
        settle(figure, last=False)  # labels stand where the axes have come to
        for ax, (_, _, part) in zip(axes[:, 0], panels, strict=True):
            label_ends(ax, lines(part), looks, metric)
        settle(figure)
    return figure


def _marks(panels: Sequence[Panel]) -> str:
    found = [(metric, one["value"]) for _, metric, part in panels for one in part]
    said = {
        BAND: any(metric.sampled for metric, _ in found),
        HOLLOW: True,
        CROSS: any(value is None for _, value in found),
        f"at {ERROR.floor:g}: that or less": any(value is not None and value < metric.floor for metric, value in found),
    }
    return " · ".join(words for words, there in said.items() if there)
