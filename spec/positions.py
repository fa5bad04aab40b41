"""Positions are explicit and have a type: a contiguous `Range` or `Grid`, or an `Explicit` array, for all or per sample.

A decode step, a key-value cache, left padding, packed documents and a shard of a long context are then the same
computation with other positions. Positions are whole numbers and may be negative; nothing depends on their order. On
several axes (rows and columns of an image) a position is a tuple, and a token may have none, such as a class token.

>>> list(Range(5, 3))
[5, 6, 7]
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

# The coordinate, on every axis, of a token without a position. Its difference from any other fits into int64.
NOWHERE = -(2**31)


@dataclass(frozen=True)
class Range:
    """Contiguous positions start, start+1, …, start+length−1."""

    axes: ClassVar[int] = 1
    per_sample: ClassVar[bool] = False

    start: int
    length: int

    def __post_init__(self) -> None:
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


@dataclass(frozen=True)
class Grid:
    """All positions of a grid from (0, …, 0), the last axis running fastest, after `special` tokens that have none.

    shape   (height, width), or as many axes as there are
    """

    per_sample: ClassVar[bool] = False

    shape: tuple[int, ...]
    special: int = 0

    def __post_init__(self) -> None:
        whole = all(isinstance(n, (int, np.integer)) and not isinstance(n, bool) and n >= 0 for n in self.shape)
        if len(self.shape) < 2 or not whole:
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
        return (_placed(p) for p in self.array())

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


class Explicit:
    """Positions listed one by one, shape [L] or, per sample, [B, L]; on several axes [L, axes] or [B, L, axes].

    axes       coordinates of a position; with more than one, None stands for a token without a position
    segments   document or region ids, one per position: pairs in different segments do not attend to each other
    """

    def __init__(self, values, *, axes: int = 1, segments=None) -> None:
        self.axes = axes
        self._values = _whole("values", values) if axes == 1 else _on_axes(values, axes)
        self._segments = None if segments is None else _whole("segments", segments)
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
        return (int(p) for p in self._values) if self.axes == 1 else (_placed(p) for p in self._values)

    def __repr__(self) -> str:
        listed = self._values.tolist()
        if self.axes > 1:
            rows = [[_placed(p) for p in row] for row in (self._values if self.per_sample else self._values[None])]
            listed = rows if self.per_sample else rows[0]
        tail = "" if self.axes == 1 else f", axes={self.axes}"
        tail += "" if self._segments is None else f", segments={self._segments.tolist()}"
        return f"Explicit({listed}{tail})"

    def array(self) -> np.ndarray:
        """The positions, int64, shape [L] or [B, L]; on several axes [L, axes] or [B, L, axes]."""
        return self._values

    def row(self, sample: int) -> "Explicit":
        """The positions of one sample, shape [L] or [L, axes]."""
        if not self.per_sample:
            return self
        if sample >= len(self._values):
            raise PositionError(
                f"positions: there is no row for sample {sample}; {len(self._values)} are listed, one per sample."
            )
        segments = None if self._segments is None else self._segments[sample]
        return Explicit(self._values[sample], axes=self.axes, segments=segments)

    def segment(self, sample: int) -> np.ndarray | None:
        """Document ids of one sample, shape [L], or None: one document."""
        return self.row(sample)._segments


Positions = Range | Explicit | Grid


def _placed(p: np.ndarray) -> tuple[int, ...] | None:
    """One position as a tuple; None where there is none."""
    return None if (p == NOWHERE).all() else tuple(int(n) for n in p)


def _on_axes(values, axes: int) -> np.ndarray:
    """Positions [L, axes] or [B, L, axes]; all the coordinates of a token that has no position are `NOWHERE`."""
    if not isinstance(values, np.ndarray):
        values = _told(values, axes)
    array = np.asarray(values)
    if array.size == 0:
        array = array.astype(np.int64).reshape(array.shape if array.ndim > 1 else (0, axes))
    if array.dtype.kind not in "iu" or array.ndim not in (2, 3) or array.shape[-1] != axes:
        raise PositionError(
            f"positions: `values` on {axes} axes must be whole numbers of shape [L, {axes}] or [B, L, {axes}], got "
            f"{array.dtype} of shape {list(array.shape)}. A token without a position is None."
        )
    array = array.astype(np.int64)
    nowhere = array <= NOWHERE
    if (nowhere.any(-1) != (array == NOWHERE).all(-1)).any():
        raise PositionError(f"positions: coordinates must be more than {NOWHERE}, which marks a token without a position.")
    return array


def _told(values, axes: int):
    """Lists with None in place of a position."""
    if isinstance(values, (list, tuple)):
        return [(NOWHERE,) * axes if value is None else _told(value, axes) for value in values]
    return values


def _whole(name: str, values) -> np.ndarray:
    array = np.asarray(values)
    if array.size == 0:
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise PositionError(f"positions: `{name}` must be whole numbers, got dtype {array.dtype}. Convert them before.")
    if array.ndim not in (1, 2):
        raise PositionError(f"positions: `{name}` must have shape [L] or [B, L], got {list(array.shape)}.")
    if array.size and array.dtype.kind == "u" and int(array.max()) > np.iinfo(np.int64).max:
        raise PositionError(f"positions: `{name}` must fit into int64, got {array.max()}.")
    return array.astype(np.int64)
