"""The ranged engine: content terms whose vectors no longer change beyond some distance, in the work of the band alone.

    term = asked_i · vectors(j − i) + told_j · back(j − i)      both constant for j − i ≤ −left and for j − i ≥ right

        keys      0 ……………… a ……… i ……… b ……………… Lk
                  far before │    band    │  far after
        term      one number │  differs   │ one number per query, which moves the divisor alone,
                  per key    │ by distance│ and one per key, a mask whose rows are one row (stride 0)

Three fused calls per block of queries, merged by the logarithms of their divisors: exact, in the memory of the band.

Cost over attention's own two products of n · Lk · D per block of n queries: n · (n + band) · D for what queries ask, about
twice that for what keys are asked, in tiles of n keys; both vanish as the sequence grows beyond the band. Backward, a block's
term is put together once more and its gradient taken apart: sums over a range for the numbers that are constant there.
Source: the far ranges follow from the clip itself; merging by divisors as in Dao et al. (FlashAttention, 2022).
"""

import torch
from torch import Tensor

from relpos.impls._blocks import Block, Plan, Range
from relpos.impls._skewed import seen


class Ranged:
    """What queries ask, and keys are asked, by distance, as a term.

    Its tensors: asked, vectors, and, where keys are asked, told and back.

    asked, told     [B, H, Lq, E], [B, H, Lk, E], scaled already
    vectors, back   [H or 1, Lq + Lk − 1, E], of rising distances, key minus query
    """

    heads_at_once = 4
    queries_at_once = None
    again = 128, None

    def __init__(self, tensors: tuple[Tensor, ...], plan: Plan, *, learned: bool) -> None:
        self.asked, self.vectors, *rest = tensors
        self.told, self.back = rest or (None, None)
        self._plan, (self._left, self._right) = plan, plan.reach
        self._own = self.asked.shape[2] - 1 + plan.offset  # where distance 0 lies
        self._gradients = [torch.zeros_like(t) for t in tensors] if learned else [None] * len(tensors)

    def ranges(self, block: Block) -> list[Range]:
        """Far before, the band, far after, those that have keys."""
        a, b = self._band(block)
        found = [Range(slice(a, b), self._near(block, a, b))] if a < b else []
        for keys, d in ((slice(0, a), -self._left), (slice(b, block.keys), self._right)):
            if keys.start < keys.stop:
                found.append(Range(keys, self._of_keys(block, keys, d), self._of_queries(block, d), d))
        return found

    def added(self, block: Block) -> Tensor:
        """All of a block's term, [B, h, n, m]."""
        B, h, n = len(self.asked), block.heads.stop - block.heads.start, block.last - block.first
        whole = self.asked.new_empty(B, h, n, block.keys)
        for one in self.ranges(block):
            torch.add(one.mask, 0.0 if one.shift is None else one.shift.unsqueeze(-1), out=whole[..., one.keys])
        return whole

    def collect(self, block: Block, gradient: Tensor) -> None:
        """Back to what asks and is asked, range by range."""
        a, b = self._band(block)
        if a < b:
            self._collect_near(block, a, b, gradient[..., a:b])
        for keys, d in ((slice(0, a), -self._left), (slice(b, block.keys), self._right)):
            if keys.start < keys.stop:
                self._collect_far(block, keys, d, gradient[..., keys])

    def mixed(self, block: Block, keys: slice, weights: Tensor) -> Tensor:
        """Σ_j weight · vector(j − i) over some keys, [B, h, n, E]."""
        n, m = weights.shape[-2:]
        buffer = weights.new_zeros(*weights.shape[:-1], n + m - 1)
        seen(buffer, m).copy_(weights)
        s = block.s + keys.start
        return buffer @ _heads(self.vectors, block)[:, s : s + n + m - 1]

    def at(self, block: Block, distance: int) -> Tensor:
        """The vector of one distance, [h or 1, 1, E]."""
        return _heads(self.vectors, block)[:, self._place(distance), None]

    def _place(self, distance: int) -> int:
        """Where the vector of a far range lies; where no pair is so near, at the end of the line, which has the same one."""
        return min(max(self._own + distance, 0), self.vectors.shape[1] - 1)

    def gradients(self) -> tuple[Tensor | None, ...]:
        """Of its tensors."""
        return tuple(self._gradients)

    def _band(self, block: Block) -> tuple[int, int]:
        first, last = block.first + self._plan.offset, block.last - 1 + self._plan.offset
        a = min(max(first - self._left + 1, 0), block.keys)
        return a, min(max(last + self._right, a), block.keys)

    def _turned(self, block: Block) -> Tensor:
        return self.asked[:, block.heads, block.first : block.last].flip(-2)

    def _of_queries(self, block: Block, d: int) -> Tensor:
        """asked · the vector at distance d, [B, h, n]."""
        return (self._turned(block) * self.at(block, d)).sum(-1)

    def _of_keys(self, block: Block, keys: slice, d: int) -> Tensor:
        """told · the vector at distance d, or zeros, [B, h, n, m] with a stride of 0 over queries."""
        n = block.last - block.first
        if self.told is None or self.back is None:
            return self.asked.new_zeros(()).expand(
                len(self.asked), block.heads.stop - block.heads.start, n, keys.stop - keys.start
            )
        found = (self.told[:, block.heads, keys] * _heads(self.back, block)[:, self._place(d), None]).sum(-1)
        return found.unsqueeze(-2).expand(-1, -1, n, -1)

    def _near(self, block: Block, a: int, b: int) -> Tensor:
        """The band's term, a view of products where only queries ask."""
        n, s = block.last - block.first, block.s + a
        product = self._turned(block) @ _heads(self.vectors, block)[:, s : s + n + b - a - 1].transpose(-1, -2)
        if self._plan.causal:
            product[..., max(self._own - s + 1, 0) :] = -torch.inf
        found = seen(product, b - a)
        if self.told is None or self.back is None:
            return found
        found = found.contiguous()
        for t in range(a, b, n):
            tile = slice(t, min(t + n, b))
            found[..., t - a : tile.stop - a] += _across(self._by_key(block, tile), n)
        return found

    def _by_key(self, block: Block, tile: slice) -> Tensor:
        """Products of some keys with the vectors of every distance that they have in a block, [B, h, t, t + n − 1]."""
        assert self.told is not None and self.back is not None
        n, s = block.last - block.first, block.s + tile.start
        vectors = _heads(self.back, block)[:, s : s + n + tile.stop - tile.start - 1]
        return self.told[:, block.heads, tile] @ vectors.transpose(-1, -2)

    def _collect_near(self, block: Block, a: int, b: int, gradient: Tensor) -> None:
        n, s = gradient.shape[-2], block.s + a
        here = slice(s, s + n + b - a - 1)
        buffer = gradient.new_zeros(*gradient.shape[:-1], n + b - a - 1)
        seen(buffer, b - a).copy_(gradient)
        self._into_queries(block, buffer @ _heads(self.vectors, block)[:, here])
        _add(self._gradients[1], block, here, buffer.transpose(-1, -2) @ self._turned(block))
        for t in range(a, b, n) if self.told is not None else ():
            tile = slice(t, min(t + n, b))
            self._collect_tile(block, tile, gradient[..., t - a : tile.stop - a])

    def _collect_tile(self, block: Block, tile: slice, gradient: Tensor) -> None:
        assert self.told is not None and self.back is not None and self._gradients[2] is not None
        n, t = gradient.shape[-2:]
        here = slice(block.s + tile.start, block.s + tile.start + n + t - 1)
        buffer = gradient.new_zeros(*gradient.shape[:-2], t, n + t - 1)
        _across(buffer, n).copy_(gradient)
        self._gradients[2][:, block.heads, tile] += buffer @ _heads(self.back, block)[:, here]
        _add(self._gradients[3], block, here, buffer.transpose(-1, -2) @ self.told[:, block.heads, tile])

    def _collect_far(self, block: Block, keys: slice, d: int, gradient: Tensor) -> None:
        at = slice(self._place(d), self._place(d) + 1)
        of_queries = gradient.sum(-1, keepdim=True)
        self._into_queries(block, of_queries * _heads(self.vectors, block)[:, at])
        _add(self._gradients[1], block, at, (of_queries * self._turned(block)).sum(-2, keepdim=True))
        if self.told is not None and self.back is not None and self._gradients[2] is not None:
            of_keys = gradient.sum(-2).unsqueeze(-1)
            self._gradients[2][:, block.heads, keys] += of_keys * _heads(self.back, block)[:, at]
            _add(self._gradients[3], block, at, (of_keys * self.told[:, block.heads, keys]).sum(-2, keepdim=True))

    def _into_queries(self, block: Block, turned: Tensor) -> None:
        assert self._gradients[0] is not None
        self._gradients[0][:, block.heads, block.first : block.last] += turned.flip(-2)


def _heads(vectors: Tensor, block: Block) -> Tensor:
    """Vectors of a block's heads, or those that all heads share."""
    return vectors[block.heads] if len(vectors) > 1 else vectors


def _add(gradient: Tensor | None, block: Block, at: slice, found: Tensor) -> None:
    """Add what belongs to vectors, [B, h, n, E]."""
    assert gradient is not None
    mine = found.sum(0)
    _heads(gradient, block)[:, at] += mine if len(gradient) > 1 else mine.sum(0, keepdim=True)


def _across(products: Tensor, queries: int) -> Tensor:
    """Products of keys, [..., t, t + n − 1], seen from turned queries, [..., n, t]: column r + j of row j."""
    *lead, t, width = products.shape
    return products.as_strided((*lead, queries, t), (*products.stride()[:-2], 1, width + 1))
