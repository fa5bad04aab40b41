"""Gradients of a table of positions: what its vectors are sent is summed into the rows that were read."""

import numpy as np

from relpos.conformance.expected import Expected
from relpos.conformance.magnitude import Size
from relpos.conformance.plan import Inputs
from relpos.spec.positions import Positions


def into_rows(given: Inputs, name: str, x: np.ndarray, positions: Positions) -> np.ndarray:
    """x [B, H, L, D], summed into the rows of the table that its positions read."""
    table = np.zeros_like(given.params[name])
    for b in range(len(x)):
        np.add.at(table, [given.settings.row_of(p) for p in positions.row(b)], x[b].sum(0))
    return table


def of_embedding(given: Inputs, name: str, g: np.ndarray) -> Expected:
    """g is the cotangent of the vectors, [L, D], or of the input with them added, [B, L, D]."""
    value, M = g, np.abs(g)
    if name in given.params:
        samples = g.reshape(-1, 1, *g.shape[-2:])
        value, M = (into_rows(given, name, x, given.query_positions) for x in (samples, np.abs(samples)))
    return Expected(f"gradient of {name}", "gradient", value, Size(M, np.zeros_like(M), 2 * len(g)))
