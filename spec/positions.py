"""Positions are explicit and have a type: a contiguous `Range` or `Grid`, or an `Explicit` array, for all or per sample.

A decode step, a key-value cache, left padding, packed documents and a shard of a long context are then the same
computation with other positions. Positions are whole numbers and may be negative; nothing depends on their order. On
several axes (rows and columns of an image) a position is a tuple, and a token may have none, such as a class token.

Length-dependent schemes (dynamic scaling, xpos) look at the length of the whole context, which a chunk or a shard does not
show: `context_length` states it. Where it is not stated it is the largest position + 1, in attention of queries and keys.

>>> list(Range(5, 3))
[5, 6, 7]
>>> Range(5, 3).context(), Range(5, 3, context_length=100).context()
(8, 100)
>>> Explicit([[0, 1, 2], [0, 0, 1]]).row(1).array()
array([0, 0, 1])
>>> list(Grid((1, 2), special=1))
[None, (0, 0), (0, 1)]
>>> Explicit([None, (3, 5)], axes=2)
Explicit([None, (3, 5)], axes=2)
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

import numpy as np

from relpos.spec.contract import PositionError
from relpos.spec.coordinates import NOWHERE, on_axes, placed, whole


@dataclass(frozen=True)
class Range:
    """Contiguous positions start, start+1, …, start+length−1."""

    axes: ClassVar[int] = 1
    per_sample: ClassVar[bool] = False

    start: int
    length: int
    context_length: int | None = None

    def __post_init__(self) -> None:
        if self.context_length is not None:
            whole("context_length", self.context_length, most=0)
        for name in ("start", "length"):
            value = getattr(self, name)
            if not isinstance(value, (int, np.integer)) or isinstance(value, bool):
                raise PositionError(f"positions: `{name}` must be a whole number, got {value!r}.")
        if self.length < 0:
            raise PositionError(f"positions: `length` must be 0 or more, got {self.length}. An empty range has length 0.")

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[Any]:
        return iter(range(self.start, self.start + self.length))

    def array(self) -> np.ndarray:
        """The positions, int64, shape [L]."""
        return np.arange(self.start, self.start + self.length, dtype=np.int64)

    def row(self, sample: int) -> "Range":
        """The positions of one sample: the same for all."""
        del sample
        return self

    def segment(self, sample: int) -> None:
        """A range is one document."""
        del sample

    def context(self) -> int:
        """Length of the whole context."""
        return self.start + self.length if self.context_length is None else int(self.context_length)

    def in_context(self, context_length) -> "Explicit":
        """The same positions in a context of that length, or of these lengths, one per sample."""
        return Explicit(self.array(), context_length=context_length)


@dataclass(frozen=True)
class Grid:
    """All positions of a grid from (0, …, 0), the last axis running fastest, after `special` tokens that have none.

    shape   (height, width), or as many axes as there are
    """

    per_sample: ClassVar[bool] = False
    context_length: ClassVar[int | None] = None

    shape: tuple[int, ...]
    special: int = 0

    def __post_init__(self) -> None:
        sizes = all(isinstance(n, (int, np.integer)) and not isinstance(n, bool) and n >= 0 for n in self.shape)
        if len(self.shape) < 2 or not sizes:
            raise PositionError(f"positions: `shape` of a grid must be two or more sizes, got {self.shape!r}. One axis: Range.")
        if not isinstance(self.special, (int, np.integer)) or self.special < 0:
            raise PositionError(f"positions: `special` must be 0 or more, got {self.special!r}. A class token is 1.")

    @property
    def axes(self) -> int:
        """How many coordinates a position has."""
        return len(self.shape)

    def __len__(self) -> int:
        return self.special + prod(self.shape)

    def __iter__(self) -> Iterator[Any]:
        return (placed(p) for p in self.array())

    def array(self) -> np.ndarray:
        """The positions, int64, shape [L, axes]; `NOWHERE` for tokens that have none."""
        nowhere = np.full((self.special, self.axes), NOWHERE, dtype=np.int64)
        return np.concatenate([nowhere, np.array(list(np.ndindex(*self.shape)), dtype=np.int64).reshape(-1, self.axes)])

    def row(self, sample: int) -> "Grid":
        """The positions of one sample: the same for all."""
        del sample
        return self

    def segment(self, sample: int) -> None:
        """A grid is one image."""
        del sample

    def context(self) -> int:
        """A grid has a shape, not a length."""
        raise PositionError(f"positions: a grid of {self.shape} has no `context_length`; schemes of its length take one axis.")

    def in_context(self, context_length) -> "Explicit":
        """The same refusal."""
        del context_length
        return Explicit(range(self.context()))


class Explicit:
    """Positions listed one by one, shape [L] or, per sample, [B, L]; on several axes [L, axes] or [B, L, axes].

    axes            coordinates of a position; with more than one, None stands for a token without a position
    segments        document or region ids, one per position: pairs in different segments do not attend to each other
    context_length  one whole number, or one per sample, [B]; None: the largest position + 1
    """

    def __init__(self, values, *, axes: int = 1, segments=None, context_length=None) -> None:
        self.axes = axes
        self._values = whole("values", values) if axes == 1 else on_axes(values, axes)
        self._segments = None if segments is None else whole("segments", segments)
        self._contexts = None if context_length is None else whole("context_length", context_length, most=1)
        tokens = self._values.shape[: self._values.ndim - (axes > 1)]
        if self._segments is not None and self._segments.shape != tokens:
            raise PositionError(
                f"positions: `segments` must have the shape of the positions, {list(tokens)}, "
                f"got {list(self._segments.shape)}. Give one segment id to every position."
            )

    @property
    def per_sample(self) -> bool:
        """Whether every sample has positions of its own."""
        return self._values.ndim - (self.axes > 1) == 2

    def __len__(self) -> int:
        return self._values.shape[-1 if self.axes == 1 else -2]

    def __iter__(self) -> Iterator[Any]:
        if self.per_sample:
            raise PositionError("positions: these differ per sample; take one sample with `.row(b)` before reading them.")
        return (int(p) for p in self._values) if self.axes == 1 else (placed(p) for p in self._values)

    def __repr__(self) -> str:
        listed = self._values.tolist()
        if self.axes > 1:
            rows = [[placed(p) for p in row] for row in (self._values if self.per_sample else self._values[None])]
            listed = rows if self.per_sample else rows[0]
        tail = "" if self.axes == 1 else f", axes={self.axes}"
        tail += "" if self._segments is None else f", segments={self._segments.tolist()}"
        tail += "" if self._contexts is None else f", context_length={self._contexts.tolist()}"
        return f"Explicit({listed}{tail})"

    def array(self) -> np.ndarray:
        """The positions, int64, shape [L] or [B, L]; on several axes [L, axes] or [B, L, axes]."""
        return self._values

    def row(self, sample: int) -> "Explicit":
        """The positions of one sample, shape [L] or [L, axes]."""
        for listed in (self._values if self.per_sample else None, self._contexts):
            if listed is not None and listed.ndim and sample >= len(listed):
                raise PositionError(
                    f"positions: there is no row for sample {sample}; {len(listed)} are listed, one per sample."
                )
        context = self._contexts if self._contexts is None or self._contexts.ndim == 0 else self._contexts[sample]
        if not self.per_sample:
            return self if context is self._contexts else self.in_context(context)
        segments = None if self._segments is None else self._segments[sample]
        return Explicit(self._values[sample], axes=self.axes, segments=segments, context_length=context)

    def segment(self, sample: int) -> np.ndarray | None:
        """Document ids of one sample, shape [L], or None: one document."""
        return self.row(sample)._segments

    @property
    def context_length(self) -> int | None:
        """The stated length of the context; positions of one sample only."""
        return None if self._contexts is None else int(self._contexts)

    def context(self) -> int:
        """Length of the whole context of one sample."""
        return max(self, default=-1) + 1 if self.context_length is None else self.context_length

    def in_context(self, context_length) -> "Explicit":
        """The same positions in a context of that length, or of these lengths, one per sample."""
        return Explicit(self._values, axes=self.axes, segments=self._segments, context_length=context_length)


def in_one_context(queries: "Positions", keys: "Positions", samples: int) -> tuple[Explicit, Explicit]:
    """Queries and keys in the context they share: of the stated length, else of the largest position + 1 of both."""
    lengths = []
    for b in range(samples):
        pair = queries.row(b), keys.row(b)
        stated = {n for positions in pair if (n := positions.context_length) is not None}
        if len(stated) > 1:
            raise PositionError(f"positions: `context_length` must be one for queries and keys, got {sorted(stated)}.")
        lengths.append(stated.pop() if stated else max(positions.context() for positions in pair))
    return queries.in_context(lengths), keys.in_context(lengths)


Positions = Range | Explicit | Grid
