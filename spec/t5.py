"""t5: a learned number for every head and bucket of distance, the buckets exact when near and logarithmic when far.

    logit[h, i, j] = q_i · k_j  +  table[bucket(j − i), h]

    bucket(r) = base + n                                                   n < E: exact
                base + E + max t with n^S ≥ D^t · E^(S−t), t < S           n ≥ E: logarithmic

i, j    positions of query and key
sign    KEY minus QUERY (`sign`)
rows    by bucket: from the query's own position backwards; both ways, the second half for keys after the query
n       distance: −r for keys at or before the query, 0 for keys after it; both ways (`bidirectional`) |r|
base    0; both ways N/2 for keys after the query
N       buckets of one direction: `num_buckets`, both ways ⌊num_buckets/2⌋
E, S    E = ⌊N/2⌋ exact buckets and S = N − E logarithmic ones, up to distance D = `max_distance`
scale   none: T5 folds it into its initialisation (`score_scale`); the bias is never scaled
beyond  a direction's last bucket, from D on at the latest (under 32/128 from 91 on, one way from 113 on)
edges   Lq ≠ Lk needs nothing special;
        cross-attention has no position term (`cross_attention`). Both ways bucket N is never used, since a key after the query
        is at distance 1 at least, and an odd `num_buckets` leaves its last row unused as well

The inequality is the paper's ⌊S · ln(n/E) / ln(D/E)⌋ ≥ t without a logarithm: whole numbers, no rounding.

Worked table, buckets of 4 (causal, exact up to 1) for six queries' last row, distances 5 … 0:

>>> [T5(num_heads=1, num_buckets=4, max_distance=8, bidirectional=False).bucket(-n) for n in range(5, -1, -1)]
[3, 3, 2, 2, 1, 0]

Source: Raffel et al., "Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer", JMLR 2020,
section 2.1 (no equation). The buckets are those of the authors' code (mesh_tensorflow, T5X, Hugging Face), whose logarithm
is float32: it differs from whole numbers at some distances when max_distance is 65536 or more, and at a few small odd
settings, never at 32/128. One table per stack, shared by its layers; decoders use the causal form.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from relpos.spec.contract import Form, check_fields, require
from relpos.spec.positions import Positions


@dataclass(frozen=True)
class T5:
    """Settings of T5's bias.

    num_heads        H
    num_buckets      32 in every release
    max_distance     128 in every release
    bidirectional    True in encoders, False in decoders
    score_scale      "none": q·k as it is, T5. "inverse_sqrt": 1/√D, as most ports of the bias alone have it
    sign             "key_minus_query": as published. "query_minus_key": the other way, a mistake unless it is meant
    cross_attention  True: no position term, as in T5's cross-attention
    """

    form: ClassVar[Form] = "bias"
    draws: ClassVar[dict[str, tuple]] = {"num_buckets": (32, 8, 4, 16, 9), "max_distance": (128, 20, 33, 64)}
    published: ClassVar[tuple[dict, ...]] = (
        {"bidirectional": True},
        {"bidirectional": False},
        {"max_distance": 64},
        {"max_distance": 256, "bidirectional": False},
        {"num_buckets": 64, "max_distance": 128},
        {"num_buckets": 320, "max_distance": 800},
        {"num_buckets": 33},
        {"num_buckets": 4, "max_distance": 8},
        {"num_buckets": 2, "max_distance": 8, "bidirectional": False},
    )

    num_heads: int
    num_buckets: int = 32
    max_distance: int = 128
    bidirectional: bool = True
    score_scale: Literal["none", "inverse_sqrt"] = "none"
    sign: Literal["key_minus_query", "query_minus_key"] = "key_minus_query"
    cross_attention: bool = False

    def __post_init__(self) -> None:
        check_fields(self)
        require(self, "num_heads", self.num_heads >= 1, "at least 1")
        least = 4 if self.bidirectional else 2
        way = "both ways" if self.bidirectional else "one way"
        require(self, "num_buckets", self.num_buckets >= least, f"at least {least} ({way})", "Fewer leave no exact bucket.")
        exact = self._exact()
        beyond, hint = f"more than the exact range, {exact}", "Public code then gives descending or negative buckets."
        require(self, "max_distance", self.max_distance > exact, beyond, hint)

    @property
    def claims(self) -> frozenset[str]:
        """A bias of j − i; the two directions have rows of their own."""
        return frozenset({"relative", "symmetric"}) if self.cross_attention else frozenset({"relative"})

    def parameters(self) -> dict[str, tuple[int, ...]]:
        """table [num_buckets, H]."""
        return {} if self.cross_attention else {"table": (self.num_buckets, self.num_heads)}

    def scale(self, head_dim: int) -> float:
        """The scale in force when none is given."""
        return 1.0 if self.score_scale == "none" else head_dim**-0.5

    def bucket(self, r: int) -> int:
        """The row of the table for the relative position r = key minus query."""
        base, n = 0, max(-r, 0)
        if self.bidirectional:
            base, n = (self._one_way() if r > 0 else 0), abs(r)
        E, S, D = self._exact(), self._one_way() - self._exact(), self.max_distance
        if n < E:
            return base + n
        return base + E + max(t for t in range(S) if n**S >= D**t * E ** (S - t))

    def row(self, i: int, j: int) -> int:
        """The row of the table for the query at i and the key at j."""
        return self.bucket(j - i if self.sign == "key_minus_query" else i - j)

    def bias(self, params: dict, query_positions: Positions, key_positions: Positions) -> np.ndarray:
        """table[bucket(j − i), h], shape [H, Lq, Lk]."""
        bias = np.zeros((self.num_heads, len(query_positions), len(key_positions)))
        if self.cross_attention:
            return bias
        for h in range(self.num_heads):
            for a, i in enumerate(query_positions):
                for b, j in enumerate(key_positions):
                    bias[h, a, b] = params["table"][self.row(i, j), h]
        return bias

    def _one_way(self) -> int:
        return self.num_buckets // 2 if self.bidirectional else self.num_buckets

    def _exact(self) -> int:
        return self._one_way() // 2
