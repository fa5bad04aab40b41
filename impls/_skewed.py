"""The skewed engine: a position term q_i · e(j − i), in the memory of attention without one.

A block of turned queries is multiplied with the vectors of all distances that occur in it, in order. Row r of the product holds
what belongs to key j in column j + r, so that a view whose rows begin one number further on is the term: nothing is padded,
gathered or copied.

    product, 2 queries and 3 keys      d  -2  -1   0   1       view      keys  0    1    2
                        query 1            a0  a1  a2  a3                      a0   a1   a2
                        query 0            b0  b1  b2  b3                      b1   b2   b3

Cost: one more product of three, Lq · (Lk + n) · E for blocks of n queries, so 1.5 times attention's own at least; a buffer of
h · n · (Lk + n) numbers that every block uses anew. Backward, the gradient of the view is written back through it, and two
products with that buffer give those of the queries and of the vectors.
Source: the skewing of Huang et al. (Music Transformer, 2018), without its padding; a view as a mask, see `_streamed.py`.
"""

from math import prod

import torch
from torch import Tensor
from torch.nn.functional import pad

from relpos.impls._attention import attend, contiguous, shared_heads, visible
from relpos.impls._blocks import Block, Plan, Range
from relpos.impls._skew import aligned
from relpos.impls._streamed import streamed

HEADS = 4  # at once: their buffer stays in the cache of a core
AGAIN = 1, 512, 1024  # heads, queries and keys of a tile that is computed once more


def under_products(
    asked: Tensor, vectors: Tensor, q: Tensor, k: Tensor, v: Tensor, *, offset: int, causal: bool, scale: float
) -> Tensor:
    """Attention [B, H, Lq, Dv] whose score has scale · asked_i · vectors(j − i) added, contiguous positions.

    Traced, compiled or exported it forms all scores at once: blocks would fix the lengths.

    asked     [B, H, Lq, E]
    vectors   [H or 1, Lq + Lk − 1, E], of rising distances, key minus query
    """
    if torch.compiler.is_compiling():
        every = pad((asked * scale) @ vectors.transpose(-1, -2), (0, 1))
        at = contiguous(q.shape[2], k.shape[2], offset, q.device)
        return attend(q, k, v, bias=aligned(every, k.shape[2]), visible=visible(*at, None, causal), scale=scale)
    k, v = (shared_heads(x, q.shape[1]).to(q.dtype) for x in (k, v))
    plan = Plan(makes=Products, offset=offset, causal=causal, scale=scale)
    return streamed(plan, q, k, v, asked, vectors)


class Products:
    """Products of queries with a vector per distance as a term."""

    queries_at_once = None
    again = AGAIN[1:]

    def __init__(self, tensors: tuple[Tensor, ...], plan: Plan, *, learned: bool) -> None:
        self.asked, self.vectors = tensors
        self.heads_at_once = AGAIN[0] if learned else HEADS
        self._causal, self._scale = plan.causal, plan.scale
        self._own = self.asked.shape[2] - 1 + plan.offset  # where distance 0 lies
        self._buffers: dict[bool, Tensor] = {}
        self._written: tuple[int, ...] = ()  # what shape the buffer of gradients has
        self._gradients = tuple(torch.zeros_like(t) for t in tensors) if learned else (None, None)

    def added(self, block: Block) -> Tensor:
        """The products of a block seen from its keys, [B, h, n, m]."""
        product = self._buffer(block, gradient=False)
        torch.matmul(self._turned(block), self._of_distances(self.vectors, block).transpose(-1, -2), out=product)
        if self._causal:
            product[..., max(self._own - block.s + 1, 0) :] = -torch.inf
        return seen(product, block.keys)

    def ranges(self, block: Block) -> list[Range]:
        """All keys at once."""
        return [Range(slice(block.keys), self.added(block))]

    def collect(self, block: Block, gradient: Tensor) -> None:
        """Back through the view, then to the queries and the vectors."""
        to_asked, to_vectors = self._gradients
        assert to_asked is not None and to_vectors is not None
        buffer = self._buffer(block, gradient=True)
        seen(buffer, block.keys).copy_(gradient)
        found = buffer @ self._of_distances(self.vectors, block)
        to_asked[:, block.heads, block.first : block.last] += found.mul_(self._scale).flip(-2)
        of_heads = (buffer.transpose(-1, -2) @ self._turned(block)).sum(0)
        mine = self._of_distances(to_vectors, block)
        mine += of_heads if len(self.vectors) > 1 else of_heads.sum(0, keepdim=True)

    def gradients(self) -> tuple[Tensor | None, ...]:
        """Of what asks, and of the vectors."""
        return self._gradients

    def _turned(self, block: Block) -> Tensor:
        return self.asked[:, block.heads, block.first : block.last].flip(-2).mul_(self._scale)

    def _of_distances(self, x: Tensor, block: Block) -> Tensor:
        heads = block.heads if len(x) > 1 else slice(None)
        return x[heads, block.s : block.s + block.width]

    def _buffer(self, block: Block, *, gradient: bool) -> Tensor:
        """[B, h, n, W], its numbers left as they are; for gradients, 0 wherever no block of these sizes writes."""
        heads, n, keys = block.heads.stop - block.heads.start, block.last - block.first, self.vectors.shape[1] + 1
        if gradient not in self._buffers:  # as large as any block needs, once: fresh memory costs more than its numbers
            most = len(self.asked) * heads * n * (n + keys - self.asked.shape[2] - 1)
            self._buffers[gradient] = self.asked.new_empty(most)
        shape = (len(self.asked), heads, n, block.width)
        found = self._buffers[gradient][: prod(shape)].view(shape)
        if gradient and self._written != shape:
            found.zero_()
            self._written = shape
        return found


def seen(product: Tensor, keys: int) -> Tensor:
    """Products of turned queries, [..., n, n + m − 1], seen from m keys, [..., n, m]: column r + j of row r."""
    *lead, n, width = product.shape
    return product.as_strided((*lead, n, keys), (*product.stride()[:-2], width + 1, 1))
