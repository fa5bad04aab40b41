"""music_transformer: queries meet a learned vector for each distance, a table per head; past its end there is none.

    logit[h, i, j] = q_i · (k_j + E_h[r]) · scale                    r = j − i + M − 1
    out[h, i]      = Σ_j weight[h, i, j] · (v_j + F_h[r])            F only with `value_term`

i, j    positions of query and key: KEY minus QUERY
M       `max_distance`; E is `rel_k`, F is `rel_v`. masked and local: [H, M, D], the last row is the query's own position,
        row 0 the key M − 1 before it. unmasked: [H, 2M−1, D], row M − 1 the own position. Shared by heads: without H
sign    KEY minus QUERY
rows    M: row 0 the key M − 1 before the query, the last row its own position; unmasked 2M − 1, own position in the middle
scale   1/√D on content and position term alike; the value term has none
beyond  the zero vector
edges   where r is no row, the vector is 0: at distances M and more (Shaw repeats the outermost row) and, masked and local,
        for every key after the query. Those variants are made for causal attention, but hiding the future is the mask's
        work, here as everywhere; Lq ≠ Lk needs nothing special; an empty row of weights has no value term
Skew    the published pad, reshape and slice of x = q Eᵀ, [L, L], of the last L rows, must equal the position term where
        j ≤ i: out[i, j] = x[i, j − i + L − 1]. Above the diagonal it leaves 0 at j = i + 1 and then x[i + 1, j − i − 2], the
        next query's far keys: nothing is defined by that, so who skews claims a causal softmax and is judged for j ≤ i

Worked table, rows r for M = 2, three queries by three keys (−1: the zero vector):

>>> MusicTransformer(num_heads=1, head_dim=1, max_distance=2).rows(Range(0, 3), Range(0, 3))
array([[ 1, -1, -1],
       [ 0,  1, -1],
       [-1,  0,  1]])

Source: Huang et al., "Music Transformer", ICLR 2019, equation 3 (number recalled, not checked): the masked form without
value term. Value term, unmasked and shared forms, and rows past the table are those of the authors' tensor2tensor,
dot_product_self_attention_relative_v2, whose caller scales q.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from relpos.spec.contract import Form, check_fields, require
from relpos.spec.positions import Positions, Range  # noqa: F401  (Range: the worked table)


@dataclass(frozen=True)
class MusicTransformer:
    """Settings of the Music Transformer's attention.

    num_heads     any positive number
    head_dim      width D of queries and keys
    max_distance  M, the number of distances from 0 on that have a vector
    variant       "masked" | "unmasked": rows for keys before the query only, or on both sides. "local": as masked, and a
                  query sees the block it lies in and the one before; blocks are counted from position 0
    per_head      a table for every head, as published, or one for all (heads_share_relative_embedding)
    block_length  b of "local"; None: a quarter of M rounded up, since tensor2tensor's table has M = 4b rows
    value_term    "none", as in the paper; "every" (add_relative_to_values); "not_first_block": local alone, not for queries
                  at positions below b, an oversight of tensor2tensor, which then also leaves out the second block of a
                  sequence shorter than two
    value_dim     width of a value, and of the rows of rel_v; None: D
    """

    form: ClassVar[Form] = "logits"
    draws: ClassVar[dict[str, tuple]] = {"max_distance": (3, 1, 2, 16), "block_length": (None, 2, 1)}

    num_heads: int
    head_dim: int
    max_distance: int
    variant: Literal["masked", "unmasked", "local"] = "masked"
    per_head: bool = True
    block_length: int | None = None
    value_term: Literal["none", "every", "not_first_block"] = "none"
    value_dim: int | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("num_heads", "head_dim", "max_distance"):
            require(self, name, getattr(self, name) >= 1, "at least 1")
        for name in ("block_length", "value_dim"):
            require(self, name, getattr(self, name) is None or getattr(self, name) >= 1, "at least 1, or None")
        if self.variant != "local":
            require(self, "block_length", self.block_length is None, 'None except under variant="local"')
            without = '"none" or "every" except under variant="local"'
            require(self, "value_term", self.value_term != "not_first_block", without, "Other variants have no blocks.")

    @property
    def claims(self) -> frozenset[str]:
        """Which laws hold: what a query sees of its blocks depends on where they begin."""
        return frozenset() if self.variant == "local" else frozenset({"relative"})

    @property
    def hides(self) -> bool:
        """Whether some logits are −∞ by the scheme's own rule."""
        return self.variant == "local"

    def parameters(self) -> dict[str, tuple[int, ...]]:
        """rel_k and, with a value term, rel_v: [H, rows, width], or [rows, width] shared by heads."""
        rows = 2 * self.max_distance - 1 if self.variant == "unmasked" else self.max_distance
        heads = (self.num_heads,) if self.per_head else ()
        tables = {"rel_k": (*heads, rows, self.head_dim), "rel_v": (*heads, rows, self.value_dim or self.head_dim)}
        return tables if self.value_term != "none" else {"rel_k": tables["rel_k"]}

    def row(self, i: int, j: int) -> int | None:
        """Row r of the tables for the query at i and the key at j; None: the zero vector."""
        M = self.max_distance
        farthest_after = M - 1 if self.variant == "unmasked" else 0
        return j - i + M - 1 if -(M - 1) <= j - i <= farthest_after else None

    def rows(self, query_positions: Positions, key_positions: Positions) -> np.ndarray:
        """Rows r for all pairs, integers [Lq, Lk]; −1 for the zero vector."""
        rows = [[-1 if (r := self.row(i, j)) is None else r for j in key_positions] for i in query_positions]
        return np.array(rows, dtype=np.int64).reshape(len(query_positions), len(key_positions))

    def block(self, position: int) -> int:
        """The block a position lies in."""
        return position // (self.block_length or -(-self.max_distance // 4))

    def sees(self, i: int, j: int) -> bool:
        """Whether the scheme itself lets the query at i see the key at j."""
        return self.variant != "local" or self.block(i) - 1 <= self.block(j) <= self.block(i)

    def logits(
        self, params: dict, q: np.ndarray, k: np.ndarray, query_positions: Positions, key_positions: Positions, *, scale: float
    ) -> np.ndarray:
        """scale · q_i · E[r], and −∞ for keys that are not seen, shape [H, Lq, Lk]; q, k [H, L, D]."""
        del k
        E, q = np.asarray(params["rel_k"], dtype=np.float64), np.asarray(q, dtype=np.float64)
        term = np.zeros((len(q), len(query_positions), len(key_positions)))
        for h in range(len(q)):
            for a, i in enumerate(query_positions):
                for b, j in enumerate(key_positions):
                    r = self.row(i, j)
                    if not self.sees(i, j):
                        term[h, a, b] = -np.inf
                    elif r is not None:
                        term[h, a, b] = scale * np.dot(q[h, a], E[h, r] if self.per_head else E[r])
        return term

    def values(self, params: dict, weights: np.ndarray, query_positions: Positions, key_positions: Positions) -> np.ndarray:
        """Σ_j weight · F[r], shape [H, Lq, Dv]; weights [H, Lq, Lk]."""
        out = np.zeros((*weights.shape[:2], self.value_dim or self.head_dim))
        if self.value_term == "none":
            return out
        F = np.asarray(params["rel_v"], dtype=np.float64)
        for h in range(len(weights)):
            for a, i in enumerate(query_positions):
                if self.value_term == "not_first_block" and self.block(i) <= 0:
                    continue
                for b, j in enumerate(key_positions):
                    r = self.row(i, j)
                    if r is not None:
                        out[h, a] += weights[h, a, b] * (F[h, r] if self.per_head else F[r])
        return out
