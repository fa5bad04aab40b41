"""beit: swin's table over the whole grid of patches, and three rows more for a class token, which has no position.

    logit[h, i, j] = q_i · k_j · scale  +  table[row(i, j), h]

    row = (d_1 + W_1 − 1) · (2W_2 − 1) + (d_2 + W_2 − 1)     two patches, d = i − j on both axes
          D − 3                                              query the class token, key a patch
          D − 2                                              query a patch, key the class token
          D − 1                                              both the class token

i, j    positions of query and key, (row, column): QUERY minus KEY on every axis; None: the class token
W_a     `window_size`, the grid of patches, first axis first; the multiplier is that of the LAST axis, 2W_2 − 1
D       rows of the table, (2W_1 − 1)(2W_2 − 1) + 3
sign    QUERY minus KEY on every axis (`sign`)
rows    swin's, then three for the class token: as query, as key, as both
scale   1/√D_head on q·k, none on the bias
beyond  refused
edges   an offset of W_a or more is refused: it has no row. The class token is the first of the sequence; several tokens
        without a position share its rows. Lq ≠ Lk, parts of the grid and sequences without a class token need nothing special

Worked table, the rows for the class token and a grid of 1 × 2 patches, D = 6:

>>> BEiT(num_heads=1, window_size=(1, 2)).rows(Grid((1, 2), special=1), Grid((1, 2), special=1))
array([[5, 3, 3],
       [4, 1, 0],
       [4, 2, 1]])

Source: Bao et al., "BEiT: BERT Pre-Training of Image Transformers", 2021; the paper adds the bias and prints no formula, rows
are those of the authors' code (timm's with `class_token` are the same). A table of its own for every layer, or one shared by
all (`shared_rel_pos_bias`), or both added; each is this bias.
"""

from dataclasses import dataclass
from math import prod
from typing import ClassVar, Literal

import numpy as np

from relpos.spec.contract import Form, PositionError, check_fields, require
from relpos.spec.positions import Grid, Positions  # noqa: F401  (Grid: the worked table)

Place = tuple[int, ...] | None  # None: a class token


@dataclass(frozen=True)
class BEiT:
    """Settings of a grid's table with a class token.

    num_heads     H
    window_size   (W_1, W_2), the grid of patches
    sign          "query_minus_key": the authors. "key_minus_query": patches the other way, a mistake unless it is meant
    """

    form: ClassVar[Form] = "bias"
    claims: ClassVar[frozenset[str]] = frozenset({"relative"})
    draws: ClassVar[dict[str, tuple]] = {"window_size": ((2, 3), (3, 2), (1, 3), (4, 1), (2, 2), (1, 1))}
    special: ClassVar[int] = 1

    num_heads: int
    window_size: tuple[int, ...]
    sign: Literal["query_minus_key", "key_minus_query"] = "query_minus_key"

    def __post_init__(self) -> None:
        check_fields(self)
        require(self, "num_heads", self.num_heads >= 1, "at least 1")
        several = len(self.window_size) >= 2 and min(self.window_size) >= 1
        require(self, "window_size", several, "two sizes or more, each at least 1", "It is the grid of patches.")

    @property
    def axes(self) -> int:
        """Coordinates of a position."""
        return len(self.window_size)

    def parameters(self) -> dict[str, tuple[int, ...]]:
        """table [D, H]."""
        return {"table": (prod(2 * W - 1 for W in self.window_size) + 3, self.num_heads)}

    def row(self, i: Place, j: Place) -> int:
        """The row of the table for the query at i and the key at j."""
        D = self.parameters()["table"][0]
        if i is None and j is None:
            return D - 1
        if i is None:
            return D - 3
        if j is None:
            return D - 2
        row = 0
        for p, r, W in zip(i, j, self.window_size, strict=True):
            d = p - r if self.sign == "query_minus_key" else r - p
            if abs(d) >= W:
                raise PositionError(
                    f"beit: patches must lie within the grid of {self.window_size}, got {i} and {j}. "
                    "Resize the table for another image size."
                )
            row = row * (2 * W - 1) + d + W - 1
        return row

    def rows(self, query_positions: Positions, key_positions: Positions) -> np.ndarray:
        """Rows for all pairs, integers [Lq, Lk]."""
        rows = [[self.row(i, j) for j in key_positions] for i in query_positions]
        return np.array(rows, dtype=np.int64).reshape(len(query_positions), len(key_positions))

    def bias(self, params: dict, query_positions: Positions, key_positions: Positions) -> np.ndarray:
        """table[row, h], shape [H, Lq, Lk]."""
        bias = np.zeros((self.num_heads, len(query_positions), len(key_positions)))
        for h in range(self.num_heads):
            for a, i in enumerate(query_positions):
                for b, j in enumerate(key_positions):
                    bias[h, a, b] = params["table"][self.row(i, j), h]
        return bias
