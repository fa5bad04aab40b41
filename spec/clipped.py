"""clipped: a learned number for every head and distance, the outermost serving all distances beyond.

    logit[h, i, j] = q_i · k_j · scale  +  table[clip(i − j, −K, K) + K, h]

i, j    positions of query and key
K       `max_distance`
sign    QUERY minus KEY (`sign`)
rows    2K + 1: row 0 the farthest key after the query, row K the query's own position, row 2K the farthest key before it
scale   1/√D on q·k, none on the bias
beyond  the outermost row of either direction (`beyond`)
edges   K = 0 leaves one number per head, which a softmax cannot see; rows beyond the length of the sequence are not used and
        have gradient 0; Lq ≠ Lk needs nothing special

Worked table, the rows for K = 1, three queries by three keys:

>>> Clipped(num_heads=1, max_distance=1).rows(Range(0, 3), Range(0, 3))
array([[1, 0, 0],
       [2, 1, 0],
       [2, 2, 1]])

Source: folklore. The scalar form of Shaw, Uszkoreit & Vaswani, "Self-Attention with Relative Position Representations",
2018, as popular articles print it; no paper defines it under this name. Its vector form, q_i · e[r], is the key term of
shaw with sign="query_minus_key".
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from relpos.spec.contract import Form, check_fields, require
from relpos.spec.positions import Positions, Range  # noqa: F401  (Range: the worked table)


@dataclass(frozen=True)
class Clipped:
    """Settings of the clipped table.

    num_heads     H
    max_distance  clip K
    heads         "own": every head has a column. "shared": one column for all
    sign          "query_minus_key", as popular articles have it; "key_minus_query": the same with the rows reversed, which has
                  a meaning for both directions only
    directions    "both": 2K + 1 rows. "past": K + 1 rows by distance, keys after the query have no bias. "symmetric": K + 1
                  rows by |i − j|
    beyond        "repeat": distances beyond K share the outermost row. "zero": they have no bias
    """

    form: ClassVar[Form] = "bias"
    draws: ClassVar[dict[str, tuple]] = {"max_distance": (1, 2, 3, 0, 16)}
    published: ClassVar[tuple[dict, ...]] = ({"max_distance": 128}, {"max_distance": 0}, {"max_distance": 4})

    num_heads: int
    max_distance: int
    heads: Literal["own", "shared"] = "own"
    sign: Literal["query_minus_key", "key_minus_query"] = "query_minus_key"
    directions: Literal["both", "past", "symmetric"] = "both"
    beyond: Literal["repeat", "zero"] = "repeat"

    def __post_init__(self) -> None:
        check_fields(self)
        require(self, "num_heads", self.num_heads >= 1, "at least 1")
        require(self, "max_distance", self.max_distance >= 0, "0 or more", "0 leaves one number per head.")
        signed = self.directions == "both" or self.sign == "query_minus_key"
        ways = 'left at its default unless directions="both"'
        require(self, "sign", signed, ways, "Rows by distance have no order to reverse.")

    @property
    def claims(self) -> frozenset[str]:
        """A bias of i − j; by |i − j| it does not tell before from after."""
        return frozenset({"relative", "symmetric"} if self.directions == "symmetric" else {"relative"})

    def parameters(self) -> dict[str, tuple[int, ...]]:
        """table [2K+1, H] ([K+1, H] in one direction; one column when shared)."""
        rows = 2 * self.max_distance + 1 if self.directions == "both" else self.max_distance + 1
        return {"table": (rows, self.num_heads if self.heads == "own" else 1)}

    def row(self, i: int, j: int) -> int | None:
        """The row of the table for the query at i and the key at j; None: no bias."""
        K, d = self.max_distance, i - j
        if self.directions == "past" and d < 0:
            return None
        if self.beyond == "zero" and abs(d) > K:
            return None
        if self.directions != "both":
            return min(abs(d), K)
        return min(max(d if self.sign == "query_minus_key" else -d, -K), K) + K

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
                    r = self.row(i, j)
                    if r is not None:
                        bias[h, a, b] = params["table"][r, h if self.heads == "own" else 0]
        return bias
