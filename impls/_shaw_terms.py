"""The two position terms of Shaw's attention, without a vector per pair: what is added to the scores, and to the output."""

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn.functional import embedding

from relpos.impls._attention import default_scale, shared_heads, working
from relpos.impls._blocks import Plan
from relpos.impls._ranged import Ranged
from relpos.impls._shaw_rows import clipped, rows
from relpos.impls._skewed import under_products
from relpos.impls._streamed import streamed
from relpos.spec.shaw import Shaw


def term(
    settings: Shaw,
    params: Mapping[str, Tensor],
    q: Tensor,
    k: Tensor,
    query_positions: Tensor,
    key_positions: Tensor,
    *,
    scale: float | None = None,
) -> Tensor:
    """What is added to scale · q · k, [B, H, Lq, Lk] in the working dtype."""
    return _gathered_products(settings, params["rel_k"], q, k, _per_head(settings, query_positions, key_positions), scale)


def values(
    settings: Shaw, params: Mapping[str, Tensor], weights: Tensor, query_positions: Tensor, key_positions: Tensor
) -> Tensor:
    """What is added to Σ weight · v, [B, H, Lq, D]; 0 where keys alone have a table."""
    if settings.tables.startswith("relative_key"):
        return weights.new_zeros(())
    table = params["rel_v" if settings.tables == "separate" else "rel_k"].to(weights.dtype)
    bins = weights.new_zeros((*weights.shape[:-1], len(table)))
    r = _per_head(settings, query_positions, key_positions).expand(weights.shape)
    return (bins.scatter_add(-1, r, weights) @ table).to(weights.dtype)


def by_distance(
    settings: Shaw, params: Mapping[str, Tensor], qkv: tuple[Tensor, Tensor, Tensor], offset: int, *, causal: bool, scale: float
) -> Tensor:
    """Attention [B, H, Lq, D] of contiguous positions by the engines, from the vectors of every distance in order."""
    q, k, v = qkv[0], *(shared_heads(x, qkv[0].shape[1]).to(qkv[0].dtype) for x in qkv[1:])
    far = torch.arange(1 - q.shape[2] - offset, k.shape[2] - offset, device=q.device)
    r, dtype, reach = clipped(settings, far), working(q.dtype), max(settings.max_distance, 1)
    vectors = embedding(r, params["rel_k"].to(dtype)).unsqueeze(0)
    asked, at = q.to(dtype) * scale, {"offset": offset, "causal": causal, "scale": scale}
    if settings.tables == "relative_key":
        return under_products(q.to(dtype), vectors, q, k, v, **at)
    if settings.tables == "relative_key_query":
        tensors, valued = (asked, vectors, k.to(dtype) * scale, vectors), None
    else:
        table = params["rel_v" if settings.tables == "separate" else "rel_k"].to(dtype)
        tensors, valued = (asked, vectors, embedding(r, table).unsqueeze(0)), Ranged
    return streamed(Plan(makes=Ranged, reach=(reach, reach), valued=valued, **at), q, k, v, *tensors)


def _gathered_products(settings: Shaw, table: Tensor, q: Tensor, k: Tensor, r: Tensor, scale: float | None) -> Tensor:
    dtype = working(q.dtype)
    table = table.to(dtype).transpose(0, 1)
    term = (q.to(dtype) @ table).to(dtype).gather(-1, r.expand(*q.shape[:2], -1, -1))
    if settings.tables == "relative_key_query":
        by_key = (k.to(dtype) @ table).to(dtype).gather(-1, r.transpose(-1, -2).expand(*k.shape[:2], -1, -1))
        term = term + shared_heads(by_key.transpose(-1, -2), q.shape[1])
    return term * default_scale(q, scale)


def _per_head(settings: Shaw, query_positions: Tensor, key_positions: Tensor) -> Tensor:
    r = rows(settings, query_positions, key_positions)
    return r[None, None] if r.ndim == 2 else r.unsqueeze(1)
