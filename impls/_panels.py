"""The panel engine: a bias by offset on a grid of several axes, in the memory of the numbers of a few rows of queries.

Blocks are whole rows of the grid, turned over. Turned row r and column x of a block read, for the key in row y and column c,
the table at (o + r + y, x + c), where o counts the rows of queries after the block. So all numbers that any block needs are
those of o = 0 with more rows of keys: they are laid out once, the *panel*, and a block sees a piece of it, o rows further on.

    grid of 3 × 2, blocks of one row        table rows    −2   −1    0    1    2
    panel, [x, row · c], laid out once                  | ab | cd | ef | gh | ij |
    the last row of queries sees                        | ab   cd   ef |
    the first row of queries sees                                 | ef   gh   ij |

Cost: one addition per score; the panel, H · n · (2·T − g) · L/T numbers for n queries in g of T rows, so about 2·n/L of the
whole matrix. Rows are many and short where the longest axis comes first: tokens of any other grid are put in that order, which
costs a copy of q, k, v and the output. A learned table trains through it: gradients are summed in a panel of their own, and
that over its overlaps.
Tokens without a place on the grid, at the front, have a number for the query, for the key, and for both.
Source: the Toeplitz line of `_toeplitz.py`, with rows of the grid in place of single positions.
"""

from itertools import product
from math import prod
from typing import Any

import torch
from torch import Tensor

from relpos.impls._attention import shared_heads
from relpos.impls._blocks import Block, Plan, Range
from relpos.impls._streamed import streamed


def under_table(
    offsets: Tensor, special: Tensor | None, q: Tensor, k: Tensor, v: Tensor, *, window: tuple[int, ...], scale: float
) -> Tensor:
    """Attention [B, H, L, D] of the tokens of a grid, all to all, under a bias by offset.

    offsets   [H, 2·W_1 − 1, 2·W_2 − 1, …], by key minus query, rising on every axis
    special   [H, 3] if the first token has no place: what it adds as the query, as the key, as both
    """
    k, v = (shared_heads(x, q.shape[1]).to(q.dtype) for x in (k, v))
    order, n = sorted(range(len(window)), key=lambda axis: -window[axis]), 0 if special is None else 1
    q, k, v = (_reordered(x, window, order, n) for x in (q, k, v))
    offsets, sides = offsets.permute(0, *(1 + axis for axis in order)), tuple(window[axis] for axis in order)
    plan = Plan(makes=Panels, offset=0, causal=False, scale=scale, window=sides, special=n)
    out = streamed(plan, q, k, v, offsets, offsets.new_zeros(len(offsets), 3) if special is None else special)
    return _reordered(out, sides, sorted(range(len(window)), key=lambda axis: order[axis]), n)


def _reordered(x: Tensor, window: tuple[int, ...], order: list[int], special: int) -> Tensor:
    """Tokens [B, H, special + N, D] of a grid with its axes in another order."""
    if order == sorted(order):
        return x
    first, rest = x[:, :, :special], x[:, :, special:].unflatten(2, window)
    return torch.cat((first, rest.permute(0, 1, *(2 + axis for axis in order), -1).flatten(2, -2)), dim=2)


class Panels:
    """A table of offsets as a term; the first `special` tokens have numbers of their own."""

    queries_at_once = None
    again = 128, None

    def __init__(self, tensors: tuple[Tensor, ...], plan: Plan, *, learned: bool) -> None:
        self.offsets, self.special = tensors
        self.heads_at_once = 4 if learned else len(self.offsets)
        self._window, self._first = plan.window, plan.special
        self._panel: Tensor | None = None
        self._learned = learned
        self._of_panel: Tensor | None = None
        self._of_special = torch.zeros_like(self.special)

    def ranges(self, block: Block) -> list[Range]:
        """Keys without a place, and the grid; all at once where the queries have none either."""
        if not self._first:
            return [Range(slice(block.keys), self._of_grid(block))]
        if block.first < self._first:
            return [Range(slice(block.keys), self.added(block))]
        ahead = self.special[None, block.heads, 1, None, None].expand(-1, -1, block.last - block.first, self._first)
        return [Range(slice(self._first), ahead), Range(slice(self._first, block.keys), self._of_grid(block))]

    def added(self, block: Block) -> Tensor:
        """All of a block's numbers, [1, h, n, m]."""
        if not self._first:
            return self._of_grid(block)
        query, key, both = self.special[None, block.heads, :, None].unbind(2)
        n, m = block.last - block.first, block.keys - self._first
        if block.first < self._first:
            return torch.cat((both.expand(-1, -1, self._first), query.expand(-1, -1, m)), -1).unsqueeze(2).expand(-1, -1, n, -1)
        return torch.cat((key.unsqueeze(2).expand(-1, -1, n, self._first), self._of_grid(block)), -1)

    def collect(self, block: Block, gradient: Tensor) -> None:
        """Into the panel, and of what has no place into its three numbers."""
        mine, of_first, of_rest = self._of_special[block.heads], gradient[..., : self._first], gradient[..., self._first :]
        if block.first < self._first:
            mine[:, 0] += of_rest.sum((0, 2, 3))
            mine[:, 2] += of_first.sum((0, 2, 3))
            return
        mine[:, 1] += of_first.sum((0, 2, 3))
        if self._of_panel is None:
            self._of_panel = torch.zeros_like(self._laid_out(block))
        self._piece(self._of_panel, block).add_(of_rest.sum(0))

    def gradients(self) -> tuple[Tensor | None, ...]:
        """Of the table, summed over all places of the panel that a number was laid out to, and of the three numbers."""
        if not self._learned:
            return None, None
        found = torch.zeros_like(self.offsets)
        if self._of_panel is not None:
            self._sum_overlaps(self._of_panel, found)
        return found, self._of_special

    def _of_grid(self, block: Block) -> Tensor:
        return self._piece(self._laid_out(block), block).unsqueeze(0)

    def _piece(self, panel: Tensor, block: Block) -> Tensor:
        """What a block sees of a panel, [h, n, keys on the grid]."""
        return panel[block.heads, : block.last - block.first, block.s : block.s + block.keys - self._first]

    def _laid_out(self, block: Block) -> Tensor:
        """The panel, [H, n, (2·T − g) · columns]; the first block that asks has as many rows as any."""
        if self._panel is None:
            T, *inner = self._window
            rows = (block.last - block.first) // prod(inner)
            seen: Any = self.offsets.unfold(1, 2 * T - rows, 1)  # [H, g, 2·W_2 − 1, …, 2·T − g]
            for axis, W in enumerate(inner, 2):
                seen = seen.unfold(axis, W, 1)  # [H, g, W_2, …, 2·T − g, W_2, …]: queries' places first, then keys'
            panel = seen.reshape(len(self.offsets), block.last - block.first, -1)
            self._panel = panel
            return panel
        return self._panel

    def _sum_overlaps(self, of_panel: Tensor, found: Tensor) -> None:
        T, *inner = self._window
        rows = of_panel.shape[1] // prod(inner)
        places = product(range(rows), *map(range, inner))
        for piece, (r, *at) in zip(of_panel.unbind(1), places, strict=True):
            whole = (slice(None), slice(r, r + 2 * T - rows), *(slice(a, a + W) for a, W in zip(at, inner, strict=True)))
            found[whole] += piece.view(len(found), 2 * T - rows, *inner)
