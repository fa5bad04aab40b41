"""shaw: keys, and values, are shifted by a learned vector for each clipped distance.

    logit[h, i, j] = q_i · (k_j + a^K[r]) · scale          r = clip(j − i, −K, K) + K
    out[h, i]      = Σ_j weight[h, i, j] · (v_j + a^V[r])

i, j    positions of query and key
K       `max_distance`; a^K is `rel_k`, a^V is `rel_v`, both [2K+1, D], shared by heads
sign    KEY minus QUERY as published (`sign`)
rows    2K + 1: row 0 the farthest key before the query, row K the query's own position, row 2K the farthest key after it
scale   1/√D on content and position term alike; the value term has none
beyond  the outermost row; without clipping (`tables`) it is refused
edges   K = 0 gives every key the same row; Lq ≠ Lk needs nothing special;
        an empty row of weights has no value term

Worked table, rows r for K = 1, three queries by three keys:

>>> Shaw(head_dim=1, max_distance=1).rows(Range(0, 3), Range(0, 3))
array([[1, 2, 2],
       [0, 1, 2],
       [0, 0, 1]])

Source: Shaw, Uszkoreit & Vaswani, "Self-Attention with Relative Position Representations", NAACL 2018, section 3.2,
equations 3 (values) and 4 (logits) (numbers recalled, not checked). The authors' code is tensor2tensor's
dot_product_attention_relative; it has no scale of its own because its caller scales q.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from relpos.spec.contract import Form, PositionError, check_fields, require
from relpos.spec.positions import Positions, Range  # noqa: F401  (Range: the worked table)


@dataclass(frozen=True)
class Shaw:
    """Settings of Shaw's relative representations.

    head_dim      width D of a head
    max_distance  clip K
    tables        "separate": rel_k and rel_v, as published. "tied": rel_k serves the values too (OpenNMT-py).
                  "relative_key": rel_k only, no value term, no clipping: |i − j| > K is refused, hidden or not (Hugging
                  Face's BERT, with K = max_position_embeddings − 1). "relative_key_query": the same and k_j · a[r] is added
                  (Huang et al. 2020)
    sign          "key_minus_query" | "query_minus_key": which distance is looked up; the two are the same scheme with the
                  rows reversed. "published": key minus query for separate and tied, query minus key for the other two
    """

    form: ClassVar[Form] = "logits"
    claims: ClassVar[frozenset[str]] = frozenset({"relative"})
    draws: ClassVar[dict[str, tuple]] = {"max_distance": (1, 2, 3, 0, 16)}

    head_dim: int
    max_distance: int
    tables: Literal["separate", "tied", "relative_key", "relative_key_query"] = "separate"
    sign: Literal["published", "key_minus_query", "query_minus_key"] = "published"

    def __post_init__(self) -> None:
        check_fields(self)
        require(self, "head_dim", self.head_dim >= 1, "at least 1")
        require(self, "max_distance", self.max_distance >= 0, "0 or more", "0 gives all keys one shared vector.")

    def parameters(self) -> dict[str, tuple[int, ...]]:
        """rel_k [2K+1, D] and, for separate tables, rel_v [2K+1, D]."""
        table = (2 * self.max_distance + 1, self.head_dim)
        return {"rel_k": table, "rel_v": table} if self.tables == "separate" else {"rel_k": table}

    def reach(self) -> int | None:
        """Greatest distance the scheme is defined at; None: any."""
        return self.max_distance if self.tables.startswith("relative_key") else None

    def row(self, i: int, j: int) -> int:
        """Row r of the tables for the query at i and the key at j."""
        K, reversed_rows = self.max_distance, self.sign == "query_minus_key"
        if self.sign == "published":
            reversed_rows = self.tables.startswith("relative_key")
        distance = i - j if reversed_rows else j - i
        if self.reach() is not None and abs(distance) > K:
            raise PositionError(
                f'shaw: with tables="{self.tables}" a distance must be at most max_distance = {K}, got |{i} − {j}| = '
                f"{abs(distance)}. Use a longer table, or separate or tied tables, which clip."
            )
        return min(max(distance, -K), K) + K

    def rows(self, query_positions: Positions, key_positions: Positions) -> np.ndarray:
        """Rows r for all pairs, integers [Lq, Lk]."""
        rows = [[self.row(i, j) for j in key_positions] for i in query_positions]
        return np.array(rows, dtype=np.int64).reshape(len(query_positions), len(key_positions))

    def logits(
        self, params: dict, q: np.ndarray, k: np.ndarray, query_positions: Positions, key_positions: Positions, *, scale: float
    ) -> np.ndarray:
        """scale · q_i · a^K[r], and k_j · a^K[r] under relative_key_query, shape [H, Lq, Lk]; q, k [H, L, D]."""
        a_K, q, k = (np.asarray(x, dtype=np.float64) for x in (params["rel_k"], q, k))
        term = np.zeros((len(q), len(query_positions), len(key_positions)))
        for h in range(len(q)):
            for a, i in enumerate(query_positions):
                for b, j in enumerate(key_positions):
                    r = self.row(i, j)
                    term[h, a, b] = scale * np.dot(q[h, a], a_K[r])
                    if self.tables == "relative_key_query":
                        term[h, a, b] += scale * np.dot(k[h, b], a_K[r])
        return term

    def values(self, params: dict, weights: np.ndarray, query_positions: Positions, key_positions: Positions) -> np.ndarray:
        """Σ_j weight · a^V[r], shape [H, Lq, D]; weights [H, Lq, Lk]."""
        out = np.zeros((*weights.shape[:2], self.head_dim))
        if self.tables.startswith("relative_key"):
            return out
        a_V = params["rel_v"] if self.tables == "separate" else params["rel_k"]
        for h in range(len(weights)):
            for a, i in enumerate(query_positions):
                for b, j in enumerate(key_positions):
                    out[h, a] += weights[h, a, b] * a_V[self.row(i, j)]
        return out
