"""Softmax attention in float64, one dot product at a time: what every scheme's contribution is put into.

    logit[b, h, i, j] = scale · q[b, h, i] · k[b, g, j]  +  position term[h, i, j]
    weight            = softmax over the allowed keys j
    out[b, h, i]      = Σ_j weight[b, h, i, j] · v[b, g, j]  +  position value term

q       [B, H, Lq, D]     k, v [B, Hkv, Lk, D] with H a multiple of Hkv: query head h reads g = h // (H / Hkv)
scale   1/√D, or the scheme's own, unless given; it multiplies q·k once (and the position term only where the scheme says so).
        A scheme that owns its content term, `content(params, q, k)` in place of scale · q·k, has none

Edges, by decision:
    mask          boolean, True = may attend, [Lq, Lk], [B, Lq, Lk], [B, 1, Lq, Lk] or [B, H, Lq, Lk]
    causal        hides a key whose position is greater than the query's: the positions decide, not the indices, so
                  the corner for Lq ≠ Lk is whatever the positions say (`corner` names the two usual ones); refused for
                  positions on several axes, which have no before and after
    segments      a pair in different segments is hidden, unless the scheme reads segments itself (`segments_hide` is False)
    empty rows    a query with no allowed key has weights 0 and output 0, never NaN
    context       length-dependent schemes take queries and keys of a sample to be in one context, hidden keys included: its
                  length is the stated one, else the largest position + 1 of both
    embeddings    are added to queries, keys and values alike (with q = k = v = x: attention over x + e)

Source: Vaswani et al., "Attention Is All You Need", 2017, equation 1.
"""

from math import sqrt
from typing import Any, Literal

import numpy as np

from relpos.spec.contract import PositionError, require_params
from relpos.spec.fitting import AttentionError, check_sizes, check_values, checked_mask
from relpos.spec.positions import Positions, Range, in_one_context


def corner(query_length: int, key_length: int, kind: Literal["bottom-right", "top-left"]) -> tuple[Range, Range]:
    """Positions of queries and keys when a causal mask is tied to a corner.

    bottom-right: the last query sits on the last key. top-left: the first query sits on the first key.
    """
    if kind not in ("bottom-right", "top-left"):
        raise AttentionError(f"attention: `kind` of a corner must be 'bottom-right' or 'top-left', got {kind!r}.")
    start = key_length - query_length if kind == "bottom-right" else 0
    return Range(start, query_length), Range(0, key_length)


def allowed(
    shape: tuple[int, int, int, int],
    query_positions: Positions,
    key_positions: Positions,
    *,
    mask: np.ndarray | None = None,
    causal: bool = False,
    segments_hide: bool = True,
) -> np.ndarray:
    """Which query may attend to which key, boolean [B, H, Lq, Lk]."""
    if causal and query_positions.axes > 1:
        raise PositionError(
            f"attention: `causal` needs positions on one axis, got {query_positions.axes}: there is no before and after. "
            "Hide keys with `mask`."
        )
    visible = np.ones(shape, dtype=bool)
    if mask is not None:
        visible &= checked_mask(mask, shape)
    for b in range(shape[0]):
        queries, keys = query_positions.row(b), key_positions.row(b)
        query_segment, key_segment = query_positions.segment(b), key_positions.segment(b)
        if (query_segment is None) != (key_segment is None):
            raise PositionError("attention: `segments` must be given for queries and keys alike; one side has none.")
        for i, p in enumerate(queries):
            for j, r in enumerate(keys):
                if causal and r > p:
                    visible[b, :, i, j] = False
                if query_segment is not None and key_segment is not None and query_segment[i] != key_segment[j]:
                    visible[b, :, i, j] &= not segments_hide
    return visible


def repeated(x: np.ndarray, num_heads: int) -> np.ndarray:
    """Give every query head its own copy of its key head: [B, Hkv, L, D] -> [B, H, L, D]."""
    return np.stack([x[:, h // (num_heads // x.shape[1])] for h in range(num_heads)], axis=1)


def encoded(settings: Any, params: dict, positions: Positions) -> np.ndarray:
    """The vectors of an embedding, [L, D]; only those that learn something are given it."""
    return settings.encode(params, positions) if settings.parameters() else settings.encode(positions)


def placed(settings: Any, x: np.ndarray, positions: Positions, role: str, params: dict | None = None) -> np.ndarray:
    """x [B, H, L, D] with its position written into it: rotated, or with the embedding added."""
    if settings.form == "rotation" and role != "value":
        return np.stack([settings.rotate(x[b], positions.row(b), role) for b in range(len(x))])
    if settings.form == "embedding":
        return np.stack([x[b] + encoded(settings, params or {}, positions.row(b)) for b in range(len(x))])
    return x


def located(settings: Any, queries: Positions, keys: Positions, samples: int) -> tuple[Positions, Positions]:
    """Queries and keys in one context, where a scheme depends on its length."""
    return in_one_context(queries, keys, samples) if getattr(settings, "length_dependent", False) else (queries, keys)


def default_scale(settings: Any, head_dim: int) -> float:
    """1/√D, unless the scheme has a scale of its own (`settings.scale(head_dim)`)."""
    return settings.scale(head_dim) if hasattr(settings, "scale") else 1.0 / sqrt(head_dim)


def position_term(
    settings: Any,
    params: dict,
    q: np.ndarray,
    k: np.ndarray,
    query_positions: Positions,
    key_positions: Positions,
    scale: float,
) -> np.ndarray:
    """What the scheme adds to the scaled dot products, [B, H, Lq, Lk]; zero for embeddings, rotations and none."""
    B, H, Lq, Lk = *q.shape[:3], k.shape[2]
    term = np.zeros((B, H, Lq, Lk))
    for b in range(B):
        queries, keys = query_positions.row(b), key_positions.row(b)
        if settings.form == "bias":
            term[b] = settings.bias(params, queries, keys) * (scale if getattr(settings, "scale_bias", False) else 1.0)
        elif settings.form == "logits":
            term[b] = settings.logits(params, q[b], k[b], queries, keys, scale=scale)
    return term


def logits(
    settings: Any,
    params: dict,
    q: np.ndarray,
    k: np.ndarray,
    query_positions: Positions,
    key_positions: Positions,
    *,
    scale: float | None = None,
) -> np.ndarray:
    """The complete score before any mask, content and position, [B, H, Lq, Lk]."""
    require_params(settings, params)
    q, k = _float64(q), _float64(k)
    params = {name: _float64(value) for name, value in params.items()}
    check_sizes(settings, q, k, query_positions, key_positions)
    scale = default_scale(settings, q.shape[-1]) if scale is None else scale
    k = repeated(k, q.shape[1])
    term = position_term(settings, params, q, k, query_positions, key_positions, scale)
    query_positions, key_positions = located(settings, query_positions, key_positions, len(q))
    q, k = placed(settings, q, query_positions, "query", params), placed(settings, k, key_positions, "key", params)
    score = np.zeros((*q.shape[:3], k.shape[2]))
    if hasattr(settings, "content"):
        return term + np.stack([settings.content(params, q[b], k[b]) for b in range(len(q))])
    for b, h, i, j in np.ndindex(score.shape):
        score[b, h, i, j] = scale * np.dot(q[b, h, i], k[b, h, j]) + term[b, h, i, j]
    return score


def softmax(score: np.ndarray, visible: np.ndarray) -> np.ndarray:
    """Weights over the allowed keys, [B, H, Lq, Lk]; a row without any is all zeros, one with a NaN among them all NaN."""
    weights = np.zeros(score.shape)
    for b, h, i in np.ndindex(score.shape[:3]):
        keys = [j for j in range(score.shape[3]) if visible[b, h, i, j] and score[b, h, i, j] != -np.inf]
        if not keys:
            continue
        highest = max(score[b, h, i, j] for j in keys)
        exponentials = [np.exp(score[b, h, i, j] - highest) for j in keys]
        total = sum(exponentials)
        for j, exponential in zip(keys, exponentials, strict=True):
            weights[b, h, i, j] = exponential / total
    return weights


def attention(
    settings: Any,
    params: dict,
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    query_positions: Positions,
    key_positions: Positions,
    *,
    mask: np.ndarray | None = None,
    causal: bool = False,
    scale: float | None = None,
) -> np.ndarray:
    """Attention output [B, H, Lq, D] of a scheme; see the module's docstring for every edge."""
    score = logits(settings, params, q, k, query_positions, key_positions, scale=scale)
    hide = getattr(settings, "segments_hide", True)
    visible = allowed(score.shape, query_positions, key_positions, mask=mask, causal=causal, segments_hide=hide)
    weights = softmax(score, visible)
    check_values(np.shape(v), np.shape(k))
    params = {name: _float64(value) for name, value in params.items()}
    v = placed(settings, repeated(_float64(v), len(score[0])), key_positions, "value", params)
    out = np.zeros((*score.shape[:3], v.shape[-1]))
    for b, h, i in np.ndindex(out.shape[:3]):
        for j in range(v.shape[2]):
            if weights[b, h, i, j] != 0:
                out[b, h, i] += weights[b, h, i, j] * v[b, h, j]
    if hasattr(settings, "values"):
        for b in range(len(q)):
            out[b] += settings.values(params, weights[b], query_positions.row(b), key_positions.row(b))
    return out


def _float64(x: np.ndarray) -> np.ndarray:
    """Widened, or NumPy would compute float32 inputs in float32."""
    return np.asarray(x, dtype=np.float64)
