"""The position term of Transformer-XL: its parts, and the whole gathered pair by pair.

    term = scale · (u · k_j + (q_i + v) · W R(δ) [+ (q_i + s) · G[a]])        learned: scale · (u · k_j + q_i · T[r] + b[r])

q is multiplied by W first, so that a pair costs E products and no vector of width H·D. Angles are formed in float32 at least
from whole distances.
"""

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn.functional import pad

from relpos.impls._attention import default_scale, relative, shared_heads, working
from relpos.spec.transformer_xl import TransformerXL

BASE = 10000.0


def term(
    settings: TransformerXL,
    params: Mapping[str, Tensor],
    q: Tensor,
    k: Tensor,
    query_positions: Tensor,
    key_positions: Tensor,
    *,
    scale: float | None = None,
    query_segments: Tensor | None = None,
    key_segments: Tensor | None = None,
) -> Tensor:
    """What is added to scale · q · k, [B, H, Lq, Lk] in the working dtype; −∞ where memory does not reach.

    query_segments, key_segments   [L] or [B, L], both or neither: segment ids, read by the variant "xlnet"
    """
    δ = -relative(query_positions, key_positions)
    found = asked_by_keys(params, k, q.shape[1]) + _of_pairs(settings, params, q, δ)
    if settings.variant == "xlnet" and query_segments is not None and key_segments is not None:
        found = found + of_segments(params, q, query_segments, key_segments)
    found = found * default_scale(q, scale)
    near = sees(settings, query_positions, key_positions)
    return found if near is None else found.masked_fill(~near, -torch.inf)


def asked_by_keys(params: Mapping[str, Tensor], k: Tensor, num_heads: int) -> Tensor:
    """u · k_j, [B, H, 1, Lk]."""
    dtype = working(k.dtype)
    u = params["pos_bias_u"].to(dtype)
    return (shared_heads(k, num_heads).to(dtype) * u[:, None]).sum(-1).unsqueeze(-2)


def of_segments(params: Mapping[str, Tensor], q: Tensor, query_segments: Tensor, key_segments: Tensor) -> Tensor:
    """(q_i + s) · G[a], [B, H, Lq, Lk]: a = 0 within a segment, 1 across."""
    dtype = working(q.dtype)
    asked = q.to(dtype) + params["seg_bias"].to(dtype)[:, None]
    same, other = torch.einsum("bhid,ahd->abhi", asked, params["seg_embed"].to(dtype)).to(dtype).unsqueeze(-1)
    return torch.where(per_head(relative(query_segments, key_segments) == 0), same, other)


def by_wave(params: Mapping[str, Tensor], q: Tensor) -> Tensor:
    """(q_i + v) · W, [B, H, Lq, E]: what every wave of R is multiplied with."""
    dtype = working(q.dtype)
    asked = q.to(dtype) + params["pos_bias_v"].to(dtype)[:, None]
    return (asked @ params["w_pos"].to(dtype).unflatten(0, (q.shape[1], q.shape[-1]))).to(dtype)


def asks(settings: TransformerXL, params: Mapping[str, Tensor], q: Tensor) -> Tensor:
    """What a vector of `vectors` is multiplied with: q_i + v, or q_i and a 1 behind it, [B, H, Lq, D or D + 1]."""
    q = q.to(working(q.dtype))
    return pad(q, (0, 1), value=1.0) if settings.variant == "learned" else q + params["pos_bias_v"].to(q.dtype)[:, None]


def vectors(settings: TransformerXL, params: Mapping[str, Tensor], δ: Tensor, dtype: torch.dtype) -> Tensor:
    """W R(δ), or (T[r], b[r]), of every head and distance, [H, n, D or D + 1]; 0 for distances without a row."""
    if settings.variant == "learned":
        table = torch.cat((params["r_emb"].transpose(0, 1), params["r_bias"].transpose(0, 1).unsqueeze(-1)), dim=-1)
        return pad(table.to(dtype), (0, 0, 0, 1)).index_select(1, rows(settings, δ))
    projected = (waves(settings, δ, dtype) @ params["w_pos"].to(dtype).transpose(0, 1)).to(dtype)
    # Every block reads them: laid out by head they are read in order.
    return projected.unflatten(-1, (settings.num_heads, settings.head_dim)).transpose(0, 1).contiguous()


def content(params: Mapping[str, Tensor], q: Tensor) -> Tensor:
    """q_i + u in the dtype of q: what keys are asked by."""
    dtype = working(q.dtype)
    return (q.to(dtype) + params["pos_bias_u"].to(dtype)[:, None]).to(q.dtype)


def over_distances(settings: TransformerXL, params: Mapping[str, Tensor], q: Tensor, δ: Tensor) -> Tensor:
    """The query's part of the term for each of the distances, query minus key, [B, H, Lq, len(δ)]."""
    if settings.variant == "learned":
        return by_row(params, q).index_select(-1, rows(settings, δ))
    asked = by_wave(params, q)
    return (asked @ waves(settings, δ, asked.dtype).transpose(0, 1)).to(asked.dtype)


def by_row(params: Mapping[str, Tensor], q: Tensor) -> Tensor:
    """q_i · T[r] + b[r] for every row r, [B, H, Lq, N + 1]; the last column, 0, is that of distances without a row."""
    dtype = working(q.dtype)
    products = torch.einsum("bhid,nhd->bhin", q.to(dtype), params["r_emb"].to(dtype)).to(dtype)
    return pad(products + params["r_bias"].to(dtype).transpose(0, 1)[:, None], (0, 1))


def waves(settings: TransformerXL, δ: Tensor, dtype: torch.dtype) -> Tensor:
    """R of distances, query minus key, [..., E]."""
    if settings.clamp_len is not None:
        least = -settings.clamp_len if settings.variant == "xlnet" else None
        δ = δ.clamp(min=least, max=settings.clamp_len)
    E = settings.width()
    exponents = torch.arange(0, E, 2, dtype=torch.float64, device=δ.device) / E
    angles = δ.to(dtype).unsqueeze(-1) * torch.pow(BASE, -exponents).to(dtype)
    if settings.variant == "bidirectional":
        return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)
    return torch.cat((angles.sin(), angles.cos()), dim=-1)


def rows(settings: TransformerXL, δ: Tensor) -> Tensor:
    """Row of the learned tables for distances, query minus key; N for those after the query."""
    N = settings.max_distance
    return torch.where(δ >= 0, N - 1 - δ.clamp(0, N - 1), N)


def sees(settings: TransformerXL, query_positions: Tensor, key_positions: Tensor) -> Tensor | None:
    """Which key the memory of a query reaches, boolean of four axes; None: every one."""
    M, n = settings.memory_length, settings.segment_length
    if M is None or not settings.hides:
        return None
    if n is None:
        return per_head(relative(query_positions, key_positions) > -M)
    start = torch.div(query_positions, n, rounding_mode="floor") * n
    return per_head(relative(start, key_positions) >= -M)


def per_head(pairs: Tensor) -> Tensor:
    """Pairs [Lq, Lk] or [B, Lq, Lk] with an axis for heads, four axes in all."""
    return pairs[None, None] if pairs.ndim == 2 else pairs.unsqueeze(1)


def _of_pairs(settings: TransformerXL, params: Mapping[str, Tensor], q: Tensor, δ: Tensor) -> Tensor:
    if settings.variant == "learned":
        return by_row(params, q).gather(-1, per_head(rows(settings, δ)).expand(*q.shape[:2], -1, -1))
    asked = by_wave(params, q)
    R = waves(settings, δ, asked.dtype)
    return torch.einsum(f"bhie,{'b' if R.ndim == 4 else ''}ije->bhij", asked, R).to(asked.dtype)
