"""Attention by blocks of queries under a position term that is only looked at: what the Toeplitz and the skewed engine share.

A block has its queries turned over, the last one first: PyTorch has no negative strides, and so row r and column j of its
score have the distance j + r − (last position), which rises with both. A term that knows its numbers for every distance in
order then is a view of them, and no matrix of all pairs is ever allocated, forward or backward:

    block of 3 queries, 4 keys      row 0 (last query)   t0 t1 t2 t3         t: the numbers of all distances, rising
                                    row 1                t1 t2 t3 t4
                                    row 2 (first query)  t2 t3 t4 t5

Cost over attention without positions: two flips of a block of queries, O(Lq·D), and what the term costs. Causal blocks end at
their last key, so half of the work is not done. Backward: of fixed numbers the fused backward with the same view; of learned
ones one recomputation of the block's weights, five products in place of the fused kernel's five, and the diagonals' sums.
The fused kernel takes a mask of any strides, which is where the idea comes from; its backward is a private operator, and
where that is not to be had the recomputation does its work (`_operators.py`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from relpos.impls._attention import working
from relpos.impls._operators import FLASH, flash, flash_backward

FORWARD, BACKWARD = 256, 128  # queries of a block: few for what is allocated per block, many for the kernel


@dataclass(frozen=True)
class Block:
    """Queries first … last − 1 against the keys up to `keys`, for some heads; s: where its distances begin in the term."""

    first: int
    last: int
    keys: int
    heads: slice
    s: int

    @property
    def width(self) -> int:
        """Distances that occur."""
        return self.last - self.first + self.keys - 1


# Some keys; what is added to their scores, [1 or B, h, n, m]; and what each query adds to all of these alike, [B, h, n].
Range = tuple[slice, Tensor, Tensor | None]


class Term(Protocol):
    """Numbers for every distance in order, learned or not."""

    heads_at_once: int

    def ranges(self, block: Block) -> list[Range]:
        """What is added, by ranges of keys; all together they are all keys."""
        ...

    def added(self, block: Block) -> Tensor:
        """What is added to the scaled products, [1 or B, h, n, m], strides of any kind."""
        ...

    def collect(self, block: Block, gradient: Tensor) -> None:
        """Take in the gradient of what was added, [B, h, n, m]."""
        ...

    def gradients(self) -> tuple[Tensor | None, ...]:
        """Of its tensors, in order, once all blocks have been collected."""
        ...


class Makes(Protocol):
    """Makes a term of its tensors, under a plan; learned: gradients will be collected."""

    def __call__(self, tensors: tuple[Tensor, ...], plan: "Plan", *, learned: bool) -> Term: ...


@dataclass(frozen=True, kw_only=True)
class Plan:
    """All that is no tensor."""

    makes: Makes
    offset: int
    causal: bool
    scale: float
    reach: tuple[int, int] = (0, 0)  # of a ranged term: from where on it is constant, before and after the query

    def blocks(self, q: Tensor, k: Tensor, size: int, heads_at_once: int) -> Iterator[Block]:
        """All queries, block by block, the first ones first: what a causal block sees only grows."""
        H, Lq, Lk = q.shape[1], q.shape[2], k.shape[2]
        for first in range(0, Lq, size):
            last = min(first + size, Lq)
            keys = max(min(Lk, last + self.offset), 1) if self.causal else Lk
            for h in range(0, H, heads_at_once):
                yield Block(first, last, keys, slice(h, min(h + heads_at_once, H)), Lq - last)


def streamed(plan: Plan, q: Tensor, k: Tensor, v: Tensor, *tensors: Tensor) -> Tensor:
    """Attention [B, H, Lq, Dv]; q [B, H, Lq, D], k [B, H, Lk, D], v [B, H, Lk, Dv], contiguous positions."""
    return _Streamed.apply(plan, q, k, v, *tensors)[0]


class _Streamed(torch.autograd.Function):
    """Attention and the logarithms of its divisors, [B, H, Lq]."""

    @staticmethod
    def forward(plan: Plan, q: Tensor, k: Tensor, v: Tensor, *tensors: Tensor) -> tuple[Tensor, Tensor]:
        out = q.new_empty((*q.shape[:3], v.shape[-1]))
        divisors = q.new_empty(q.shape[:3], dtype=working(q.dtype))
        # A mask that requires a gradient would choose a kernel that forms all scores, even here.
        term = plan.makes(tuple(t.detach() for t in tensors), plan, learned=False)
        with torch.autocast(q.device.type, enabled=False):  # it would round the term to 16 bits
            _fill(out, divisors, term, plan, q, k, v)
        return out, divisors

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: tuple) -> None:
        plan, *tensors = inputs
        out, divisors = output
        ctx.plan = plan
        ctx.mark_non_differentiable(divisors)
        ctx.save_for_backward(*tensors, out, divisors)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, *tensors, out, divisors = ctx.saved_tensors
        learned = any(ctx.needs_input_grad[4:])
        term = ctx.plan.makes(tuple(tensors), ctx.plan, learned=learned)
        fixed = FLASH.used and not learned and q.shape[-1] == v.shape[-1] and q.device.type == "cpu"
        dtype = q.dtype if fixed else working(q.dtype)
        back = _Back(*(torch.zeros(x.shape, dtype=working(x.dtype), device=x.device) for x in (q, k, v)))
        for b in ctx.plan.blocks(q, k, FORWARD if fixed else BACKWARD, term.heads_at_once):
            at = (slice(None), b.heads, slice(b.first, b.last))
            mine = [x[at].flip(-2).to(dtype) for x in (gradient, q, out)]
            theirs = [x[:, b.heads, : b.keys].to(dtype) for x in (k, v)]
            (_fused if fixed else _again)(back, term, b, mine, theirs, divisors[at].flip(-1), ctx.plan.scale)
        grads = (x.to(y.dtype) for x, y in zip((back.q, back.k, back.v), (q, k, v), strict=True))
        return None, *grads, *(term.gradients() if learned else (None,) * len(tensors))

    @staticmethod
    def vmap(info: Any, in_dims: tuple, plan: Plan, *tensors: Tensor) -> tuple[tuple[Tensor, Tensor], tuple[int, int]]:
        """One sample after another: a mapped call is right, not fast."""
        each = [
            _Streamed.apply(plan, *(t if d is None else t.select(d, n) for t, d in zip(tensors, in_dims[1:], strict=True)))
            for n in range(info.batch_size)
        ]
        out, divisors = (torch.stack(parts) for parts in zip(*each, strict=True))
        return (out, divisors), (0, 0)


def _fill(out: Tensor, divisors: Tensor, term: Term, plan: Plan, q: Tensor, k: Tensor, v: Tensor) -> None:
    """The forward call, block by block."""
    for b in plan.blocks(q, k, FORWARD, term.heads_at_once):
        at = (slice(None), b.heads, slice(b.first, b.last))
        seen = (slice(None), b.heads, slice(b.keys))
        found, divisor = _attended(term.ranges(b), q[at].flip(-2), k[seen], v[seen], plan.scale)
        out[at] = found.flip(-2)
        divisors[at] = divisor.flip(-1)


def _attended(ranges: list[Range], q: Tensor, k: Tensor, v: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """Attention over all ranges, each weighed by its share of the divisor, and the logarithm of that, [B, h, n]."""
    parts = []
    for keys, mask, shift in ranges:
        found, divisor = flash(q, k[:, :, keys], v[:, :, keys], mask, scale)
        parts.append((found, divisor if shift is None else divisor + shift))
    if len(parts) == 1:
        return parts[0]
    whole = torch.stack([divisor for _, divisor in parts]).logsumexp(0)
    out = sum(found.to(whole.dtype) * (divisor - whole).exp().unsqueeze(-1) for found, divisor in parts)
    return out.to(q.dtype), whole


@dataclass(frozen=True)
class _Back:
    q: Tensor
    k: Tensor
    v: Tensor


def _fused(back: _Back, term: Term, b: Block, mine: list, theirs: list, divisor: Tensor, scale: float) -> None:
    """The fused backward of a block under the same view."""
    gradient, q, out = mine
    dq, dk, dv = flash_backward(gradient, q, *theirs, out, divisor, term.added(b), scale)
    back.q[:, b.heads, b.first : b.last] = dq.flip(-2)
    back.k[:, b.heads, : b.keys] += dk
    back.v[:, b.heads, : b.keys] += dv


def _again(back: _Back, term: Term, b: Block, mine: list, theirs: list, divisor: Tensor, scale: float) -> None:
    """The weights of a block once more, and with them every gradient."""
    (gradient, q, out), (k, v) = mine, theirs
    q = q * scale
    score = (q @ k.transpose(-1, -2)).add_(term.added(b))
    # A row that sees nothing has no divisor, and weights of 0.
    weights = score.sub_(divisor.masked_fill(divisor.isinf(), 0.0).unsqueeze(-1)).exp_()
    back.v[:, b.heads, : b.keys] += weights.transpose(-1, -2) @ gradient
    moved = (gradient @ v.transpose(-1, -2)).sub_((gradient * out).sum(-1, keepdim=True)).mul_(weights)
    back.q[:, b.heads, b.first : b.last] = (moved @ k).mul_(scale).flip(-2)
    back.k[:, b.heads, : b.keys] += moved.transpose(-1, -2) @ q
    term.collect(b, moved)
