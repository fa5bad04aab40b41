"""Gradients that the definition prescribes for a contribution alone: a bias, an embedding or rotated vectors."""

import numpy as np

from relpos.conformance.derivatives import derivatives
from relpos.conformance.expected import Expected, expected
from relpos.conformance.gradients_rows import of_embedding
from relpos.conformance.magnitude import Size, placed_size
from relpos.conformance.plan import Inputs
from relpos.spec.attention import placed


def of_contribution(given: Inputs, name: str, cotangents: dict[str, np.ndarray]) -> Expected:
    """Rotations and embeddings act row by row: a column is moved in all rows at once."""
    if given.settings.form == "bias" and name in given.params:
        return _of_bias(given, name, cotangents["bias"])
    if given.settings.form == "bias":  # q for its dtype and device: nothing depends on it
        nothing = np.zeros_like(getattr(given, name))
        return Expected(f"gradient of {name}", "gradient", nothing, Size(nothing, nothing, 1))
    role = "key" if name in ("x of the key", "k") else "query"
    if given.settings.form == "embedding":
        return of_embedding(given, name, next(iter(cotangents.values())))
    g = cotangents[f"rotated {role}"]
    x, positions = (given.k, given.key_positions) if role == "key" else (given.q, given.query_positions)
    value, M, P = np.zeros_like(x), np.zeros_like(x), np.zeros_like(x)
    for c in range(x.shape[-1]):
        unit = np.zeros_like(x)
        unit[..., c] = 1.0
        J, size = placed(given.settings, unit, positions, role), placed_size(given.settings, unit, positions, role)
        value[..., c] = (g * J).sum(-1)
        M[..., c], P[..., c] = (np.abs(g) * size.M).sum(-1), (np.abs(g) * size.P).sum(-1)
    return Expected(f"gradient of {name}", "gradient", value, Size(M, P, x.shape[-1]))


def _of_bias(given: Inputs, name: str, g: np.ndarray) -> Expected:
    """A learned table enters a bias linearly: one entry at a time, the cotangent summed over the pairs that use it."""
    if (derive := derivatives(given.settings)) is not None:
        J, S = derive.of_parameter(given, name, bias=True)
        g = g.reshape(-1, *g.shape[-3:])  # one bias for all samples, or one each
        value, M = summed(g, J[: len(g)]), summed(np.abs(g), S[: len(g)])
        return Expected(f"gradient of {name}", "gradient", value, Size(M, np.zeros_like(M), g.size))
    table, nothing = given.params[name], {n: np.zeros_like(p) for n, p in given.params.items()}
    value, M = np.zeros_like(table), np.zeros_like(table)
    base = expected(given.but(params=nothing), "contribution")["bias"].value
    for cell in np.ndindex(table.shape):
        unit = {**nothing, name: np.zeros_like(table)}
        unit[name][cell] = 1.0
        J = change(expected(given.but(params=unit), "contribution")["bias"].value, base)
        value[cell], M[cell] = (g * J).sum(), (np.abs(g) * np.abs(J)).sum()
    return Expected(f"gradient of {name}", "gradient", value, Size(M, np.zeros_like(M), g.size))


def change(moved: np.ndarray, base: np.ndarray) -> np.ndarray:
    """moved − base; a cell that the scheme cuts off with −∞ does not change."""
    finite = np.isfinite(base)
    return np.where(finite, np.where(finite, moved, 0.0) - np.where(finite, base, 0.0), 0.0)


def summed(cells: np.ndarray, J: np.ndarray) -> np.ndarray:
    """Σ over samples, heads and pairs of cells [B, H, Lq, Lk] times J [B, …, H, Lq, Lk]."""
    return np.einsum("bhij,b...hij->...", cells, J)
