"""Faulty rotations that are more than a wrong definition: what only a compiler, a gradient, or another setting shows."""

import torch
from torch import Tensor

from relpos.conformance.faults.api import Planted

PARTIAL = {"head_dim": 8, "rotary_dim": 4}
HALF = {"layout": "half", "rotary_dim": None}
WOVEN = {"layout": "interleaved", "rotary_dim": None, "base": 10000.0, "partial": "leading", "scaling": "none"}
LEADING = {**PARTIAL, "layout": "half", "partial": "leading", "scaling": "none", "base": 10000.0}


def _angles(positions: Tensor, base: float, width: int, of: int) -> Tensor:
    """p · base^(−2m / of) for the pairs of so many columns."""
    return positions[..., None] * base ** (-torch.arange(0, width, 2, dtype=torch.float64) / of)


def turned_as_halves(x: Tensor, positions: Tensor, base: float) -> Tensor:
    """The right rotation of x [..., L, D], columns paired as halves."""
    angles = _angles(positions, base, x.shape[-1], x.shape[-1])
    c, s = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * c - b * s, a * s + b * c), dim=-1)


def _woven(x: Tensor, positions: Tensor, base: float, swapped: bool = False) -> Tensor:
    """Columns paired as neighbours, written with a stride of two."""
    angles = _angles(positions, base, x.shape[-1], x.shape[-1])
    c, s = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x[..., 0::2], x[..., 1::2]
    pair = (a * c - b * s, a * s + b * c)
    return torch.stack(pair[::-1] if swapped else pair, dim=-1).flatten(-2)


class _Straight(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, positions: Tensor, base: float) -> Tensor:
        return turned_as_halves(x, positions, base)

    @staticmethod
    def backward(ctx, gradient: Tensor):
        return gradient, None, None


def gradient_not_turned(x: Tensor, positions: Tensor, base: float) -> Tensor:
    """A backward written by hand that does not turn back."""
    return _Straight.apply(x, positions, base)


def compiled_gradient(x: Tensor, positions: Tensor, base: float) -> Tensor:
    """Right as it is; once compiled, the gradient is not turned back."""
    if torch.compiler.is_compiling():
        still = turned_as_halves(x.detach(), positions, base)
        return still + x - x.detach()
    return turned_as_halves(x, positions, base)


def compiled_write(x: Tensor, positions: Tensor, base: float) -> Tensor:
    """Right as it is; once compiled, the columns of every pair are written in each other's place."""
    return _woven(x, positions, base, swapped=torch.compiler.is_compiling())


def neighbours_paired(x: Tensor, positions: Tensor, base: float) -> Tensor:
    """Neighbours are paired where halves were asked for."""
    return _woven(x, positions, base)


def _in_front(x: Tensor, angles: Tensor, apart: int) -> Tensor:
    """Pairs (m, m + apart) of the first columns, turned."""
    n, turned = angles.shape[-1], x.clone()
    c, s = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x[..., :n], x[..., apart : apart + n]
    turned[..., :n], turned[..., apart : apart + n] = a * c - b * s, a * s + b * c
    return turned


def spread_over_head(x: Tensor, positions: Tensor, base: float, rotary_dim: int) -> Tensor:
    """Exponents and partners of the head's width in a rotation of its first columns."""
    return _in_front(x, _angles(positions, base, rotary_dim, x.shape[-1]), x.shape[-1] // 2)


def frequencies_of_head(x: Tensor, positions: Tensor, base: float, rotary_dim: int) -> Tensor:
    """As many frequencies as the head has pairs, for fewer columns: a crash."""
    angles = _angles(positions, base, x.shape[-1], x.shape[-1])
    a, b = x[..., : rotary_dim // 2], x[..., rotary_dim // 2 : rotary_dim]
    return torch.cat((a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos(), x[..., rotary_dim:]), dim=-1)


# fmt: off
PLANTED = (
    Planted("gradient-not-turned", "a gradient that is not turned back", "L20", gradient_not_turned, settings=HALF),
    Planted("compiled-gradient", "a gradient that is not turned back, once compiled", "L24", compiled_gradient,
        cases=("B132",), settings=HALF),
    Planted("compiled-write", "columns of a pair exchanged, once compiled", "L24", compiled_write, cases=("B145",),
        settings=WOVEN),
    Planted("neighbours-paired", "neighbours paired where halves were asked for", "L14", neighbours_paired, cases=("B083",),
        settings={**WOVEN, "layout": "half"}),
    Planted("spread-over-head", "exponents and partners of the head in a partial rotation", "L15", spread_over_head,
        cases=("B084",), settings=LEADING),
    Planted("frequencies-of-head", "a crash: frequencies for the whole head", "L15", frequencies_of_head, cases=("B086",),
        settings=LEADING),
)
# fmt: on
