"""What every drawing is made of: lines over distance, maps of pairs of positions, steps."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

# Okabe and Ito's colours, which the colour-blind tell apart; black last.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#8C6D1F", "#000000")
DASHES = ("-", "--", "-.", ":")
SIGNED, RISING = "PuOr_r", "cividis"
MOST_LINES = 8
FOLD = 8  # distance up to which a folded axis is even
MOST_WRITTEN = 16  # cells a side that are labelled with their number


@dataclass(frozen=True)
class Panel:
    """One set of axes: a title, and what draws into them (axes, figure)."""

    title: str
    draw: Callable[[Any, Any], None]


def lines(x: Any, rows: Any, labels: Sequence[str], x_label: str, y_label: str, **options: Any) -> Callable:
    """One line a row, `most` of them spread over all, with a legend.

    options: most, step, logarithmic ("x", "y" or "xy"), folded (x on both sides of 0: near ones wide, far ones by doubling),
    whole (only whole numbers beside y)
    """

    def draw(axes: Any, figure: Any) -> None:
        del figure
        chosen = spread(len(rows), options.get("most", MOST_LINES))
        for n, row in enumerate(chosen):
            style = {"color": COLOURS[n % len(COLOURS)], "linestyle": DASHES[n % len(DASHES)], "linewidth": 1.6}
            axes.plot(x, rows[row], label=labels[row], drawstyle="steps-mid" if options.get("step") else "default", **style)
        for axis in options.get("logarithmic", ""):
            getattr(axes, f"set_{axis}scale")("log")
        if options.get("folded"):
            axes.set_xlim(x[0], x[-1])
            axes.yaxis.get_major_locator().set_params(integer=options.get("whole", False))
            _fold(axes, int(np.abs(x).max()))
        axes.set(xlabel=x_label, ylabel=y_label)
        axes.grid(alpha=0.3)
        if labels[0]:
            axes.legend(fontsize=7, ncols=1 if len(chosen) < 5 else 2, framealpha=0.85)

    return draw


def map_of(values: np.ndarray, bar_label: str, *, x_label: str = "key j", y_label: str = "query i", **options: Any) -> Callable:
    """A map of a table, with a bar of its colours unless it has no label.

    options: aspect, ticks (names of both axes' cells), offsets (of either axis),
    numbered (whole numbers, written into small tables)
    """

    def draw(axes: Any, figure: Any) -> None:
        finite = np.ma.masked_invalid(np.asarray(values, dtype=np.float64))
        limits = {}
        if finite.min() < 0 < finite.max():  # colours around 0
            largest = float(np.abs(finite).max())
            limits = {"vmin": -largest, "vmax": largest}
        colours = SIGNED if limits else RISING
        image = axes.imshow(finite, cmap=colours, aspect=options.get("aspect", "equal"), interpolation="nearest", **limits)
        axes.set_facecolor("0.85")  # what is not finite, or reads no row
        if bar_label:
            grey = " (grey: −∞)" if np.isneginf(values).any() else " (grey: none)" if np.isnan(values).any() else ""
            bar = figure.colorbar(image, ax=axes, label=bar_label + grey, shrink=0.85)
            if options.get("numbered"):
                bar.locator.set_params(integer=True)
        axes.set(xlabel=x_label, ylabel=y_label)
        if "ticks" in options or "offsets" in options:
            down, across = options.get("offsets") or 2 * [options["ticks"]]
            axes.set_xticks(range(len(across)), [str(tick).replace("-", "−") for tick in across], fontsize=7)
            axes.set_yticks(range(len(down)), [str(tick).replace("-", "−") for tick in down], fontsize=7)
            axes.tick_params("x", labelrotation=90 if max(len(str(tick)) for tick in across) > 2 else 0)
        if options.get("numbered") and max(finite.shape) <= MOST_WRITTEN:
            _write(axes, finite)

    return draw


def spread(count: int, most: int) -> list[int]:
    """Up to `most` indices, evenly from the first to the last."""
    return sorted({round(n) for n in np.linspace(0, count - 1, min(count, most))}) if count else []


def _fold(axes: Any, far: int) -> None:
    """An axis that is even up to distance 8 and logarithmic beyond, with whole numbers on it."""
    if far <= FOLD * 4:
        return
    axes.set_xscale("symlog", linthresh=FOLD, linscale=1.0, base=2)
    ticks = [tick for tick in (FOLD << n for n in range(0, 30, 2)) if tick <= far]
    ticks = [-tick for tick in reversed(ticks)] + [-FOLD // 2, 0, FOLD // 2, *ticks]
    axes.set_xticks(ticks, [str(tick).replace("-", "−") for tick in ticks])
    axes.minorticks_off()


def _write(axes: Any, values: np.ma.MaskedArray) -> None:
    low, high = values.min(), values.max()
    for (i, j), value in np.ndenumerate(values):
        if not np.ma.is_masked(values[i, j]):
            dark = (value - low) < 0.55 * (high - low)
            size = 8 if max(values.shape) <= 9 else 7 if max(values.shape) <= 12 else 5.5
            axes.text(j, i, f"{int(value)}", ha="center", va="center", fontsize=size, color="white" if dark else "black")
