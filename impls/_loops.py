"""A rotation as one loop that PyTorch's compiler makes: no buffer, every number of x read and written once.

    half                         out = (a·cos − b·sin | a·sin + b·cos), read and written as columns lie
    interleaved, bfloat16        one pair is one int32:   [ b | a ]     a = low 16 bits ≪ 16, b = high 16 bits, as float32
                                 out = [ round(a·sin + b·cos) | round(a·cos − b·sin) ], to the nearest, ties to even

A loop over pairs that lie apart is not made of vector instructions; over int32 it is. Other dtypes and small x take the passes
of `_turning.py`. Compiling takes seconds, many on a slow machine, for each layout, width, dtype and stride, and once more when
lengths differ.
Cost over a copy of x: the table's L·r numbers. Source: the formula; bfloat16 is the upper half of a float32 (IEEE 754).
"""

import torch
from torch import Tensor

from relpos.impls._operators import COMPILER, compiled
from relpos.impls._rotation import Plain, joined, pairable, split, width
from relpos.spec.rope import RoPE

LEAST = 2**18  # numbers of x below which the passes cost no more than a call


def looped(settings: RoPE | Plain, x: Tensor) -> bool:
    """Whether a loop is made for x."""
    paired = settings.layout == "half" or pairable(x, torch.bfloat16)
    return COMPILER.used and x.device.type == "cpu" and paired and x.numel() >= LEAST


def by_loop(settings: RoPE | Plain, x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """x [..., L, D] with its pairs turned, in the dtype of x; cosine and sine [..., L, r/2]."""
    r = width(settings)
    if settings.layout == "interleaved":
        found = compiled(_turned_pairs)(x[..., :r].view(torch.int32), cosine, sine).view(x.dtype)
        return found if r == x.shape[-1] else torch.cat((found, x[..., r:]), dim=-1)
    loop = compiled(_turned_halves)
    if r == x.shape[-1]:
        return loop(x, cosine, sine)
    return joined(settings, x, *loop(torch.cat(split(settings, x), dim=-1), cosine, sine).chunk(2, dim=-1))


def _turned_halves(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    a, b = x.to(cosine.dtype).chunk(2, dim=-1)
    return torch.cat(((a * cosine - b * sine).to(x.dtype), (a * sine + b * cosine).to(x.dtype)), dim=-1)


def _turned_pairs(pairs: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    a, b = (pairs << 16).view(torch.float32), (pairs & -(2**16)).view(torch.float32)
    low, high = _rounded(a * cosine - b * sine), _rounded(a * sine + b * cosine)
    return ((low >> 16) & 0xFFFF) | (high & -(2**16))


def _rounded(x: Tensor) -> Tensor:
    """As int32, whose upper half is the nearest bfloat16, of two the even one. NaN stays NaN: its lower half is 0."""
    bits = x.view(torch.int32)
    return bits + 0x7FFF + ((bits >> 16) & 1)
