"""An embedding: its vectors as a map, their dot products, and the wavelengths where it has frequencies."""

from typing import Any

import numpy as np

from relpos.show.drawings.panel import Panel, lines, map_of
from relpos.show.drawings.rotation import wavelengths
from relpos.show.probing import embedded, length_within

LENGTH = 96
QUERIES = (0, 16, 32)


def panels(settings: Any) -> list[Panel]:
    """The vectors, and what their dot products tell about distance."""
    learned = " (learned: drawn from seed 0)" if settings.parameters() else ""
    length = length_within(settings, LENGTH)
    e = embedded(settings, length)
    found = [
        Panel(
            f"vector of every position{learned}",
            map_of(e, "added to the token's vector", x_label="column", y_label="position p", aspect="auto"),
        ),
        Panel(f"dot product of two positions{learned}", _dots(e)),
    ]
    if hasattr(settings, "frequencies"):
        found.append(Panel("wavelength of every pair", wavelengths(settings)))
    return found


def _dots(e: np.ndarray) -> Any:
    queries = [p for p in QUERIES if p < len(e)]
    rows = []
    for p in queries:
        row = np.full(2 * len(e) - 1, np.nan)
        row[len(e) - 1 - p : 2 * len(e) - 1 - p] = e @ e[p]
        rows.append(row)
    x = np.arange(-len(e) + 1, len(e))
    return lines(x, rows, [f"p = {p}" for p in queries], "p′ − p, positions", "e[p] · e[p′]")
