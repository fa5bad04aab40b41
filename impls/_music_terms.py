"""The two position terms of the Music Transformer: products with the table, and weights summed by row, gathered per pair."""

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn.functional import pad

from relpos.impls._attention import default_scale, relative, working
from relpos.spec.music_transformer import MusicTransformer


def term(
    settings: MusicTransformer,
    params: Mapping[str, Tensor],
    q: Tensor,
    query_positions: Tensor,
    key_positions: Tensor,
    *,
    scale: float | None = None,
) -> Tensor:
    """What is added to scale · q · k, [B, H, Lq, Lk] in the working dtype; −∞ where a query does not see a block."""
    dtype = working(q.dtype)
    # One column more, of zeros: the row of every distance that has no vector.
    product = pad((q.to(dtype) @ params["rel_k"].to(dtype).transpose(-1, -2)).to(dtype), (0, 1))
    r = _per_head(rows(settings, relative(query_positions, key_positions)))
    found = product.gather(-1, r.expand(*q.shape[:2], -1, -1)) * default_scale(q, scale)
    near = sees(settings, query_positions, key_positions)
    return found if near is None else found.masked_fill(~near, -torch.inf)


def values(
    settings: MusicTransformer, params: Mapping[str, Tensor], weights: Tensor, query_positions: Tensor, key_positions: Tensor
) -> Tensor:
    """What is added to Σ weight · v, [B, H, Lq, Dv]; 0 without a value term."""
    if settings.value_term == "none":
        return weights.new_zeros(())
    weights = heard(settings, weights, query_positions)
    table = params["rel_v"].to(weights.dtype)
    bins = weights.new_zeros((*weights.shape[:-1], table.shape[-2] + 1))
    r = _per_head(rows(settings, relative(query_positions, key_positions))).expand(weights.shape)
    return (bins.scatter_add(-1, r, weights)[..., :-1] @ table).to(weights.dtype)


def rows(settings: MusicTransformer, distance: Tensor) -> Tensor:
    """Row of every distance, key minus query; one past the last where there is no vector."""
    M = settings.max_distance
    count = 2 * M - 1 if settings.variant == "unmasked" else M
    r = distance + (M - 1)
    return torch.where((r >= 0) & (r < count), r, count)


def sees(settings: MusicTransformer, query_positions: Tensor, key_positions: Tensor) -> Tensor | None:
    """Which key the scheme lets a query see, boolean of four axes; None: every one."""
    if settings.variant != "local":
        return None
    apart = relative(_block(settings, query_positions), _block(settings, key_positions))
    return _per_head((apart == 0) | (apart == -1))


def heard(settings: MusicTransformer, weights: Tensor, query_positions: Tensor) -> Tensor:
    """The weights [B, H, Lq, Lk] of queries that have a value term, 0 of the others."""
    if settings.value_term != "not_first_block":
        return weights
    silent = _block(settings, query_positions) <= 0
    silent = silent[None, None, :, None] if silent.ndim == 1 else silent[:, None, :, None]
    return weights.masked_fill(silent, 0.0)


def _block(settings: MusicTransformer, positions: Tensor) -> Tensor:
    length = settings.block_length or (settings.max_distance + 3) // 4
    return torch.div(positions, length, rounding_mode="floor")


def _per_head(pairs: Tensor) -> Tensor:
    return pairs[None, None] if pairs.ndim == 2 else pairs.unsqueeze(1)
