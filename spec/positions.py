"""Positions are explicit and have a type: a contiguous `Range`, or an `Explicit` array, one row for all or one per sample.

A decode step, a key-value cache, left padding, packed documents and a shard of a long context are then the same
computation with other positions. Positions are whole numbers and may be negative; nothing depends on their order.

Length-dependent schemes (dynamic scaling, xpos) look at the length of the whole context, which a chunk or a shard does not
show: `context_length` states it. Where it is not stated it is the largest position + 1, in attention of queries and keys.

>>> list(Range(5, 3))
[5, 6, 7]
>>> Range(5, 3).context(), Range(5, 3, context_length=100).context()
(8, 100)
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
    context_length: int | None = None

    def __post_init__(self) -> None:
        if self.context_length is not None:
            _whole("context_length", self.context_length, most=0)
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

    def context(self) -> int:
        """Length of the whole context."""
        return self.start + self.length if self.context_length is None else int(self.context_length)

    def in_context(self, context_length) -> "Explicit":
        """The same positions in a context of that length, or of these lengths, one per sample."""
        return Explicit(self.array(), context_length=context_length)


class Explicit:
    """Positions listed one by one, shape [L] or, per sample, [B, L].

    segments        document ids of the same shape: pairs in different segments do not attend to each other
    context_length  one whole number, or one per sample, [B]; None: the largest position + 1
    """

    def __init__(self, values, *, segments=None, context_length=None) -> None:
        self._values = _whole("values", values)
        self._segments = None if segments is None else _whole("segments", segments)
        self._contexts = None if context_length is None else _whole("context_length", context_length, most=1)
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
        tail += "" if self._contexts is None else f", context_length={self._contexts.tolist()}"
        return f"Explicit({self._values.tolist()}{tail})"

    def array(self) -> np.ndarray:
        """The positions, int64, shape [L] or [B, L]."""
        return self._values

    def row(self, sample: int) -> "Explicit":
        """The positions of one sample, shape [L]."""
        for listed in (self._values if self._values.ndim == 2 else None, self._contexts):
            if listed is not None and listed.ndim and sample >= len(listed):
                raise PositionError(
                    f"positions: there is no row for sample {sample}; {len(listed)} are listed, one per sample."
                )
        context = self._contexts if self._contexts is None or self._contexts.ndim == 0 else self._contexts[sample]
        if self._values.ndim == 1:
            return self if context is self._contexts else self.in_context(context)
        segments = None if self._segments is None else self._segments[sample]
        return Explicit(self._values[sample], segments=segments, context_length=context)

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
        return Explicit(self._values, segments=self._segments, context_length=context_length)


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


Positions = Range | Explicit


def _whole(name: str, values, most: int = 2) -> np.ndarray:
    array = np.asarray(values)
    if array.size == 0:
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise PositionError(f"positions: `{name}` must be whole numbers, got dtype {array.dtype}. Convert them before.")
    if most < 2 and array.ndim > most:
        raise PositionError(f"positions: `{name}` must be one number{' or one per sample' * most}, got {list(array.shape)}.")
    if most == 2 and array.ndim not in (1, 2):
        raise PositionError(f"positions: `{name}` must have shape [L] or [B, L], got {list(array.shape)}.")
    if array.size and array.dtype.kind == "u" and int(array.max()) > np.iinfo(np.int64).max:
        raise PositionError(f"positions: `{name}` must fit into int64, got {array.max()}.")
    return array.astype(np.int64)
