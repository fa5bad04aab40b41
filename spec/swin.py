"""swin: a learned number for every head and offset inside a window, the axes kept apart.

    logit[h, i, j] = q_i · k_j · scale  +  table[row(i − j), h]

    row(d) = (d_1 + W_1 − 1) · (2W_2 − 1) + (d_2 + W_2 − 1)           two axes: height, then width
             and so on, row · (2W_a − 1) + (d_a + W_a − 1), for more

i, j    positions of query and key on n axes, (row, column): QUERY minus KEY on every axis
W_a     `window_size`, first axis first. The multiplier is that of the LAST axis, 2W_2 − 1, also where windows are not square
table   [(2W_1 − 1)(2W_2 − 1) …, H]: one row per offset, all of them used; no offset is in the middle
sign    QUERY minus KEY on every axis (`sign`)
rows    (2W_1 − 1)(2W_2 − 1): one for every offset, the last axis fastest
scale   1/√D on q·k, none on the bias
beyond  refused
edges   an offset of W_a or more is refused: it has no row. A window of 1 on an axis has one offset there. Lq ≠ Lk and parts of
        a window need nothing special. A token without a position (a class token) has bias 0 on both sides

Shifted windows (`windows`): after rolling the map by −shift, a window may hold regions that were apart; pairs in different
regions are hidden. The authors' code adds −100 to their logits instead: e^−100 ≈ 4·10⁻⁴⁴ of a weight, 0 in float32 unless
hidden logits lead by tens. It does not shift a map that is no longer than the window on some axis.

Worked table, the rows for a window of 2 × 2, its tokens row by row:

>>> Swin(num_heads=1, window_size=(2, 2)).rows(Grid((2, 2)), Grid((2, 2)))
array([[4, 3, 1, 0],
       [5, 4, 2, 1],
       [7, 6, 4, 3],
       [8, 7, 5, 4]])

Source: Liu et al., "Swin Transformer: Hierarchical Vision Transformer using Shifted Windows", 2021, equation 4 (number
recalled, not checked), which says B and M × M windows; rows, sign and scale are those of the authors' code. MaxViT's code for
TensorFlow, and timm's port, look up KEY minus QUERY in a table [H, 2W_1 − 1, 2W_2 − 1] (`sign`; reshaped, the same rows).
"""

from dataclasses import dataclass
from math import prod
from typing import ClassVar, Literal

import numpy as np

from relpos.spec.contract import Form, PositionError, check_fields, require
from relpos.spec.positions import Explicit, Grid, Positions  # noqa: F401  (Grid: the worked table)

Place = tuple[int, ...] | None  # None: a token without a position


@dataclass(frozen=True)
class Swin:
    """Settings of a window's table.

    num_heads     H
    window_size   (W_1, W_2), or as many axes as there are
    sign          "query_minus_key": the authors. "key_minus_query": MaxViT, the same with the rows reversed
    """

    form: ClassVar[Form] = "bias"
    claims: ClassVar[frozenset[str]] = frozenset({"relative"})
    draws: ClassVar[dict[str, tuple]] = {"window_size": ((2, 3), (3, 2), (1, 3), (4, 1), (2, 2), (1, 1), (2, 1, 2))}

    num_heads: int
    window_size: tuple[int, ...]
    sign: Literal["query_minus_key", "key_minus_query"] = "query_minus_key"

    def __post_init__(self) -> None:
        check_fields(self)
        require(self, "num_heads", self.num_heads >= 1, "at least 1")
        several = len(self.window_size) >= 2 and min(self.window_size) >= 1
        require(self, "window_size", several, "two sizes or more, each at least 1", "On one axis use the scheme clipped.")

    @property
    def axes(self) -> int:
        """Coordinates of a position."""
        return len(self.window_size)

    def parameters(self) -> dict[str, tuple[int, ...]]:
        """table [(2W_1 − 1)(2W_2 − 1) …, H]."""
        return {"table": (prod(2 * W - 1 for W in self.window_size), self.num_heads)}

    def row(self, i: Place, j: Place) -> int | None:
        """The row of the table for the query at i and the key at j; None: no bias."""
        if i is None or j is None:
            return None
        row = 0
        for p, r, W in zip(i, j, self.window_size, strict=True):
            d = p - r if self.sign == "query_minus_key" else r - p
            if abs(d) >= W:
                raise PositionError(
                    f"swin: positions must lie within one window of {self.window_size}, got {i} and {j}. "
                    "Cut the map into windows, or use a larger `window_size`."
                )
            row = row * (2 * W - 1) + d + W - 1
        return row

    def rows(self, query_positions: Positions, key_positions: Positions) -> np.ndarray:
        """Rows for all pairs, integers [Lq, Lk]; −1 where there is no bias."""
        rows = [[-1 if (r := self.row(i, j)) is None else r for j in key_positions] for i in query_positions]
        return np.array(rows, dtype=np.int64).reshape(len(query_positions), len(key_positions))

    def bias(self, params: dict, query_positions: Positions, key_positions: Positions) -> np.ndarray:
        """table[row, h], shape [H, Lq, Lk]."""
        bias = np.zeros((self.num_heads, len(query_positions), len(key_positions)))
        for h in range(self.num_heads):
            for a, i in enumerate(query_positions):
                for b, j in enumerate(key_positions):
                    if (r := self.row(i, j)) is not None:
                        bias[h, a, b] = params["table"][r, h]
        return bias

    def windows(self, size: tuple[int, ...], shift: int = 0) -> Explicit:
        """Positions and regions of a map of this size, rolled by −shift and cut: one sample per window, row by row."""
        for n, W in zip(size, self.window_size, strict=True):
            if n % W or not 0 <= shift < W:
                raise PositionError(
                    f"swin: `size` must be a multiple of window_size = {self.window_size} and `shift` less than it, got {size} "
                    f"and {shift}. Pad the map."
                )
        shift = self.shift_of(size, shift)
        places, regions = [], []
        for window in np.ndindex(*(n // W for n, W in zip(size, self.window_size, strict=True))):
            for place in np.ndindex(*self.window_size):
                region = 0
                for w, p, n, W in zip(window, place, size, self.window_size, strict=True):
                    t = w * W + p
                    region = 3 * region + (0 if t < n - W else 1 if t < n - shift else 2)
                places.append(place)
                regions.append(region)
        N = prod(self.window_size)
        return Explicit(np.reshape(places, (-1, N, self.axes)), axes=self.axes, segments=np.reshape(regions, (-1, N)))

    def shift_of(self, size: tuple[int, ...], shift: int) -> int:
        """The shift in effect: 0 where some axis of the map is no longer than its window."""
        return 0 if any(n <= W for n, W in zip(size, self.window_size, strict=True)) else shift
