"""Positions are explicit and have a type: a contiguous `Range`, or an `Explicit` array, one row for all or one per sample.

A decode step, a key-value cache, left padding, packed documents and a shard of a long context are then the same
computation with other positions. Positions are whole numbers and may be negative; nothing depends on their order.

>>> list(Range(5, 3))
[5, 6, 7]
>>> Explicit([[0, 1, 2], [0, 0, 1]]).row(1).array()
array([0, 0, 1])
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from relpos.spec.contract import PositionError


@dataclass(frozen=True)
class Range:
    """Contiguous positions start, start+1, …, start+length−1."""

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

    def __iter__(self) -> Iterator[int]:
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


class Explicit:
    """Positions listed one by one, shape [L] or, per sample, [B, L].

    segments   document ids of the same shape: pairs in different segments do not attend to each other
    """

    def __init__(self, values, *, segments=None) -> None:
        self._values = _whole("values", values)
        self._segments = None if segments is None else _whole("segments", segments)
        if self._segments is not None and self._segments.shape != self._values.shape:
            raise PositionError(
                f"positions: `segments` must have the shape of the positions, {list(self._values.shape)}, "
                f"got {list(self._segments.shape)}. Give one segment id to every position."
            )

    def __len__(self) -> int:
        return self._values.shape[-1]

    def __iter__(self) -> Iterator[int]:
        if self._values.ndim == 2:
            raise PositionError("positions: these differ per sample; take one sample with `.row(b)` before reading them.")
        return (int(p) for p in self._values)

    def __repr__(self) -> str:
        tail = "" if self._segments is None else f", segments={self._segments.tolist()}"
        return f"Explicit({self._values.tolist()}{tail})"

    def array(self) -> np.ndarray:
        """The positions, int64, shape [L] or [B, L]."""
        return self._values

    def row(self, sample: int) -> "Explicit":
        """The positions of one sample, shape [L]."""
        if self._values.ndim == 1:
            return self
        if sample >= len(self._values):
            raise PositionError(
                f"positions: there is no row for sample {sample}; {len(self._values)} are listed, one per sample."
            )
        segments = None if self._segments is None else self._segments[sample]
        return Explicit(self._values[sample], segments=segments)

    def segment(self, sample: int) -> np.ndarray | None:
        """Document ids of one sample, shape [L], or None: one document."""
        return self.row(sample)._segments


Positions = Range | Explicit


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
