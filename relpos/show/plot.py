"""Draws a scheme: its formula on top, the panels of its drawing below. The one module that imports matplotlib."""

import re
from collections.abc import Sequence
from dataclasses import fields
from math import ceil
from textwrap import wrap
from typing import Any

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.mathtext import MathTextParser

from relpos.show.drawings import panels_of
from relpos.show.drawings.panel import Panel
from relpos.show.reading import definition
from relpos.show.typeset import mathtext

COLUMNS = {4: 2, 8: 4}  # of so many panels; otherwise up to three
WIDTH, ROW = 5.0, 4.1  # inches of a panel
INDENT = 0.3
FORMULA = 14  # points
LINE = 0.36  # inches of a line of text
STYLE: Any = {"font.size": 9, "axes.titlesize": 9.5, "mathtext.fontset": "stix", "figure.dpi": 120, "savefig.dpi": 120}


def figure(settings: Any) -> Figure:
    """The drawing of a scheme at these settings."""
    panels = panels_of(settings)
    with matplotlib.rc_context(STYLE):
        columns = COLUMNS.get(len(panels), min(3, len(panels)))
        rows = ceil(len(panels) / columns)
        width = max(WIDTH * columns, 8.0)
        words, formula = _words(settings, width), typeset(definition(type(settings)).formula, width - 0.8)
        top = LINE * (0.75 * len(words) + 1.05 * len(formula) + 0.5)
        drawn = Figure(figsize=(width, top + ROW * rows), layout="constrained")
        FigureCanvasAgg(drawn)
        parts: Any = drawn.subfigures(2, 1, height_ratios=[top, ROW * rows])
        above, below = parts
        _write(above, words, formula, (width, top))
        _place(below, panels, rows, columns)
        drawn.canvas.draw()  # under these fonts
    return drawn


def typeset(formula: Sequence[str], width: float) -> list[tuple[float, str]]:
    """Lines of a formula as mathtext, each with its indentation in inches, broken at wide gaps where they do not fit."""
    lines = []
    for line in formula:
        margin = INDENT * (len(line) - len(line.lstrip())) / 4
        wide = _measured(line)[1]
        parts = re.split(r"(?<=\S) {4,}(?!=)", line) if margin + wide > width else [line]
        lines += [(margin + INDENT * (n > 0), _measured(part)[0]) for n, part in enumerate(parts) if part.strip()]
    return lines


def _measured(line: str) -> tuple[str, float]:
    """A line as mathtext, or as it is written where that is not understood; and its width in inches."""
    text = mathtext(line)
    font = FontProperties(size=FORMULA)
    try:
        parsed = MathTextParser("path").parse(text, dpi=72, prop=font)
    except ValueError:
        text = line.strip().replace("$", r"\$")
        parsed = MathTextParser("path").parse(text, dpi=72, prop=font)
    return text, parsed.width / 72


def _words(settings: Any, width: float) -> list[str]:
    said = definition(type(settings))
    values = ", ".join(f"{field.name}={getattr(settings, field.name)}" for field in fields(settings))
    return [*wrap(f"{said.name}: {said.idea}", int(width * 10)), "", *wrap(values, int(width * 12))]


def _write(above: Any, words: list[str], formula: list[tuple[float, str]], size: tuple[float, float]) -> None:
    width, height = size
    y = height - 0.75 * LINE / 2
    for line in words:
        weight = "bold" if line in words[: words.index("")] else "normal"
        above.text(0.2 / width, y / height, line, va="center", fontsize=10 if weight == "bold" else 9, fontweight=weight)
        y -= 0.75 * LINE * (line != "")
    y -= 0.2 * LINE
    for margin, line in formula:
        above.text((0.4 + margin) / width, y / height, line, va="center", fontsize=FORMULA)
        y -= 1.05 * LINE


def _place(below: Any, panels: list[Panel], rows: int, columns: int) -> None:
    grid = below.subplots(rows, columns, squeeze=False)
    for axes, panel in zip(grid.flat, panels, strict=False):
        axes.set_title("\n".join(wrap(panel.title, 52)))
        panel.draw(axes, below)
    for axes in list(grid.flat)[len(panels) :]:
        axes.set_axis_off()
