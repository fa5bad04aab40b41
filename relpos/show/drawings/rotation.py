"""A rotation: the angle of every pair over position, its wavelengths, and what is left of q·k over distance."""

from dataclasses import fields
from math import pi
from typing import Any

import numpy as np

from relpos.show.drawings.panel import COLOURS, Panel, lines
from relpos.spec.positions import Range

FARTHEST = 2048
NEAR = 256
UNSCALED = ("head_dim", "rotary_dim", "base", "layout", "partial")  # what a rotation is before its length is stretched


def panels(settings: Any) -> list[Panel]:
    """Angles, wavelengths, and q·k of two vectors of ones."""
    θ = frequencies(settings)
    p = np.unique(np.logspace(0, np.log10(FARTHEST), 120).astype(np.int64))
    names = [f"pair {m}" for m in range(len(θ))]
    angle = lines(p, θ[:, None] * p, names, "position p (log scale)", "angle p·θ, radians (log scale)", logarithmic="xy")
    return [
        Panel("angle of every pair over position", _with_turn(angle)),
        Panel("wavelength of every pair", wavelengths(settings)),
        Panel("q·k over distance, of two vectors of ones", _decay(settings)),
    ]


def frequencies(settings: Any) -> np.ndarray:
    """θ of every pair; where it depends on the length of the context, at its farthest reach."""
    if getattr(settings, "length_dependent", False) and getattr(settings, "max_position", None):
        return np.asarray(settings.frequencies(int(settings.max_position * settings.factor)))
    return np.asarray(settings.frequencies(), dtype=np.float64)


def wavelengths(settings: Any) -> Any:
    """2π/θ of every pair, and of the same rotation before scaling."""
    curves = [("", frequencies(settings))]
    if getattr(settings, "scaling", "none") != "none":
        plain = type(settings)(**{f.name: getattr(settings, f.name) for f in fields(settings) if f.name in UNSCALED})
        curves = [(f"scaling={settings.scaling}", curves[0][1]), ("before scaling", frequencies(plain))]

    def draw(axes: Any, figure: Any) -> None:
        del figure
        for n, (label, θ) in enumerate(curves):
            pairs = np.arange(len(θ))[θ > 0]
            axes.plot(pairs, 2 * pi / θ[θ > 0], "os"[n] + "-:"[n], markersize=3, color=COLOURS[n], label=label)
        if len(curves) > 1:
            axes.legend(fontsize=7)
        axes.set_yscale("log")
        axes.set(xlabel="pair m", ylabel="wavelength 2π/θ, positions (log scale)")
        axes.grid(alpha=0.3)
        axes.xaxis.get_major_locator().set_params(integer=True)

    return draw


def _with_turn(draw_angles: Any) -> Any:
    def draw(axes: Any, figure: Any) -> None:
        axes.axhline(2 * pi, color="0.4", linewidth=1)
        axes.text(1.1, 2 * pi * 1.15, "one turn", fontsize=7, color="0.3")
        draw_angles(axes, figure)

    return draw


def _decay(settings: Any) -> Any:
    width = settings.head_dim
    ones, everywhere = np.ones((2 * NEAR + 1, width)), Range(0, 2 * NEAR + 1)
    query, keys = settings.rotate(ones, everywhere, "query")[NEAR], settings.rotate(ones, everywhere, "key")
    return lines(np.arange(-NEAR, NEAR + 1), [keys @ query], [""], "key − query, positions", "q · k, before the scale")
