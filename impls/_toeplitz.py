"""The Toeplitz engine: a bias of the distance alone, in the memory and nearly the time of attention without one.

    bias[i, j] = t[j − i]: a line of Lq + Lk − 1 numbers per head, which every block of turned queries sees as a matrix

    queries 3 2 1 0        keys 0   1   2   3
                     3      t−3 t−2 t−1 t0       row r begins one number further on than row r − 1:
                     2      t−2 t−1 t0  t1       strides (1, 1) over the line, nothing copied
                     1      t−1 t0  t1  t2
                     0      t0  t1  t2  t3

Cost: one addition per score, 1/(4·D) of attention's own; H·(Lq + Lk) numbers. A learned line trains through it: the gradient of
t[d] is the sum of a diagonal, had from columns of a buffer in which row r is written r places further to the right.
Source: a Toeplitz matrix is its diagonals seen with strides (1, 1), which PyTorch's fused kernel takes as a mask.
"""

import torch
from torch import Tensor
from torch.nn.functional import pad

from relpos.impls._attention import fused, shared_heads
from relpos.impls._blocks import Block, Plan, Range
from relpos.impls._streamed import FORWARD, streamed


def under_line(values: Tensor, q: Tensor, k: Tensor, v: Tensor, *, offset: int, causal: bool, scale: float) -> Tensor:
    """Attention [B, H, Lq, Dv] under a line [H or 1, Lq + Lk − 1] of biases over rising distances, key minus query.

    Traced, compiled or exported it is one call over all queries: blocks would fix the lengths.
    """
    if torch.compiler.is_compiling():
        if causal:
            far = torch.arange(1 - q.shape[2] - offset, k.shape[2] - offset, device=q.device)
            values = values.masked_fill(far > 0, -torch.inf)
        seen = values.unfold(-1, k.shape[2], 1).unsqueeze(0)  # [1, H, Lq, Lk] with strides (·, ·, 1, 1)
        return fused(q.flip(-2), k, v, mask=seen, scale=scale).flip(-2)
    if causal:  # no block sees more distances after the query than it has queries
        values = pad(values[..., : max(q.shape[2] + offset, 0)], (0, max(FORWARD, AGAIN[1])), value=-torch.inf)
    k, v = (shared_heads(x, q.shape[1]).to(q.dtype) for x in (k, v))
    plan = Plan(makes=Line, offset=offset, causal=causal, scale=scale)
    return streamed(plan, q, k, v, values.expand(q.shape[1], -1))


AGAIN = 2, 512, 512  # heads, queries and keys of a tile that is computed once more: what it takes stays in a cache
WIDE = 1024  # queries of a block that sees all keys: few for what is allocated per block, many for the kernel


class Line:
    """A line of numbers per head as a term; causal lines have −∞ after the query already."""

    def __init__(self, tensors: tuple[Tensor, ...], plan: Plan, *, learned: bool) -> None:
        (self.values,) = tensors
        self.queries_at_once = None if plan.causal else WIDE  # causal blocks are small, to end at their last key
        self.heads_at_once = AGAIN[0] if learned else 4 if plan.causal else len(self.values)
        self.again = AGAIN[1:]
        self._gradient = torch.zeros_like(self.values) if learned else None
        self._buffer: Tensor | None = None

    def added(self, block: Block) -> Tensor:
        """The line as a matrix, [1, h, n, m]."""
        return self.values[block.heads, block.s : block.s + block.width].unfold(-1, block.keys, 1).unsqueeze(0)

    def ranges(self, block: Block) -> list[Range]:
        """All keys at once."""
        return [Range(slice(block.keys), self.added(block))]

    def collect(self, block: Block, gradient: Tensor) -> None:
        """Sums along diagonals: row r goes r columns to the right, and then columns are summed."""
        assert self._gradient is not None
        h, n, m = gradient.shape[1:]
        whole = n + m
        if self._buffer is None or self._buffer.shape != (h, n, whole):
            self._buffer = gradient.new_zeros(h, n, whole)  # what lies beside the rows stays 0
        shifted = self._buffer.as_strided((h, n, m), (n * whole, whole + 1, 1))
        shifted.copy_(gradient[0]) if len(gradient) == 1 else torch.sum(gradient, 0, out=shifted)
        self._gradient[block.heads, block.s : block.s + block.width] += self._buffer[..., : block.width].sum(-2)

    def gradients(self) -> tuple[Tensor | None, ...]:
        """Of the line."""
        return (self._gradient,)
