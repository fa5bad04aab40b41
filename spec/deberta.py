"""deberta: content and relative position meet in terms of their own, each with a learned vector per head and clipped distance.

    logit[h, i, j] = scale · (q_i · k_j  +  q_i · K^r[h, δ(i, j)]  +  k_j · Q^r[h, δ(i, j)])
                                content-to-position (c2p)      position-to-content (p2c)

    v1   δ(i, j) = clip(i − j + K, 0, 2K − 1)              K = `max_distance`
    v2   δ(i, j) = clip(bucket(i − j) + N, 0, 2N − 1)      N = `num_buckets`, M = `max_distance`, m = ⌊N/2⌋
         bucket(r) = r for |r| ≤ m, else ±(m + t) with the least t for which (M−1)^t · m^(m−1) ≥ |r|^(m−1) · m^t

i, j    positions of query and key: QUERY minus KEY
K^r     `pos_key`, Q^r `pos_query`, both projected, [H, 2K, D] (v2: [H, 2N, D]); row K is the query's own position
sign    QUERY minus KEY
rows    2K: row K the query's own position, row 0 the farthest key after it, row 2K − 1 the farthest before it
scale   1/√(D · (1 + number of position terms)) on all of it, content too: 1/√(3D), and 1/√(2D) with one term alone
beyond  the outermost rows; distance K shares one with K − 1, −K has its own
edges   not symmetric: row 0 is for −K and beyond, but K and beyond share row 2K − 1 with K − 1. v2: buckets are distances up
        to m, and M − 1 is in the last; row 0 is read from −M on (even N > 2), with `clamp` never. Lq ≠ Lk needs nothing
        special here; the authors' code counts queries and keys both from 0, as Range(0, Lq) and Range(0, Lk)

The inequality is the code's ⌈ln(|r|/m) / ln((M−1)/m) · (m−1)⌉ without a logarithm: whole numbers, no rounding. Where |r| is
the exact end of a bucket, as M − 1 always is, rounded logarithms may give one bucket more, on some processors (reported for
N = 20, M = 64: 20 in place of 19 at 63); at the released 256 of 512 neither float32 nor float64 does.

Worked table, rows under v1 for K = 2, three queries by three keys; buckets of distances 0 … 9 under v2 for N = 6, M = 10:

>>> DeBERTa(num_heads=1, head_dim=1, max_distance=2).rows(Range(0, 3), Range(0, 3))
array([[2, 1, 0],
       [3, 2, 1],
       [3, 3, 2]])
>>> [DeBERTa(1, 1, max_distance=10, version="v2", num_buckets=6).bucket(r) for r in range(10)]
[0, 1, 2, 3, 4, 4, 5, 5, 5, 5]

Source: He, Liu, Gao & Chen, "DeBERTa: Decoding-enhanced BERT with Disentangled Attention", ICLR 2021, equations 3 (δ) and 4
(numbers recalled, not checked). The paper looks p2c up at δ(j, i); all code of the authors and Hugging Face's at δ(i, j).
Buckets, shared projections: microsoft/DeBERTa (v2, v3). Popular articles divide by √(2D) and exchange the indices.
"""

from dataclasses import dataclass
from math import sqrt
from typing import ClassVar, Literal

import numpy as np

from relpos.spec.contract import Form, check_fields, require
from relpos.spec.positions import Positions, Range  # noqa: F401  (Range: the worked table)


@dataclass(frozen=True)
class DeBERTa:
    """Settings of disentangled attention.

    num_heads      H
    head_dim       width D of a head
    max_distance   v1: clip K (512 in the base model). v2: M, one more than the distance that ends the last bucket
    terms          "both", "c2p" or "p2c": the position terms there are
    indices        "code": p2c at δ(i, j), as released checkpoints need it. "paper": at δ(j, i)
    version        "v1": clipped distances. "v2": logarithmic buckets (v2 and v3; their code without buckets is "v1")
    num_buckets    N, v2 only. None: max_distance // 2, and 2 at least, 256 of 512 in the releases
    clamp          v2 only. True: r is cut to ±(M − 1) before, as the authors' repository does now; False: their release of
                   2021 and Hugging Face. They differ for keys M or more after the query (for an odd N also before it)
    share_att_key  True: the tables are rel_embeddings (after any layer norm), projected as keys and queries are, with the
                   same weights and biases: w_key, b_key, w_query, b_query (v2, v3). False: tables that were projected already
    """

    form: ClassVar[Form] = "logits"
    claims: ClassVar[frozenset[str]] = frozenset({"relative"})
    draws: ClassVar[dict[str, tuple]] = {"max_distance": (4, 2, 3, 16, 1), "num_buckets": (None, 2, 6, 7, 3)}
    published: ClassVar[tuple[dict, ...]] = (
        {"max_distance": 512},
        {"max_distance": 512, "version": "v2"},
        {"max_distance": 32, "version": "v2", "clamp": True},
        {"max_distance": 128, "version": "v2", "indices": "paper"},
        {"max_distance": 20, "version": "v2", "num_buckets": 7},
        {"max_distance": 64, "version": "v2", "num_buckets": 20},
    )

    num_heads: int
    head_dim: int
    max_distance: int
    terms: Literal["both", "c2p", "p2c"] = "both"
    indices: Literal["code", "paper"] = "code"
    version: Literal["v1", "v2"] = "v1"
    num_buckets: int | None = None
    clamp: bool = False
    share_att_key: bool = False

    def __post_init__(self) -> None:
        check_fields(self)
        require(self, "num_heads", self.num_heads >= 1, "at least 1")
        require(self, "head_dim", self.head_dim >= 1, "at least 1")
        require(self, "max_distance", self.max_distance >= 1, "at least 1")
        v1, hint = self.version == "v1", 'Buckets are of version="v2".'
        require(self, "num_buckets", not v1 or self.num_buckets is None, 'None under version="v1"', hint)
        require(self, "clamp", not (v1 and self.clamp), 'False under version="v1"', "Clipped distances are cut already.")
        if not v1:
            N = self.span()
            require(self, "num_buckets", N >= 2, "at least 2", "One distance at least must have a bucket of its own.")
            least = f'at least {N // 2 + 2} under version="v2" with {N} buckets'
            require(self, "max_distance", self.max_distance >= N // 2 + 2, least, "The logarithm would not rise.")

    def parameters(self) -> dict[str, tuple[int, ...]]:
        """pos_key, pos_query [H, 2K, D]; under share_att_key rel_embeddings [2K, H·D], weights [H·D, H·D], biases [H·D]."""
        H, D, sides = self.num_heads, self.head_dim, self.sides()
        if not self.share_att_key:
            return {f"pos_{side}": (H, 2 * self.span(), D) for side in sides}
        found: dict[str, tuple[int, ...]] = {"rel_embeddings": (2 * self.span(), H * D)}
        for side in sides:
            found |= {f"w_{side}": (H * D, H * D), f"b_{side}": (H * D,)}
        return found

    def projections(self) -> dict[str, tuple[str, str]]:
        """Parameters that are the attention's own: which projection, and of it weight or bias."""
        if not self.share_att_key:
            return {}
        return {f"{a}_{side}": (side, whole) for side in self.sides() for a, whole in (("w", "weight"), ("b", "bias"))}

    def lookups(self) -> dict[str, tuple]:
        """Tables read row by row: whose content each row meets, and row(i, j)."""
        if self.share_att_key:
            return {}
        named = {"pos_key": ("query", self.row), "pos_query": ("key", self.row_of_query)}
        return {name: found for name, found in named.items() if name in self.parameters()}

    def scale(self, head_dim: int) -> float:
        """1/√(D · (1 + number of position terms))."""
        return 1.0 / sqrt(head_dim * (1 + len(self.sides())))

    def bucket(self, r: int) -> int:
        """The bucket of r = query minus key under v2; from ±N on it is ±N, which no row tells apart."""
        N, M = self.span(), self.max_distance
        if self.clamp:
            r = min(max(r, 1 - M), M - 1)
        m, n = N // 2, abs(r)
        if n <= m:
            return r
        t = next((t for t in range(N - m) if (M - 1) ** t * m ** (m - 1) >= n ** (m - 1) * m**t), N - m)
        return m + t if r > 0 else -m - t

    def row(self, i: int, j: int) -> int:
        """δ(i, j), the row of the tables for the query at i and the key at j."""
        span, r = self.span(), i - j if self.version == "v1" else self.bucket(i - j)
        return min(max(r + span, 0), 2 * span - 1)

    def row_of_query(self, i: int, j: int) -> int:
        """The row of Q^r: δ(i, j), or δ(j, i) as in the paper."""
        return self.row(i, j) if self.indices == "code" else self.row(j, i)

    def rows(self, query_positions: Positions, key_positions: Positions) -> np.ndarray:
        """δ for all pairs, integers [Lq, Lk]."""
        rows = [[self.row(i, j) for j in key_positions] for i in query_positions]
        return np.array(rows, dtype=np.int64).reshape(len(query_positions), len(key_positions))

    def tables(self, params: dict) -> dict[str, np.ndarray]:
        """pos_key and pos_query, those there are, [H, 2K, D]; shared projections are applied here."""
        if not self.share_att_key:
            return {name: np.asarray(params[name], dtype=np.float64) for name in self.parameters()}
        P = np.asarray(params["rel_embeddings"], dtype=np.float64)
        projected = {f"pos_{side}": P @ params[f"w_{side}"].T + params[f"b_{side}"] for side in self.sides()}
        heads = (len(P), self.num_heads, self.head_dim)
        return {name: table.reshape(heads).transpose(1, 0, 2) for name, table in projected.items()}

    def logits(
        self, params: dict, q: np.ndarray, k: np.ndarray, query_positions: Positions, key_positions: Positions, *, scale: float
    ) -> np.ndarray:
        """scale · (q_i · K^r[h, δ] + k_j · Q^r[h, δ]), shape [H, Lq, Lk]; q, k [H, L, D]."""
        tables = self.tables(params)
        term = np.zeros((len(q), len(query_positions), len(key_positions)))
        for a, i in enumerate(query_positions):
            for b, j in enumerate(key_positions):
                c2p, p2c = self.row(i, j), self.row_of_query(i, j)
                for h in range(len(q)):
                    if "pos_key" in tables:
                        term[h, a, b] += scale * np.dot(q[h, a], tables["pos_key"][h, c2p])
                    if "pos_query" in tables:
                        term[h, a, b] += scale * np.dot(k[h, b], tables["pos_query"][h, p2c])
        return term

    def sides(self) -> tuple[str, ...]:
        """Whose projection the tables have: keys' for c2p, queries' for p2c."""
        return {"both": ("key", "query"), "c2p": ("key",), "p2c": ("query",)}[self.terms]

    def span(self) -> int:
        """Half the rows of a table: K, or N."""
        if self.version == "v1":
            return self.max_distance
        return max(self.max_distance // 2, 2) if self.num_buckets is None else self.num_buckets
