"""What ALiBi adds: slopes of all heads under every rule, and the penalty that they make of distances."""

import torch
from torch import Tensor

from relpos.impls._attention import relative
from relpos.spec.alibi import ALiBi


def _biased(settings: ALiBi) -> int:
    return settings.num_heads if settings.num_biased_heads is None else settings.num_biased_heads


def slopes_of(settings: ALiBi, dtype: torch.dtype, device: torch.device | None = None) -> Tensor:
    """m of every head, [H]; 0 of heads without a bias."""
    count = _biased(settings)
    series = _series(settings, count // 2) * 2 if settings.distance == "half_half" else _series(settings, count)
    return torch.tensor(series + [0.0] * (settings.num_heads - count), dtype=dtype, device=device)


def _series(settings: ALiBi, count: int) -> list[float]:
    if count == 0:
        return []
    total = count if settings.slope_rule == "geometric" else 1 << (count - 1).bit_length()
    full = [2.0 ** -(settings.bias_max * place / total) for place in range(1, total + 1)]
    return full if total == count else (full[1::2] + full[::2])[:count]


def half_of(settings: ALiBi) -> int:
    """Heads of each half of "half_half"."""
    return _biased(settings) // 2


def coordinate_of(settings: ALiBi, query_positions: Tensor, key_positions: Tensor) -> Tensor:
    """What slopes multiply: key minus query, [..., Lq, Lk], or under "key_only" the key's position, [..., 1, Lk]."""
    if settings.distance == "key_only":
        return key_positions.unsqueeze(-2)
    return relative(query_positions, key_positions)


def line_of(settings: ALiBi, coordinate: Tensor, dtype: torch.dtype) -> Tensor:
    """The penalty of a row of coordinates, [n] -> [H, n]."""
    return penalty_of(settings, coordinate.unsqueeze(0), slopes_of(settings, dtype, coordinate.device)).squeeze(-2)


def penalty_of(settings: ALiBi, coordinate: Tensor, slopes: Tensor, heads: Tensor | None = None) -> Tensor:
    """[..., Lq, Lk] -> [..., H, Lq, Lk]; the coordinate is key minus query, or what m multiplies under "key_only".

    heads   which ones the slopes are of; None: all
    """
    slopes, coordinate = slopes[:, None, None], coordinate.unsqueeze(-3)
    if settings.distance == "key_only":
        return slopes * coordinate
    if settings.distance == "causal":
        return slopes * coordinate.clamp(max=0)
    penalty = -slopes * coordinate.abs()
    if settings.distance == "symmetric":
        return penalty
    heads = torch.arange(settings.num_heads, device=coordinate.device) if heads is None else heads
    return penalty.masked_fill(_unheard(settings, coordinate, heads[:, None, None]), -torch.inf)


def _unheard(settings: ALiBi, distance: Tensor, head: Tensor) -> Tensor:
    half = half_of(settings)
    return ((head < half) & (distance > 0)) | ((head >= half) & (head < 2 * half) & (distance < 0))
