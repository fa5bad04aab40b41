"""What faults of rotations are written with: other frequencies, pairs, angles or gains in place of the scheme's own."""

from collections.abc import Callable
from typing import Any

import numpy as np

from relpos.conformance.faults.api import Wrong
from relpos.spec.positions import Positions

Angle = Callable[[int, float], float]
Pairs = list[tuple[int, int]]


def right(p: int, θ: float) -> float:
    """The angle as it should be."""
    return p * θ


def turned(x: np.ndarray, positions: Positions, θ: np.ndarray, pairs: Pairs, angle: Angle, gains: np.ndarray) -> np.ndarray:
    """Every row turned by angle(p, θ_m) and lengthened by its gain."""
    ps, found = list(positions), np.array(x, dtype=np.float64)
    for *leading, i in np.ndindex(x.shape[:-1]):
        row = (*leading, i)
        for m, (a, b) in enumerate(pairs):
            c, s = gains[i, m] * np.cos(angle(ps[i], θ[m])), gains[i, m] * np.sin(angle(ps[i], θ[m]))
            found[(*row, a)] = x[(*row, a)] * c - x[(*row, b)] * s
            found[(*row, b)] = x[(*row, a)] * s + x[(*row, b)] * c
    return found


def turning(
    frequencies: Callable[[Any, int | None], Any] | None = None,
    pairs: Callable[[Any], Pairs] | None = None,
    angle: Angle = right,
    gains: Callable[[Any, Positions, str], Any] | None = None,
) -> Callable[[Any], Wrong]:
    """Other frequencies in a context, other pairs, an angle formed in another way, other gains (what a row or all have)."""

    def wrong(s: Any) -> Wrong:
        there = s.pairs() if pairs is None else pairs(s)

        def series(n: int | None = None) -> np.ndarray:
            return s.frequencies(n) if frequencies is None else np.array(frequencies(s, n))

        def gained(positions: Positions, role: str) -> np.ndarray:
            found = s.gains(positions, role) if gains is None else gains(s, positions, role)
            return np.broadcast_to(found, (len(positions), len(there)))

        def rotate(x: np.ndarray, positions: Positions, role: str) -> np.ndarray:
            return turned(x, positions, series(positions.context()), there, angle, gained(positions, role))

        changed = {"pairs": lambda: there, "gains": gained, "rotate": rotate}
        return Wrong(s, frequencies=lambda n=None: np.abs(series(n)), **changed)

    return wrong


def changed(change: Callable[..., np.ndarray]) -> Callable[[Any], Wrong]:
    """change(settings, x, turned x, positions, role)."""
    return lambda s: Wrong(s, rotate=lambda x, positions, role: change(s, x, s.rotate(x, positions, role), positions, role))


def series(base: float, count: int, width: float, first: int = 0) -> list[float]:
    """base^(−2m/width), counted from `first`."""
    return [base ** (-2 * m / width) for m in range(first, first + count)]
