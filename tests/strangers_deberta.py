"""Disentangled attention as other people publish it, with little changed but names: full scores before any mask."""

import math

import torch
from torch import Tensor


def log_bucket(relative_pos: Tensor, bucket_size: int, max_position: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """The authors' `make_log_bucket_position` (MIT): a rounded logarithm, by default in float32."""
    sign = torch.sign(relative_pos)
    mid = bucket_size // 2
    inside = (relative_pos < mid) & (relative_pos > -mid)
    abs_pos = torch.where(inside, torch.tensor(mid - 1).type_as(relative_pos), torch.abs(relative_pos))
    slope = torch.log(torch.tensor((max_position - 1) / mid, dtype=dtype))
    log_pos = torch.ceil(torch.log(abs_pos.to(dtype) / mid) / slope * (mid - 1)) + mid
    return torch.where(abs_pos <= mid, relative_pos.to(dtype), log_pos * sign).long()


def hugging_face(settings, params, q, k, query_positions, key_positions):
    """Hugging Face's `disentangled_attention_bias` (Apache 2.0): each term divided by itself, p2c gathered with −rel."""
    factor = 1 + len(params)
    rel, from_key = query_positions[:, None] - key_positions, key_positions[:, None] - query_positions
    span = settings.max_distance
    if settings.version == "v2":
        span = params[next(iter(params))].shape[1] // 2
        rel, from_key = (log_bucket(r, span, settings.max_distance) for r in (rel, from_key))
    scale = math.sqrt(q.shape[-1] * factor)
    score = q @ k.transpose(-1, -2) / scale
    if "pos_key" in params:
        c2p_pos = torch.clamp(rel + span, 0, span * 2 - 1)
        c2p_att = q @ params["pos_key"].transpose(-1, -2)
        score = score + torch.gather(c2p_att, dim=-1, index=c2p_pos.expand(*q.shape[:2], -1, -1)) / scale
    if "pos_query" in params:
        p2c_pos = torch.clamp(-from_key + span, 0, span * 2 - 1)
        p2c_att = torch.gather(k @ params["pos_query"].transpose(-1, -2), dim=-1, index=p2c_pos.expand(*k.shape[:2], -1, -1))
        score = score + p2c_att.transpose(-1, -2) / scale
    return score


def _delta(pos_key: Tensor, distance: Tensor) -> Tensor:
    return torch.clamp(distance + pos_key.shape[1] // 2, 0, pos_key.shape[1] - 1)


def _terms(q: Tensor, k: Tensor, key_vectors: Tensor, query_vectors: Tensor) -> Tensor:
    position = torch.einsum("bhid,hijd->bhij", q, key_vectors) + torch.einsum("bhjd,hijd->bhij", k, query_vectors)
    return q @ k.transpose(-1, -2) + position


def article(q, k, pos_key, pos_query, query_positions, key_positions):
    """A popular article: (Qc Kcᵀ + Qc Krᵀ + Qr Kcᵀ) / √(2d), where Qr is read at i − j and Kr at j − i."""
    i_j = query_positions[:, None] - key_positions
    terms = _terms(q, k, pos_key[:, _delta(pos_key, -i_j)], pos_query[:, _delta(pos_key, i_j)])
    return terms / math.sqrt(2 * q.shape[-1])


def two_terms(q, k, pos_key, pos_query, query_positions, key_positions):
    """The article's divisor with the authors' indices."""
    r = _delta(pos_key, query_positions[:, None] - key_positions)
    return _terms(q, k, pos_key[:, r], pos_query[:, r]) / math.sqrt(2 * q.shape[-1])


def ungathered(q, k, pos_key, pos_query, query_positions, key_positions):
    """The article's matrices as they are written: Qc Krᵀ has a column per row of the table, not one per key."""
    products = q @ k.transpose(-1, -2) + q @ pos_key.transpose(-1, -2) + pos_query @ k.transpose(-1, -2)
    return products / math.sqrt(2 * q.shape[-1])


def paper(q, k, pos_key, pos_query, query_positions, key_positions):
    """Equation 4 read literally: pos_query at δ(j, i)."""
    i_j = query_positions[:, None] - key_positions
    terms = _terms(q, k, pos_key[:, _delta(pos_key, i_j)], pos_query[:, _delta(pos_key, -i_j)])
    return terms / math.sqrt(3 * q.shape[-1])
