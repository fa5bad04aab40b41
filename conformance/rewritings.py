"""Right implementations in unusual styles: other orders of summation, other functions, everything in the working dtype.

They serve the calibration of the bounds, and as negative controls: the judge must stay quiet about each of them.
"""

from collections.abc import Iterable
from functools import reduce
from math import log2
from typing import Any

import torch
from torch import Tensor

from relpos.impls.card import implements
from relpos.spec import rope_scaling

DTYPES = ("float32", "float64", "bfloat16", "float16")
ANGLES_IN_FLOAT32 = ("float32", "bfloat16", "float16")
ATTENTION = {"level": "attention", "binds": ("mask", "causal", "scale"), "dtypes": DTYPES}


@implements("alibi", dtypes=("float32",))
def slopes_by_powers(num_heads: int, query_positions: Tensor, key_positions: Tensor) -> Tensor:
    """Slopes as powers of a rounded base, as BLOOM builds them."""
    p = 2 ** int(log2(num_heads))
    base = torch.tensor(2 ** (-(2 ** -(log2(p) - 3))))
    slopes = torch.pow(base, torch.arange(1, 1 + p))
    if p != num_heads:
        extra = torch.tensor(2 ** (-(2 ** -(log2(2 * p) - 3))))
        rest = min(p, num_heads - p)
        slopes = torch.cat([slopes, torch.pow(extra, torch.arange(1, 1 + 2 * rest, 2))])
    return -slopes[:, None, None] * (query_positions[:, None] - key_positions[None, :]).abs()


@implements("alibi", dtypes=ANGLES_IN_FLOAT32)
def slopes_by_exponentials(num_heads: int, query_positions: Tensor, key_positions: Tensor, dtype: torch.dtype) -> Tensor:
    """exp(−x·ln 2) in place of 2^−x, and the sign on the distance."""
    p = 2 ** int(log2(num_heads))
    ln2 = torch.tensor(2.0).log()
    first = torch.exp(-torch.arange(1, p + 1) * (8 / p) * ln2)
    between = torch.exp(-(2 * torch.arange(1, num_heads - p + 1) - 1) * (4 / p) * ln2)
    distance = -(query_positions[:, None] - key_positions).abs()
    return (torch.cat([first, between]).view(-1, 1, 1) * distance).to(dtype)


@implements("rope", dtypes=ANGLES_IN_FLOAT32)
def turned_in_float32(x: Tensor, positions: Tensor) -> Tensor:
    """Interleaved pairs, angles and products in float32."""
    d = x.shape[-1]
    theta = torch.exp(-torch.arange(0, d, 2) / d * torch.log(torch.tensor(10000.0)))
    angles = positions.float()[:, None] * theta
    a, b = x.float()[..., 0::2], x.float()[..., 1::2]
    turned = torch.stack([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], dim=-1)
    return turned.flatten(-2).to(x.dtype)


@implements("rope", dtypes=ANGLES_IN_FLOAT32, settings={"layout": "half"})
def turned_in_working_dtype(x: Tensor, positions: Tensor) -> Tensor:
    """Halves; angles in float32, cosines, sines and products in the dtype of x, as Llama ports do."""
    d = x.shape[-1]
    theta = 1.0 / (10000.0 ** (torch.arange(0, d, 2).float() / d))
    angles = torch.outer(positions.float(), theta).repeat(1, 2)
    swapped = torch.cat([-x[..., d // 2 :], x[..., : d // 2]], dim=-1)
    return x * angles.cos().to(x.dtype) + swapped * angles.sin().to(x.dtype)


def _line(x: Tensor, low: Tensor, high: Tensor) -> Tensor:
    return ((x - low) / (high - low)).clamp(0, 1)


def frequencies_in_float32(s: Any, sequence_length: int) -> Tensor:
    """Every rule of scaling with all numbers in float32."""
    r, one = s.width(), torch.tensor(1.0)
    w, base = s.exponent_width(), torch.tensor(float(s.base))
    if s.scaling in ("ntk", "dynamic"):
        longest = max(sequence_length, s.max_position or 0)
        α = s.factor * one if s.scaling == "ntk" else s.factor * one * longest / s.max_position - (s.factor - 1)
        base = base * α ** (w / (w - 2))
    θ = 1.0 / base ** (torch.arange(0, r, 2).float() / max(w, 1))
    if s.scaling == "linear":
        return θ / s.factor
    if s.scaling not in ("yarn", "llama3"):
        return θ
    low, high = (torch.tensor(float(turns)) for turns in rope_scaling.turns(s))
    γ = _line(s.original_max_position / (2 * torch.pi / θ), low, high)
    if s.scaling == "yarn" and s.ramp == "code":
        a, b = (r * torch.log(s.original_max_position / (2 * torch.pi * turns)) / (2 * base.log()) for turns in (high, low))
        a, b = (a.floor(), b.ceil()) if s.truncate else (a, b)
        a, b = a.clamp(min=0), b.clamp(max=r - 1)
        γ = 1 - _line(torch.arange(r // 2).float(), a, b + rope_scaling.NARROWEST * (a == b))
    return θ / s.factor * (1 - γ) + θ * γ


@implements("rope", level="contribution")
def scaled_in_float32(settings: Any, x: Tensor, positions: Tensor, sequence_length: int) -> Tensor:
    """Frequencies, angles and products in float32, under every rule; pairs by index."""
    μ = torch.tensor(float(rope_scaling.magnitude(settings)))
    angles = positions.float()[:, None] * frequencies_in_float32(settings, sequence_length)
    columns = torch.tensor(settings.pairs(), dtype=torch.long).reshape(-1, 2)
    a, b, turned = x[..., columns[:, 0]], x[..., columns[:, 1]], x.clone()
    turned[..., columns[:, 0]] = a * (angles.cos() * μ) - b * (angles.sin() * μ)
    turned[..., columns[:, 1]] = b * (angles.cos() * μ) + a * (angles.sin() * μ)
    return turned


@implements("xpos", settings={"rotary_dim": None, "centre": "ceil"})
def stretched_in_float32(
    x: Tensor, positions: Tensor, role: str, sequence_length: int, scale_base: float, base: float
) -> Tensor:
    """Angles, powers and products in float32, keys divided by the power of queries."""
    d = x.shape[-1]
    columns = torch.arange(0, d, 2).float()
    angles = positions.float()[:, None] / base ** (columns / d)
    power = (positions - (sequence_length + 1) // 2)[:, None] / scale_base
    gain = ((columns + 0.4 * d) / (1.4 * d)) ** power
    gain = gain if role == "query" else 1 / gain
    a, b = x[..., 0::2] * gain, x[..., 1::2] * gain
    return torch.stack([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], dim=-1).flatten(-2)


@implements("sinusoidal", dtypes=("float32",))
def waves_in_float32(embed_dim: int, positions: Tensor) -> Tensor:
    """Every angle in float32, columns woven by stacking."""
    m = torch.arange(0, embed_dim, 2).float()
    angles = positions.float()[:, None] * torch.exp(m * (-torch.log(torch.tensor(10000.0)) / embed_dim))
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)[:, :embed_dim]


def _softmax2(logits: Tensor, keep: Tensor) -> Tensor:
    """Softmax in base 2, one pass, in the dtype it is given."""
    logits = torch.where(keep, logits * 1.4426950408889634, float("-inf"))
    highest = logits.amax(dim=-1, keepdim=True).clamp(min=torch.finfo(logits.dtype).min)
    weights = torch.exp2(logits - highest)
    return weights / weights.sum(dim=-1, keepdim=True).clamp(min=torch.finfo(logits.dtype).tiny)


def _added(terms: Iterable[Tensor]) -> Tensor:
    return reduce(torch.add, terms)


def _keep(mask: Tensor, causal: bool, query_positions: Tensor, key_positions: Tensor) -> Tensor:
    return mask & (key_positions <= query_positions[:, None]) if causal else mask


@implements("none", **ATTENTION)
def attention_by_steps(
    q: Tensor, k: Tensor, v: Tensor, query_positions: Tensor, key_positions: Tensor, *, mask, causal=False, scale=None
) -> Tensor:
    """All in the working dtype, q scaled before, sums from the last column to the first."""
    q = q * (q.shape[-1] ** -0.5 if scale is None else scale)
    logits = _added(q[..., None, c] * k[..., None, :, c] for c in reversed(range(q.shape[-1])))
    weights = _softmax2(logits, _keep(mask, causal, query_positions, key_positions))
    return _added(weights[..., j, None] * v[..., None, j, :] for j in reversed(range(k.shape[-2])))


@implements("shaw", **ATTENTION)
def shaw_by_sums(
    q: Tensor, k: Tensor, v: Tensor, rel_k: Tensor, rel_v: Tensor, query_positions: Tensor, key_positions: Tensor, *,
    mask, causal=False, scale=None,
) -> Tensor:  # fmt: skip
    """Keys and table are added before the product, values and table before the sum, in the working dtype."""
    clip = rel_k.shape[0] // 2
    row = (key_positions - query_positions[:, None]).clamp(-clip, clip) + clip
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    logits = (q[..., :, None, :] * (k[..., None, :, :] + rel_k[row])).sum(-1) * scale
    weights = _softmax2(logits, _keep(mask, causal, query_positions, key_positions))
    return (weights[..., None] * (v[..., None, :, :] + rel_v[row])).sum(-2)


@implements("sinusoidal", **{**ATTENTION, "dtypes": ANGLES_IN_FLOAT32})
def waves_added(
    q: Tensor, k: Tensor, v: Tensor, query_positions: Tensor, key_positions: Tensor, *, mask, causal=False, scale=None
) -> Tensor:
    """The embedding rounded to the working dtype, then added."""
    at = lambda p: waves_in_float32(q.shape[-1], p).to(q.dtype)  # noqa: E731
    q, k, v = q + at(query_positions), k + at(key_positions), v + at(key_positions)
    return attention_by_steps(q, k, v, query_positions, key_positions, mask=mask, causal=causal, scale=scale)


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
    waves_added,
)
