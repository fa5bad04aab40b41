"""How large the terms are that get rounded: M and P of `tolerance.py`, one written formula per form and output.

    bias        M = the scheme's `magnitude`, else |bias|
    embedding   M = |e|                                     P = |pθ|·(2 + |ln θ|), the largest slope of sin and cos being 1
    rotated     M = |x_a c| + |x_b s|                       P = |pθ|·(2 + |ln θ|)·(|x_a| + |x_b|)
    logits      M = scale·Σ|q||k| + |position term|         P = scale·Σ of the P of one side times the magnitude of the other
    output      M = Σ_j w_j·|v_j| + Σ_j w_j·(2 + M_j + g_j)·|v_j − out|    P = Σ_j w_j·P_j·|v_j − out|

M_j, P_j are those of the logits. (2 + |ln θ|): pθ is one product, and θ = base^x amplifies the rounding of x by |x|·ln base
= |ln θ|. In the output, a logit that is off by δ moves its weight by w·δ against the mean, hence |v_j − out|; g_j is how far
the logit lies below the greatest one of its row, which is taken off before the exponential: that difference is rounded too.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from relpos.spec.attention import encoded, repeated
from relpos.spec.positions import Explicit, Positions


@dataclass(frozen=True)
class Size:
    """M and P of one array of results, and n, the number of rounded terms of an element."""

    M: np.ndarray
    P: np.ndarray
    n: int


def bias_size(settings: Any, params: dict, query_positions: Positions, key_positions: Positions, bias: np.ndarray) -> Size:
    """Of a bias [H, Lq, Lk]."""
    if hasattr(settings, "magnitude"):
        M = settings.magnitude(params, query_positions, key_positions)
    else:
        M = np.abs(np.where(np.isinf(bias), 0.0, bias))
    return Size(M, np.zeros_like(M), 2)


def embedding_size(settings: Any, e: np.ndarray, positions: Positions) -> Size:
    """Of an embedding [L, D]."""
    P = np.zeros_like(e)
    if hasattr(settings, "frequencies"):
        angles = _angle_errors(settings, positions)
        for m, columns in enumerate(settings.columns()):
            for column in columns:
                if column < e.shape[-1]:
                    P[:, column] = angles[:, m]
    return Size(np.abs(e), P, 2)


def rotated_size(settings: Any, x: np.ndarray, positions: Positions) -> Size:
    """Of a rotated tensor [H, L, D]; x is the tensor before."""
    M, P = np.abs(x), np.zeros_like(x)
    angles, p = _angle_errors(settings, positions), np.array(list(positions), dtype=np.float64)
    for m, (a, b) in enumerate(settings.pairs()):
        c, s = np.abs(np.cos(p * settings.frequencies()[m])), np.abs(np.sin(p * settings.frequencies()[m]))
        size_a, size_b = np.abs(x[..., a]), np.abs(x[..., b])
        M[..., a], M[..., b] = size_a * c + size_b * s, size_a * s + size_b * c
        P[..., a] = P[..., b] = angles[:, m] * (size_a + size_b)
    return Size(M, P, 3)


def placed_size(settings: Any, x: np.ndarray, positions: Positions, role: str, params: dict | None = None) -> Size:
    """Of x [B, H, L, D] once its position is written into it (rotations and embeddings; others leave it alone)."""
    samples = []
    for b in range(len(x)):
        row = positions.row(b)
        if settings.form == "rotation" and role != "value":
            samples.append(rotated_size(settings, x[b], row))
        elif settings.form == "embedding":
            e = encoded(settings, params or {}, row)
            size = embedding_size(settings, e, row)
            samples.append(Size(np.abs(x[b]) + size.M, np.broadcast_to(size.P, x[b].shape), 3))
        else:
            samples.append(Size(np.abs(x[b]), np.zeros_like(x[b]), 1))
    return Size(np.stack([s.M for s in samples]), np.stack([s.P for s in samples]), samples[0].n if samples else 1)


def logits_size(
    settings: Any,
    params: dict,
    q: np.ndarray,
    k: np.ndarray,
    query_positions: Positions,
    key_positions: Positions,
    scale: float,
) -> Size:
    """Of the complete score [B, H, Lq, Lk]."""
    k = repeated(k, q.shape[1])
    left = placed_size(settings, q, query_positions, "query", params)
    right = placed_size(settings, k, key_positions, "key", params)
    M = abs(scale) * (left.M @ right.M.swapaxes(-1, -2))
    P = abs(scale) * (left.P @ right.M.swapaxes(-1, -2) + left.M @ right.P.swapaxes(-1, -2))
    for b in range(len(q)):
        M[b] += _term_magnitude(settings, params, q[b], k[b], query_positions.row(b), key_positions.row(b), scale)
    return Size(M, P, q.shape[-1] + 3)


def output_size(logits: Size, weights: np.ndarray, out: np.ndarray, v: np.ndarray, value_size: Size) -> Size:
    """Of the output [B, H, Lq, D]; v and value_size [B, H, Lq, Lk, D]: the value a query sees at a key."""
    spread = np.abs(v - out[..., None, :])
    w = weights[..., None]
    shaken = 2 + logits.M + gaps(weights)
    M = (w * value_size.M).sum(-2) + (w * shaken[..., None] * spread).sum(-2)
    P = (w * value_size.P).sum(-2) + (w * logits.P[..., None] * spread).sum(-2)
    return Size(M, P, logits.n + weights.shape[-1])


def gaps(weights: np.ndarray) -> np.ndarray:
    """How far each logit lies below the greatest of its row, read off the weights; 0 where a weight is 0."""
    seen = weights > 0
    logarithm = np.log(np.where(seen, weights, 1.0))
    top = np.where(seen, logarithm, -np.inf).max(axis=-1, keepdims=True, initial=-np.inf)
    return np.where(seen, top - logarithm, 0.0)


def seen_values(settings: Any, params: dict, v: np.ndarray, query_positions: Positions, key_positions: Positions) -> np.ndarray:
    """The value a query sees at a key, value term included, [B, H, Lq, Lk, D]; v [B, H, Lk, D] placed already."""
    B, H, Lk, D = v.shape
    seen = np.broadcast_to(v[:, :, None], (B, H, len(query_positions), Lk, D)).copy()
    if hasattr(settings, "values"):
        alone = np.ones((1, len(query_positions), 1))
        for b in range(B):
            keys = key_positions.row(b).array()
            for j in range(Lk):
                seen[b, :, :, j] += settings.values(params, alone, query_positions.row(b), Explicit(keys[j : j + 1]))
    return seen


def _term_magnitude(settings: Any, params: dict, q, k, queries: Positions, keys: Positions, scale: float) -> np.ndarray:
    if settings.form == "bias":
        size = bias_size(settings, params, queries, keys, settings.bias(params, queries, keys))
        return size.M * (abs(scale) if getattr(settings, "scale_bias", False) else 1.0)
    if settings.form == "logits":
        # A position term is a sum of products, so on magnitudes it is the sum of their magnitudes.
        sizes = {name: np.abs(value) for name, value in params.items()}
        return np.abs(settings.logits(sizes, np.abs(q), np.abs(k), queries, keys, scale=abs(scale)))
    return np.zeros((len(q), q.shape[1], k.shape[1]))


def _angle_errors(settings: Any, positions: Positions) -> np.ndarray:
    θ, p = settings.frequencies(), np.array(list(positions), dtype=np.float64)
    return np.abs(p[:, None] * θ) * (2 + np.abs(np.log(θ)))
