"""Right implementations of contributions in styles that ours do not have: other orders of summation, other precisions."""

from math import ceil, log2
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


def _one_hot(rows: Tensor, table: Tensor) -> Tensor:
    """The bias as a product: rows of zeros with a single 1, times the table."""
    return (torch.nn.functional.one_hot(rows, len(table)).to(table.dtype) @ table).movedim(-1, -3)


def _edges(exact: int, wide: int, max_distance: int) -> list[int]:
    """Where each logarithmic bucket begins: guessed by log2, then put right in whole numbers."""
    found = []
    for t in range(1, wide):
        least = max_distance**t * exact ** (wide - t)
        n = ceil(2 ** (log2(exact) + t / wide * log2(max_distance / exact)))
        while n**wide >= least:
            n -= 1
        while n**wide < least:
            n += 1
        found.append(n)
    return found


@implements("t5", dtypes=DTYPES)
def buckets_by_edges(
    num_buckets: int, max_distance: int, bidirectional: bool, table: Tensor, query_positions: Tensor, key_positions: Tensor
) -> Tensor:
    """Buckets by counting the edges that are passed, numbers by a product."""
    far = key_positions - query_positions[:, None]
    one_way = num_buckets // 2 if bidirectional else num_buckets
    exact = one_way // 2
    n = far.abs() if bidirectional else (-far).clamp(min=0)
    passed = sum((n >= edge).long() for edge in _edges(exact, one_way - exact, max_distance))
    rows = torch.where(n < exact, n, exact + passed)
    return _one_hot(rows + one_way * (far > 0) if bidirectional else rows, table)


@implements("clipped", dtypes=DTYPES)
def rows_by_product(max_distance: int, table: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor:
    """Distances clipped by two comparisons, numbers by a product."""
    far = query_positions[:, None] - key_positions
    far = torch.where(far > max_distance, max_distance, torch.where(far < -max_distance, -max_distance, far))
    return _one_hot(far + max_distance, table)
