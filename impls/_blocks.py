"""What the engines say to one another: blocks of queries, ranges of keys, and terms that know their numbers by distance."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import Any, NamedTuple, Protocol

from torch import Tensor


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

    def tiles(self, size: int | None) -> Iterator[tuple[slice, "Block"]]:
        """Ranges of at most `size` keys, and the block as if it had these keys alone; None: all at once."""
        for t in range(0, self.keys, size or self.keys):
            seen = slice(t, min(t + (size or self.keys), self.keys))
            yield seen, replace(self, keys=seen.stop - t, s=self.s + t)


class Range(NamedTuple):
    """Some keys; what is added to their scores, [1 or B, h, n, m]; and what each query adds to all of these alike, [B, h, n].

    distance   of a far range, a distance whose vectors are those of the whole range
    """

    keys: slice
    mask: Tensor
    shift: Tensor | None = None
    distance: int = 0


class Term(Protocol):
    """Numbers for every distance in order, learned or not."""

    @property
    def heads_at_once(self) -> int:
        """Heads of a block."""
        ...

    @property
    def again(self) -> tuple[int, int | None]:
        """Queries and keys of a tile whose weights are computed once more; None: of all keys."""
        ...

    @property
    def queries_at_once(self) -> int | None:
        """Queries of a block where its gradient is not asked for; None: as many as blocks have."""
        ...

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


class Values(Protocol):
    """Vectors by distance that are added to the values, in blocks of the same queries."""

    def mixed(self, block: Block, keys: slice, weights: Tensor) -> Tensor:
        """Σ_j weight · vector(j − i) over some keys, [B, h, n, Dv]."""
        ...

    def at(self, block: Block, distance: int) -> Tensor:
        """The vector of one distance, [h or 1, 1, Dv]."""
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
    valued: Callable[..., Any] | None = None  # makes of the last tensor vectors that are added to the values
    window: tuple[int, ...] = ()  # of a grid: blocks are whole rows of it
    special: int = 0  # tokens at the front that have no place on the grid

    def own(self, tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Those of the term, without the vectors of the values."""
        return tensors[:-1] if self.valued else tensors

    def blocks(self, q: Tensor, k: Tensor, size: int, heads_at_once: int) -> Iterator[Block]:
        """All queries that see a key, block by block, the first ones first: what a causal block sees only grows."""
        H, Lq, Lk = q.shape[1], q.shape[2], k.shape[2]
        for first, last in self._spans(self.blind(Lq, Lk), Lq, size):
            keys = min(Lk, last + self.offset) if self.causal else Lk
            for h in range(0, H, heads_at_once):
                yield Block(first, last, keys, slice(h, min(h + heads_at_once, H)), Lq - last)

    def blind(self, query_length: int, key_length: int) -> int:
        """Queries at the front that see no key: no block holds them."""
        before = max(-self.offset, 0) if self.causal else 0
        return min(before, query_length) if key_length else query_length

    def _spans(self, blind: int, queries: int, size: int) -> Iterator[tuple[int, int]]:
        row = prod(self.window[1:])
        size = max(size // max(row, 1), 1) * row
        if self.special:
            yield 0, self.special
        for first in range(max(self.special, blind), queries, size):
            yield first, min(first + size, queries)
