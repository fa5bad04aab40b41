"""Worked tables of a scheme at given settings: rows by distance, slopes, frequencies, rows of every pair."""

from math import gcd, log2, pi
from typing import Any

from relpos.show.probing import axes, positions_shown, reach, rows_read, steps
from relpos.spec.positions import Range

Rows = list[tuple[str, ...]]
FARTHEST = 160  # distances that are looked at
LENGTH = 6  # of a table of all pairs


def tables(settings: Any) -> list[tuple[str, tuple[str, ...], Rows]]:
    """(title, headings, rows) of every table that the scheme has."""
    found = []
    if hasattr(settings, "slopes"):
        found.append(("slopes", ("head", "slope m", "as a power of two", "−m at distance 100"), slopes(settings)))
    if hasattr(settings, "frequencies"):
        found.append(("frequencies", ("pair", "θ, radians per position", "wavelength, positions", "columns"), waves(settings)))
    for name in settings.parameters():
        if by_distance := distances(settings, name):
            found.append((f"rows of {name} by distance", ("row", "key − query"), by_distance))
        if pairs := pair_rows(settings, name):
            found.append((f"row of {name} for query i (down) and key j (across)", pairs[0], pairs[1:]))
    return found


def slopes(settings: Any) -> Rows:
    """Every head's slope."""
    return [(str(h), f"{m:.6g}", _power(m), f"{-100 * m:.4g}".replace("-", "−")) for h, m in enumerate(settings.slopes())]


def waves(settings: Any) -> Rows:
    """Every pair's frequency, wavelength and columns, where it says which."""
    θ = settings.frequencies()
    told = getattr(settings, "pairs", None) or getattr(settings, "columns", None)
    pairs = [", ".join(map(str, pair)) for pair in told()] if told else [""] * len(θ)
    rows = enumerate(zip(θ, pairs, strict=True))
    return [(str(m), f"{t:.6g}", f"{2 * pi / t:,.4g}" if t else "∞", pair) for m, (t, pair) in rows]


def distances(settings: Any, name: str) -> Rows:
    """Distances, key minus query, that read every row; empty where there are no such rows, or several axes."""
    if axes(settings) > 1:
        return []
    n = reach(settings, FARTHEST)
    rows = rows_read(settings, name, Range(n, 1), Range(0, 2 * n + 1))
    if rows is None:
        return []
    found: dict[int, list[str]] = {}
    for first, last in steps(rows[0].tolist()):
        found.setdefault(int(rows[0, first]), []).append(_span(first - n, last - n, n))
    return [("none" if row < 0 else str(row), "  ".join(spans)) for row, spans in sorted(found.items())]


def pair_rows(settings: Any, name: str) -> Rows:
    """Rows of all pairs of the first positions; the first entry is the heading."""
    positions = positions_shown(settings, LENGTH)
    rows = rows_read(settings, name, positions, positions)
    if rows is None:
        return []
    labels = [",".join(map(str, p)) if isinstance(p, tuple) else str(p) for p in positions][:LENGTH]
    square = rows[:LENGTH, :LENGTH]
    body = [(f"i = {label}", *("–" if r < 0 else str(r) for r in row)) for label, row in zip(labels, square, strict=True)]
    return [("", *(f"j = {label}" for label in labels)), *body]


def _span(first: int, last: int, n: int) -> str:
    """A range of distances; one that reaches the edge of what was looked at goes on beyond it."""
    low, high = ("…" if first == -n else _signed(first)), ("…" if last == n else _signed(last))
    return _signed(first) if first == last and -n < first < n else f"{low} to {high}" if low != high else "every distance"


def _signed(distance: int) -> str:
    return f"{distance:+d}".replace("-", "−") if distance else "0"


def _power(m: float) -> str:
    """2^(−3/2) where the exponent is a simple fraction."""
    if m <= 0:
        return "–"
    exponent = log2(m)
    for denominator in range(1, 65):
        numerator = round(exponent * denominator)
        if abs(numerator / denominator - exponent) <= 2.0**-40:
            shared = gcd(numerator, denominator)
            top, bottom = numerator // shared, denominator // shared
            power = f"2^{top}" if bottom == 1 else f"2^({top}/{bottom})"
            return power.replace("-", "−")
    return f"2^{exponent:.4f}".replace("-", "−")
