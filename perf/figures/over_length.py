"""Latency, memory or overhead over L: one figure per mode and dtype, one panel per direction."""

from collections.abc import Sequence
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from relpos.perf.figures.panel import draw_guides, draw_lines, label_ends
from relpos.perf.figures.points import OVERHEAD, Metric, lines
from relpos.perf.figures.style import STYLE, canvas, look
from relpos.perf.point import LIMIT


def over_length(found: Sequence[dict[str, Any]], metric: Metric) -> Figure:
    """The figure of points of one mode and dtype."""
    panels = [name for name in ("bidirectional", "causal") if any(one["panel"] == name for one in found)]
    names = list(dict.fromkeys(one["variant"] for one in found if one["variant"] != LIMIT))
    looks = {name: look(number) for number, name in enumerate(names)}
    first = found[0]
    figure, axes = canvas(len(panels), 1)
    with matplotlib.rc_context(STYLE):
        for ax, name in zip(axes[:, 0], panels, strict=True):
            series = lines([one for one in found if one["panel"] == name])
            draw_lines(ax, series, looks, metric)
            if metric is OVERHEAD:
                ax.axhline(1.0, color="black", linewidth=2.0, zorder=0)
                ax.annotate("no positions (limit)", (0.01, 1.0), xycoords=("axes fraction", "data"), xytext=(0, -3),
                            textcoords="offset points", va="top", fontsize=10)  # fmt: skip
            else:
                draw_guides(ax)
            ax.set_title(f"{first['mode'].replace('_', ' + ')}, {name}, {first['dtype']}", loc="left")
            figure.canvas.draw()  # labels stand where the axes have come to
            label_ends(ax, series, looks)
        figure.supxlabel(footer(found), fontsize=9, color="0.35", x=0.01, ha="left")
        figure.canvas.draw()
    return figure


def footer(found: Sequence[dict[str, Any]]) -> str:
    """Machine, commit, version; what the marks mean. The date is that of the rows' commit and machine record."""
    machines, commits = (sorted({str(one[n]) for one in found}) for n in ("machine", "commit"))
    dirty = " (changed)" if any(one["dirty"] for one in found) else ""
    versions, dates = (sorted({str(one[n]) for one in found if one.get(n)}) for n in ("version", "date"))
    marks = "band: p20 to p80 · hollow: unstable, never ranked · ×: out of memory"
    of = f"relpos {', '.join(versions)} · machine {', '.join(machines)} · commit {', '.join(commits)}{dirty}"
    return f"{of} · {', '.join(dates) or 'no date'}\n{marks}"
