"""Attention by blocks of queries under a position term that is only looked at: what the Toeplitz and the skewed engine share.

A block has its queries turned over, the last one first: PyTorch has no negative strides, and so row r and column j of its
score have the distance j + r − (last position), which rises with both. A term that knows its numbers for every distance in
order then is a view of them, and no matrix of all pairs is ever allocated, forward or backward:

    block of 3 queries, 4 keys      row 0 (last query)   t0 t1 t2 t3         t: the numbers of all distances, rising
                                    row 1                t1 t2 t3 t4
                                    row 2 (first query)  t2 t3 t4 t5

Cost over attention without positions: a block of queries turned and turned back, O(Lq·D), and what the term costs. Causal
blocks end at their last key, so half of the work is not done. Backward: of fixed numbers the fused backward with the same view;
of learned ones one recomputation of the block's weights, five products in place of the fused kernel's five, and the diagonals'
sums. The fused kernel takes a mask of any strides, which is where the idea comes from; its backward is a private operator, and
where that is not to be had the recomputation does its work (`_operators.py`).
"""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from relpos.impls._attention import working
from relpos.impls._blocks import Block, Plan, Range, Term, Values
from relpos.impls._operators import FLASH, flash, flash_backward, recorded

FORWARD = 256  # queries of a block: few for what is allocated per block, many for the kernel


def streamed(plan: Plan, q: Tensor, k: Tensor, v: Tensor, *tensors: Tensor) -> Tensor:
    """Attention [B, H, Lq, Dv]; q [B, H, Lq, D], k [B, H, Lk, D], v [B, H, Lk, Dv], contiguous positions."""
    if recorded(q, k, v, *tensors):
        return _Streamed.apply(plan, q, k, v, *tensors)[0]
    out = q.new_empty((*q.shape[:3], v.shape[-1]))
    _fill(out, None, plan, q, k, v, tensors)
    return out


class _Streamed(torch.autograd.Function):
    """Attention and the logarithms of its divisors, [B, H, Lq]."""

    @staticmethod
    def forward(plan: Plan, q: Tensor, k: Tensor, v: Tensor, *tensors: Tensor) -> tuple[Tensor, Tensor]:
        out = q.new_empty((*q.shape[:3], v.shape[-1]))
        divisors = q.new_empty(q.shape[:3], dtype=working(q.dtype))
        _fill(out, divisors, plan, q, k, v, tensors)
        return out, divisors

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: tuple) -> None:
        plan, *tensors = inputs
        out, divisors = output
        ctx.plan = plan
        ctx.mark_non_differentiable(divisors)
        ctx.save_for_backward(*tensors, out, divisors)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        learned = any(ctx.needs_input_grad[4:])
        found = _Backward.apply(ctx.plan, learned, gradient, *ctx.saved_tensors)
        return None, *found, *(None for _ in ctx.needs_input_grad[len(found) + 1 :])

    @staticmethod
    def vmap(info: Any, in_dims: tuple, plan: Plan, *tensors: Tensor) -> tuple[tuple[Tensor, Tensor], tuple[int, int]]:
        """One sample after another: a mapped call is right, not fast."""
        each = [_Streamed.apply(plan, *_sample(tensors, in_dims[1:], n)) for n in range(info.batch_size)]
        out, divisors = (torch.stack(parts) for parts in zip(*each, strict=True))
        return (out, divisors), (0, 0)


class _Backward(torch.autograd.Function):
    """Gradients of q, k, v and, if learned, of the tensors; a function of its own, so that transforms see one call."""

    @staticmethod
    def forward(plan: Plan, learned: bool, gradient: Tensor, *saved: Tensor) -> tuple[Tensor, ...]:
        with torch.autocast(gradient.device.type, enabled=False):
            return _gradients(plan, learned, gradient, *saved)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: tuple) -> None:
        """Nothing is kept."""

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> None:
        raise NotImplementedError(
            "blocks of attention are differentiated once: for gradients of gradients use the variant `attention` of the scheme."
        )

    @staticmethod
    def vmap(info: Any, in_dims: tuple, plan: Plan, learned: bool, *tensors: Tensor) -> tuple[tuple[Tensor, ...], tuple]:
        """One sample after another."""
        each = [_Backward.apply(plan, learned, *_sample(tensors, in_dims[2:], n)) for n in range(info.batch_size)]
        found = tuple(torch.stack(parts) for parts in zip(*each, strict=True))
        return found, (0,) * len(found)


def _sample(tensors: tuple[Tensor, ...], in_dims: tuple, n: int) -> list[Tensor]:
    return [t if d is None else t.select(d, n) for t, d in zip(tensors, in_dims, strict=True)]


def _gradients(plan: Plan, learned: bool, gradient: Tensor, *saved: Tensor) -> tuple[Tensor, ...]:
    q, k, v, *tensors, out, divisors = saved
    term = plan.makes(plan.own(tuple(tensors)), plan, learned=learned)
    values = None
    if plan.valued:  # what is asked is the gradient of the output, of which nothing is hidden
        asked = gradient.to(working(q.dtype))
        values = plan.valued((asked, tensors[-1]), replace(plan, causal=False), learned=learned)
    fixed = FLASH.used and not learned and values is None and q.shape[-1] == v.shape[-1] and q.device.type == "cpu"
    dtype = q.dtype if fixed else working(q.dtype)
    back = _Back(*(torch.zeros(x.shape, dtype=working(x.dtype), device=x.device) for x in (q, k, v)))
    size = (term.queries_at_once or FORWARD) if fixed else term.again[0]
    for b in plan.blocks(q, k, size, term.heads_at_once):
        at = (slice(None), b.heads, slice(b.first, b.last))
        mine = [x[at].flip(-2).to(dtype) for x in (gradient, q, out)]
        theirs = [x[:, b.heads, : b.keys].to(dtype) for x in (k, v)]
        if fixed:
            _fused(back, term, b, mine, theirs, divisors[at].flip(-1), plan.scale)
        else:
            _again(back, (term, values, learned), b, mine, theirs, divisors[at].flip(-1), plan.scale)
    grads = (x.to(y.dtype) for x, y in zip((back.q, back.k, back.v), (q, k, v), strict=True))
    of_values = () if values is None else values.gradients()[1:]
    of_tensors: Any = (*term.gradients(), *of_values) if learned else ()
    return *grads, *of_tensors


def _fill(
    out: Tensor, divisors: Tensor | None, plan: Plan, q: Tensor, k: Tensor, v: Tensor, tensors: tuple[Tensor, ...]
) -> None:
    """The forward call, block by block; what a block needed is gone before the next one begins."""
    # A mask that requires a gradient would choose a kernel that forms all scores, even here.
    tensors = tuple(t.detach() for t in tensors)
    term = plan.makes(plan.own(tensors), plan, learned=False)
    values = plan.valued((q, tensors[-1]), plan, learned=False) if plan.valued else None
    with torch.autocast(q.device.type, enabled=False):  # it would round the term to 16 bits
        _fill_blocks(out, divisors, term, values, plan, q, k, v)


def _fill_blocks(
    out: Tensor, divisors: Tensor | None, term: Term, values: Values | None, plan: Plan, q: Tensor, k: Tensor, v: Tensor
) -> None:
    blind = plan.blind(q.shape[2], k.shape[2])
    out[:, :, :blind] = 0.0
    if divisors is not None:
        divisors[:, :, :blind] = -torch.inf
    for b in plan.blocks(q, k, term.queries_at_once or FORWARD, term.heads_at_once):
        found, divisor = _of_block(b, term, values, plan, q, k, v)
        # Row by row back in order: a flip would be one more copy of the block.
        turned = torch.arange(b.last - 1, b.first - 1, -1, device=q.device)
        out[:, b.heads].index_copy_(2, turned, found.to(out.dtype))
        if divisors is not None:
            divisors[:, b.heads].index_copy_(2, turned, divisor)
        del found, divisor


def _of_block(
    b: Block, term: Term, values: Values | None, plan: Plan, q: Tensor, k: Tensor, v: Tensor
) -> tuple[Tensor, Tensor]:
    """Attention of a block's queries, the last one first, and the logarithms of their divisors."""
    seen = (slice(None), b.heads, slice(b.keys))
    turned, ranges = q[:, b.heads, b.first : b.last].flip(-2), term.ranges(b)
    found, shares, divisor = _merged(_parts(ranges, turned, k[seen], v[seen], plan.scale))
    if values is not None:
        found = found + _of_values(values, b, ranges, shares, turned.to(divisor.dtype) * plan.scale, k[seen])
    return found, divisor


def _parts(ranges: list[Range], q: Tensor, k: Tensor, v: Tensor, scale: float) -> list[tuple[Tensor, Tensor]]:
    """Attention over each range, and the logarithms of its divisors, [B, h, n]."""
    parts = []
    for one in ranges:
        found, divisor = flash(q, k[:, :, one.keys], v[:, :, one.keys], one.mask, scale)
        parts.append((found, divisor if one.shift is None else divisor + one.shift))
    return parts


def _merged(parts: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor, Tensor]:
    """Attention over all ranges; the share of each, [ranges, B, h, n], and the logarithm of the whole divisor, [B, h, n]."""
    divisors = torch.stack([divisor for _, divisor in parts])
    if len(parts) == 1:
        return parts[0][0], torch.ones_like(divisors), divisors[0]
    shares, whole = divisors.softmax(0), divisors.logsumexp(0)  # shares add up to 1, however the divisors were rounded
    out = whole.new_zeros(())
    for (found, _), share in zip(parts, shares, strict=True):
        out = out + found.to(whole.dtype) * share.unsqueeze(-1)
    return out, shares, whole


def _of_values(values: Values, b: Block, ranges: list[Range], shares: Tensor, q: Tensor, k: Tensor) -> Tensor:
    """What vectors by distance add to the output: of a far range one vector, of the band by its weights."""
    found = q.new_zeros(())
    for one, share in zip(ranges, shares, strict=True):
        if one.distance:
            found = found + share.unsqueeze(-1) * values.at(b, one.distance)
            continue
        weights = (q @ k[:, :, one.keys].to(q.dtype).transpose(-1, -2)).add_(one.mask).softmax(-1)
        found = found + values.mixed(b, one.keys, weights.mul_(share.unsqueeze(-1)))
    return found


@dataclass(frozen=True)
class _Back:
    q: Tensor
    k: Tensor
    v: Tensor


def _fused(back: _Back, term: Term, b: Block, mine: list, theirs: list, divisor: Tensor, scale: float) -> None:
    """The fused backward of a block under the same view."""
    (gradient, q, out), (k, v) = mine, theirs
    dq, dk, dv = flash_backward(gradient, q, k, v, out, divisor, term.added(b), scale)
    back.q[:, b.heads, b.first : b.last] = dq.flip(-2)
    back.k[:, b.heads, : b.keys] += dk
    back.v[:, b.heads, : b.keys] += dv


def _again(
    back: _Back, terms: tuple[Term, Any, bool], b: Block, mine: list, theirs: list, divisor: Tensor, scale: float
) -> None:
    """The weights of a block once more, and with them every gradient."""
    (gradient, q, out), (k, v), (term, values, learned) = mine, theirs, terms
    q, of_q, mean = q * scale, torch.zeros_like(q), (gradient * out).sum(-1, keepdim=True)
    # A row that sees nothing has no divisor, and weights of 0.
    divisor = divisor.masked_fill(divisor.isinf(), 0.0).unsqueeze(-1)
    for keys, tile in b.tiles(term.again[1]):
        weights = (q @ k[:, :, keys].transpose(-1, -2)).add_(term.added(tile)).sub_(divisor).exp_()
        back.v[:, b.heads, keys] += weights.transpose(-1, -2) @ gradient
        moved = gradient @ v[:, :, keys].transpose(-1, -2)
        if values is not None:
            moved.add_(values.added(tile))
        if values is not None and learned:
            values.collect(tile, weights)
        moved = moved.sub_(mean).mul_(weights)
        of_q += moved @ k[:, :, keys]
        back.k[:, b.heads, keys] += moved.transpose(-1, -2) @ q
        if learned:
            term.collect(tile, moved)
    back.q[:, b.heads, b.first : b.last] = of_q.mul_(scale).flip(-2)
