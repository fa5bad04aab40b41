"""The rotation engine: pairs of columns turned in one pass over memory, forward and backward.

    interleaved   x0 x1 | x2 x3 | …     each pair is a complex number, multiplied where it lies by μ·e^(iθ)
    half          x0 … | x32 …          two products and two products added, per half

16-bit inputs go by a few heads through one float32 buffer that stays in a cache: memory is read and written once, in 16 bits.
Backward is the same pass with the conjugate. Written out (`_rotation.py`) a rotation reads and writes several tensors of the
size of x, which is what it costs, since its 6 operations per pair are nothing.

By the compiler it is one loop without a buffer (`_loops.py`), which halves and 16 bits gain from; a pair of float32 side by
side is a complex product already.

Cost over a copy of x: 1 pass of 1 where pairs lie side by side in the dtype of the work; the table of L·r/2 complex numbers.
Source: the complex form of Su et al. (RoFormer, 2021), equation 13.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from relpos.impls._loops import by_loop, looped
from relpos.impls._operators import recorded
from relpos.impls._rotation import Plain, pairable, split, turned, width
from relpos.spec.rope import RoPE

CACHED = 2**19  # numbers of x that are turned at once where a buffer is needed: it stays in a cache


def turned_once(settings: RoPE | Plain, x: Tensor, turns: Tensor) -> Tensor:
    """x [..., L, D] with its pairs turned, in the dtype of x.

    turns   μ·e^(iθ), [L, r/2] or [B, 1, L, r/2], complex numbers of the working dtype
    """
    if torch.compiler.is_compiling():  # the compiler fuses what is written out
        return turned(settings, x, turns.real, turns.imag)
    return (_Turned.apply if recorded(x, turns) else _Turned.forward)(settings, x, turns)


def turned_in_a_loop(settings: RoPE | Plain, x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """The same by a compiled loop, of μ·cos θ and μ·sin θ apart, where x is worth it and the machine has a compiler."""
    if torch.compiler.is_compiling():
        return turned(settings, x, cosine, sine)
    return (_Turned.apply if recorded(x, cosine, sine) else _Turned.forward)(settings, x, cosine, sine)


class _Turned(torch.autograd.Function):
    """By passes where turns are complex numbers, by a loop where they are cosines and sines."""

    @staticmethod
    def forward(settings: RoPE | Plain, x: Tensor, *turns: Tensor) -> Tensor:
        if len(turns) == 2 and looped(settings, x):
            return by_loop(settings, x, *turns)
        return _passed(settings, x, torch.complex(*turns) if len(turns) == 2 else turns[0])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: Tensor) -> None:
        del output
        ctx.settings, _, *turns = inputs
        ctx.save_for_backward(*turns)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        turns = ctx.saved_tensors
        back = (turns[0], -turns[1]) if len(turns) == 2 else (turns[0].conj().resolve_conj(),)
        return None, _Turned.apply(ctx.settings, gradient, *back), *(None for _ in turns)

    @staticmethod
    def vmap(info: Any, in_dims: tuple, settings: RoPE | Plain, *tensors: Tensor) -> tuple[Tensor, int]:
        """One sample after another: a mapped call is right, not fast."""
        each = [
            _Turned.apply(settings, *(t if d is None else t.select(d, n) for t, d in zip(tensors, in_dims[1:], strict=True)))
            for n in range(info.batch_size)
        ]
        return torch.stack(each), 0


def _passed(settings: RoPE | Plain, x: Tensor, turns: Tensor) -> Tensor:
    r, dtype = width(settings), turns.real.dtype
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    if r < x.shape[-1]:
        out.copy_(x)
    wide, buffers = settings.layout == "interleaved" and x.dtype == dtype, _Buffers(dtype)
    for source, by, target in _pieces(_of_four(x), _of_four(turns), _of_four(out), whole=wide):
        if settings.layout == "interleaved":
            _pairs(source[..., :r], by, target[..., :r], buffers)
        else:
            _halves(split(settings, source), by, split(settings, target), buffers)
    return out


def _of_four(x: Tensor) -> Tensor:
    """With four axes: batch, head, position, column."""
    return x.flatten(0, -4) if x.ndim > 4 else x[(None,) * (4 - x.ndim)]


def _pieces(x: Tensor, turns: Tensor, out: Tensor, *, whole: bool) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """All at once, or a few heads of a sample at a time."""
    if whole or x.numel() <= CACHED:
        yield x, turns, out
        return
    heads = max(CACHED // max(x.shape[2] * x.shape[3], 1), 1)
    for source, by, target in zip(x, turns.expand(len(x), -1, -1, -1), out, strict=True):
        for piece, to in zip(source.split(heads), target.split(heads), strict=True):
            yield piece, by, to


class _Buffers:
    """Tensors that every part of x uses anew."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype
        self._held: dict[str, Tensor] = {}

    def like(self, x: Tensor, name: str) -> Tensor:
        """Of the shape of x, contiguous, its numbers left as they are."""
        if name not in self._held or self._held[name].shape != x.shape:
            self._held[name] = torch.empty(x.shape, dtype=self.dtype, device=x.device)
        return self._held[name]


def _pairs(x: Tensor, turns: Tensor, out: Tensor, buffers: _Buffers) -> None:
    if pairable(x, buffers.dtype) and pairable(out, buffers.dtype):
        torch.mul(_complex(x), turns, out=_complex(out))
        return
    wide = buffers.like(x, "wide").copy_(x)
    pairs = _complex(wide)
    torch.mul(pairs, turns, out=pairs)
    out.copy_(wide)


def _halves(x: tuple[Tensor, Tensor], turns: Tensor, out: tuple[Tensor, Tensor], buffers: _Buffers) -> None:
    cosine, sine = turns.real.contiguous(), turns.imag.contiguous()
    low = x[0].dtype != buffers.dtype
    a, b = (buffers.like(part, name).copy_(part) if low else part for part, name in zip(x, ("a", "b"), strict=True))
    for to, (first, second), sign in ((out[0], (cosine, sine), -1), (out[1], (sine, cosine), 1)):
        target = buffers.like(to, "turned") if low else to
        torch.mul(a, first, out=target)
        target.addcmul_(b, second, value=sign)
        if low:
            to.copy_(target)


def _complex(x: Tensor) -> Tensor:
    return torch.view_as_complex(x.unflatten(-1, (-1, 2)))
