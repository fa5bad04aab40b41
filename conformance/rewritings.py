"""Right implementations in unusual styles: other orders of summation, other functions, everything in the working dtype.

They serve the calibration of the bounds, and as negative controls: the judge must stay quiet about each of them.
"""

from collections.abc import Iterable
from functools import reduce

import torch
from torch import Tensor

from relpos.conformance.rewritings_of_contributions import (
    buckets_by_edges,
    rows_by_product,
    scaled_in_float32,
    slopes_by_exponentials,
    slopes_by_powers,
    stretched_in_float32,
    turned_in_float32,
    turned_in_working_dtype,
    waves_in_float32,
)
from relpos.impls.card import implements

DTYPES = ("float32", "float64", "bfloat16", "float16")
ANGLES_IN_FLOAT32 = ("float32", "bfloat16", "float16")
ATTENTION = {"level": "attention", "binds": ("mask", "causal", "scale"), "dtypes": DTYPES}


def _softmax2(logits: Tensor, keep: Tensor) -> Tensor:
    """Softmax in base 2, one pass, in the dtype it is given."""
    logits = torch.where(keep, logits * 1.4426950408889634, float("-inf"))
    highest = logits.amax(dim=-1, keepdim=True).clamp(min=torch.finfo(logits.dtype).min)
    weights = torch.exp2(logits - highest)
    return weights / weights.sum(dim=-1, keepdim=True).clamp(min=torch.finfo(logits.dtype).tiny)


def _added(terms: Iterable[Tensor]) -> Tensor:
    return reduce(torch.add, terms)


def _products(q: Tensor, k: Tensor) -> Tensor:
    return _added(q[..., None, c] * k[..., None, :, c] for c in reversed(range(q.shape[-1])))


def _weighted(weights: Tensor, v: Tensor) -> Tensor:
    return _added(weights[..., j, None] * v[..., None, j, :] for j in reversed(range(v.shape[-2])))


def _keep(mask: Tensor, causal: bool, query_positions: Tensor, key_positions: Tensor) -> Tensor:
    return mask & (key_positions <= query_positions[:, None]) if causal else mask


@implements("none", **ATTENTION)
def attention_by_steps(
    q: Tensor, k: Tensor, v: Tensor, query_positions: Tensor, key_positions: Tensor, *, mask, causal=False, scale=None
) -> Tensor:
    """All in the working dtype, q scaled before, sums from the last column to the first."""
    q = q * (q.shape[-1] ** -0.5 if scale is None else scale)
    return _weighted(_softmax2(_products(q, k), _keep(mask, causal, query_positions, key_positions)), v)


@implements("shaw", **ATTENTION)
def shaw_by_sums(
    q: Tensor, k: Tensor, v: Tensor, rel_k: Tensor, rel_v: Tensor, query_positions: Tensor, key_positions: Tensor, *,
    mask, causal=False, scale=None,
) -> Tensor:  # fmt: skip
    """Keys and table are added before the product, values and table before the sum, in the working dtype."""
    clip = rel_k.shape[0] // 2
    row = (key_positions - query_positions[:, None]).clamp(-clip, clip) + clip
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    logits = ((q * scale)[..., :, None, :] * (k[..., None, :, :] + rel_k[row])).sum(-1)
    weights = _softmax2(logits, _keep(mask, causal, query_positions, key_positions))
    return (weights[..., None] * (v[..., None, :, :] + rel_v[row])).sum(-2)


@implements("music_transformer", **ATTENTION, settings={"variant": "masked", "value_term": "none", "per_head": True})
def vectors_summed(
    q: Tensor, k: Tensor, v: Tensor, rel_k: Tensor, query_positions: Tensor, key_positions: Tensor, *,
    mask, causal=False, scale=None,
) -> Tensor:  # fmt: skip
    """A row of zeros put before the table; keys and vectors are added before the product, in the working dtype."""
    M = rel_k.shape[-2]
    row = key_positions - query_positions[:, None] + M
    row = torch.where((row >= 1) & (row <= M), row, 0)
    vectors = torch.nn.functional.pad(rel_k, (0, 0, 1, 0))[:, row]
    q = q * (q.shape[-1] ** -0.5 if scale is None else scale)
    logits = (q[..., :, None, :] * (k[..., None, :, :] + vectors)).sum(-1)
    weights = _softmax2(logits, _keep(mask, causal, query_positions, key_positions))
    return (weights[..., None] * v[..., None, :, :]).sum(-2)


XL = {"variant": "transformer_xl", "clamp_len": None, "memory_length": None, "segment_length": None, "same_length": False}


@implements("transformer_xl", **{**ATTENTION, "dtypes": ANGLES_IN_FLOAT32}, settings=XL)
def waves_projected_first(
    q: Tensor, k: Tensor, v: Tensor, pos_bias_u: Tensor, pos_bias_v: Tensor, w_pos: Tensor, query_positions: Tensor,
    key_positions: Tensor, *, mask, causal=False, scale=None,
) -> Tensor:  # fmt: skip
    """The authors' order: W R of every distance, then q + v; all but the angles in the working dtype."""
    E, scale = w_pos.shape[1], q.shape[-1] ** -0.5 if scale is None else scale
    theta = torch.exp(-torch.arange(0, E, 2) / E * torch.log(torch.tensor(10000.0)))
    angles = (query_positions[:, None] - key_positions).float()[..., None] * theta
    projected = (torch.cat((angles.sin(), angles.cos()), dim=-1).to(q.dtype) @ w_pos.T).unflatten(-1, pos_bias_u.shape)
    to_keys, to_waves = (q + pos_bias_u[:, None]) * scale, (q + pos_bias_v[:, None]) * scale
    logits = to_keys @ k.transpose(-1, -2) + torch.einsum("bhid,ijhd->bhij", to_waves, projected)
    weights = _softmax2(logits, _keep(mask, causal, query_positions, key_positions))
    return weights @ v


@implements("sinusoidal", **{**ATTENTION, "dtypes": ANGLES_IN_FLOAT32})
def waves_added(
    q: Tensor, k: Tensor, v: Tensor, query_positions: Tensor, key_positions: Tensor, *, mask, causal=False, scale=None
) -> Tensor:
    """The embedding rounded to the working dtype, then added."""
    at = lambda p: waves_in_float32(q.shape[-1], p).to(q.dtype)  # noqa: E731
    q, k, v = q + at(query_positions), k + at(key_positions), v + at(key_positions)
    return attention_by_steps(q, k, v, query_positions, key_positions, mask=mask, causal=causal, scale=scale)


@implements("t5", **ATTENTION)
def t5_by_steps(
    q: Tensor, k: Tensor, v: Tensor, num_buckets: int, max_distance: int, bidirectional: bool, table: Tensor,
    query_positions: Tensor, key_positions: Tensor, *, mask, causal=False, scale=None,
) -> Tensor:  # fmt: skip
    """No scale unless one is given; everything in the working dtype."""
    bias = buckets_by_edges(num_buckets, max_distance, bidirectional, table, query_positions, key_positions)
    logits = _products(q if scale is None else q * scale, k) + bias
    return _weighted(_softmax2(logits, _keep(mask, causal, query_positions, key_positions)), v)


@implements("clipped", **ATTENTION)
def clipped_by_steps(
    q: Tensor, k: Tensor, v: Tensor, max_distance: int, table: Tensor, query_positions: Tensor, key_positions: Tensor, *,
    mask, causal=False, scale=None,
) -> Tensor:  # fmt: skip
    """The scale on k, the bias first; everything in the working dtype."""
    k = k * (q.shape[-1] ** -0.5 if scale is None else scale)
    logits = rows_by_product(max_distance, table, query_positions, key_positions) + _products(q, k)
    return _weighted(_softmax2(logits, _keep(mask, causal, query_positions, key_positions)), v)


REWRITINGS = (
    slopes_by_powers,
    slopes_by_exponentials,
    turned_in_float32,
    turned_in_working_dtype,
    scaled_in_float32,
    stretched_in_float32,
    waves_in_float32,
    attention_by_steps,
    shaw_by_sums,
    vectors_summed,
    waves_projected_first,
    waves_added,
    buckets_by_edges,
    rows_by_product,
    t5_by_steps,
    clipped_by_steps,
)
