"""transformer_xl: queries meet a projected sinusoid of the distance, and two learned vectors per head ask beside them.

    logit[h, i, j] = (q_i · k_j + u_h · k_j + (q_i + v_h) · W_h R(i − j)) · scale                           R(δ) below
                     + (q_i + s_h) · G[a]_h · scale                                        xlnet, where segments are told
    logit[h, i, j] = (q_i · k_j + u_h · k_j + q_i · T[r]_h + b[r]_h) · scale   learned;   r = N − 1 − min(i − j, N − 1)

i, j    positions of query and key, memory included: QUERY minus KEY
R(δ)    E = d_model wide, θ_m = 10000^(−2m/E): [sin δθ_0 … sin δθ_(E/2−1) | cos δθ_0 …], "bidirectional" sin, cos, sin, cos …
u, v    `pos_bias_u`, `pos_bias_v`, [H, D]          W  `w_pos` [H·D, E], head h has rows h·D …
T, b    `r_emb` [N, H, D], `r_bias` [N, H], N = `max_distance`; the last row is distance 0, row 0 is N − 1 and farther
s, G    `seg_bias` [H, D], `seg_embed` [2, H, D]; a = 0 for keys of the query's segment, 1 for others. A segment hides nothing
sign    QUERY minus KEY
rows    none is read by row, R is projected by W; learned: the last row is distance 0, row 0 the farthest
scale   1/√D on all terms: the authors' code. The paper's formula has none
beyond  defined at every distance (`clamp_len`); learned: row 0
edges   a key after the query has R(δ) at δ < 0; learned has no row for it: T and b are 0. The authors' shift leaves other
        queries' rows there, as Skew does (music_transformer): right under a causal softmax only. Lq ≠ Lk needs nothing
        special. Odd E is refused: sine and cosine come in pairs
memory  keys from an earlier segment are keys at smaller positions. A segment of n tokens that sees itself and the M tokens
        before it is row for row the attention over everything with segment_length = n, memory_length = M

Worked table, one head, D = E = 2, W = 1, q = 0, u = 0, v = (1, 0): sin(i − j)

>>> params = {"pos_bias_u": np.zeros((1, 2)), "pos_bias_v": np.array([[1.0, 0.0]]), "w_pos": np.eye(2)}
>>> nothing, three = np.zeros((1, 3, 2)), Range(0, 3)
>>> TransformerXL(num_heads=1, head_dim=2).logits(params, nothing, nothing, three, three, scale=1.0)[0].round(2) + 0.0
array([[ 0.  , -0.84, -0.91],
       [ 0.84,  0.  , -0.84],
       [ 0.91,  0.84,  0.  ]])

Source: Dai et al., "Transformer-XL", ACL 2019, section 3.3 (recalled, not checked), and kimiyoung/transformer-xl; Yang et
al., "XLNet", 2019, and zihangdai/xlnet. In their models u and v belong to all layers, W to each.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from relpos.spec.contract import Form, PositionError, check_fields, require
from relpos.spec.positions import Positions, Range  # noqa: F401  (Range: the worked table)

BASE = 10000.0


@dataclass(frozen=True)
class TransformerXL:
    """Settings of Transformer-XL's attention.

    num_heads       any positive number
    head_dim        width D of a head
    variant         "transformer_xl": the paper, attn_type 0. "learned": attn_type 1. "bidirectional": ESPnet, fairseq,
                    Conformer, u and v of each layer. "xlnet" (its bi_data, half a batch with reversed sign, is negated
                    positions)
    d_model         E, even; None: H·D
    max_distance    N, rows of "learned": distances from 0 on that have their own
    clamp_len       distances beyond it count as it: of keys before the query ("transformer_xl"), on both sides ("xlnet");
                    None (−1 in the authors' code): none do
    memory_length   M, see `segment_length` and `same_length`; on its own it hides nothing: what it holds is all there is
    segment_length  n: the query at i sees no key before n·⌊i / n⌋ − M
    same_length     every query sees M keys, its own the last: none at distance M or more (XLNet's own lets M + 1)
    """

    form: ClassVar[Form] = "logits"
    draws: ClassVar[dict[str, tuple]] = {
        "d_model": (None, 6),
        "max_distance": (3, 1, 5),
        "clamp_len": (None, 2, 5),
        "memory_length": (None, 3, 1),
        "segment_length": (None, 2),
    }

    num_heads: int
    head_dim: int
    variant: Literal["transformer_xl", "learned", "bidirectional", "xlnet"] = "transformer_xl"
    d_model: int | None = None
    max_distance: int = 512
    clamp_len: int | None = None
    memory_length: int | None = None
    segment_length: int | None = None
    same_length: bool = False

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("num_heads", "head_dim", "max_distance"):
            require(self, name, getattr(self, name) >= 1, "at least 1")
        for name in ("clamp_len", "segment_length"):
            require(self, name, getattr(self, name) is None or getattr(self, name) >= 1, "at least 1, or None")
        least = 1 if self.same_length else 0
        remembers = self.memory_length is None or self.memory_length >= least
        require(self, "memory_length", remembers, f"at least {least}, or None")
        if self.variant != "learned":
            even, product = self.width() >= 2 and self.width() % 2 == 0, self.num_heads * self.head_dim
            require(self, "d_model", even, f"even and at least 2, or None for H·D = {product}")
        if self.variant in ("learned", "bidirectional"):
            require(self, "clamp_len", self.clamp_len is None, f'None under variant="{self.variant}"', "It has no clamp.")
        if self.same_length or self.segment_length is not None:
            hint = "Say how many tokens before are remembered."
            require(self, "memory_length", self.memory_length is not None, "given with same_length or segment_length", hint)
        if self.same_length:
            require(self, "segment_length", self.segment_length is None, "None with same_length", "Each says what is seen.")

    @property
    def claims(self) -> frozenset[str]:
        """Which laws hold: what a query sees of a memory depends on where segments begin."""
        return frozenset({"relative"}) if self.segment_length is None else frozenset()

    @property
    def hides(self) -> bool:
        """Whether some logits are −∞ by the scheme's own rule."""
        return self.same_length or self.segment_length is not None

    @property
    def segments_hide(self) -> bool:
        """Whether pairs in different segments do not see each other, as in all schemes but XLNet, which adds a term."""
        return self.variant != "xlnet"

    def width(self) -> int:
        """E, the width of R."""
        return self.num_heads * self.head_dim if self.d_model is None else self.d_model

    def parameters(self) -> dict[str, tuple[int, ...]]:
        """Learned tensors of the variant; shapes as in the module's docstring."""
        H, D, N = self.num_heads, self.head_dim, self.max_distance
        if self.variant == "learned":
            return {"pos_bias_u": (H, D), "r_emb": (N, H, D), "r_bias": (N, H)}
        found: dict[str, tuple[int, ...]] = {"pos_bias_u": (H, D), "pos_bias_v": (H, D), "w_pos": (H * D, self.width())}
        return found | ({"seg_embed": (2, H, D), "seg_bias": (H, D)} if self.variant == "xlnet" else {})

    def frequencies(self) -> np.ndarray:
        """θ_m, shape [E / 2]."""
        E = self.width()
        return np.array([BASE ** (-2 * m / E) for m in range(E // 2)])

    def distance(self, i: int, j: int) -> int:
        """δ = i − j, clamped."""
        δ = i - j
        if self.clamp_len is not None:
            δ = min(δ, self.clamp_len)
            δ = max(δ, -self.clamp_len) if self.variant == "xlnet" else δ
        return δ

    def waves(self, sines: np.ndarray, cosines: np.ndarray) -> np.ndarray:
        """Columns of R in the order of the variant, [E]."""
        if self.variant == "bidirectional":
            return np.stack([sines, cosines], axis=-1).ravel()
        return np.concatenate([sines, cosines])

    def encoding(self, δ: int) -> np.ndarray:
        """R(δ), shape [E]."""
        return self.waves(np.sin(δ * self.frequencies()), np.cos(δ * self.frequencies()))

    def row(self, i: int, j: int) -> int | None:
        """Row r of the learned tables for the query at i and the key at j; None: no row."""
        N = self.max_distance
        return N - 1 - min(i - j, N - 1) if j <= i else None

    def sees(self, i: int, j: int) -> bool:
        """Whether memory reaches from the query at i to the key at j."""
        M, n = self.memory_length, self.segment_length
        if M is None or not self.hides:
            return True
        return i - j < M if n is None else j >= i // n * n - M

    def logits(
        self, params: dict, q: np.ndarray, k: np.ndarray, query_positions: Positions, key_positions: Positions, *, scale: float
    ) -> np.ndarray:
        """Everything but scale · q · k, −∞ for keys that are not seen, shape [H, Lq, Lk]; q, k [H, L, D]."""
        return _terms(self, params, q, k, (query_positions, key_positions), scale, self.encoding)

    def magnitude(
        self, params: dict, q: np.ndarray, k: np.ndarray, query_positions: Positions, key_positions: Positions, *, scale: float
    ) -> np.ndarray:
        """Sum of the magnitudes of all products in `logits`, shape [H, Lq, Lk]: |R| in place of R, no sum cancels."""
        params, q, k = {n: np.abs(x) for n, x in params.items()}, np.abs(q), np.abs(k)
        size = _terms(self, params, q, k, (query_positions, key_positions), abs(scale), lambda δ: np.abs(self.encoding(δ)))
        return np.where(np.isinf(size), 0.0, size)

    def angle_error(
        self, params: dict, q: np.ndarray, k: np.ndarray, query_positions: Positions, key_positions: Positions, *, scale: float
    ) -> np.ndarray:
        """What a rounded angle moves, shape [H, Lq, Lk]: (|q| + |v|) · |W| · (1 + |δθ|·(2 + |ln θ|)) · scale.

        The slope of sine and cosine is 1 at most; δθ is one product, and θ = 10000^x amplifies the rounding of x by |ln θ|.
        The 1 is for waves that come of others, as sin i cos j − cos i sin j does: they are rounded as what they come of.
        """
        if self.variant == "learned":
            return np.zeros((len(q), len(query_positions), len(key_positions)))
        only = {name: np.abs(params[name]) * (name in ("pos_bias_v", "w_pos")) for name in params}
        θ = self.frequencies()
        error = lambda δ: self.waves(*2 * [1 + np.abs(δ * θ) * (2 + np.abs(np.log(θ)))])  # noqa: E731
        size = _terms(self, only, np.abs(q), np.abs(k), (query_positions, key_positions), abs(scale), error)
        return np.where(np.isinf(size), 0.0, size)


def _terms(s: Any, params: dict, q: np.ndarray, k: np.ndarray, at: tuple, scale: float, R: Callable) -> np.ndarray:
    """All terms but q · k, with R(δ) as given; at = positions of queries and keys."""
    query_positions, key_positions = at
    params = {name: np.asarray(x, dtype=np.float64) for name, x in params.items()}
    q, k = np.asarray(q, dtype=np.float64), np.asarray(k, dtype=np.float64)
    segment = _segments(query_positions, key_positions) if s.variant == "xlnet" else None
    waves = {δ: R(δ) for δ in {s.distance(i, j) for i in query_positions for j in key_positions}}
    term = np.zeros((len(q), len(query_positions), len(key_positions)))
    for h in range(len(q)):
        W = params["w_pos"][h * s.head_dim : (h + 1) * s.head_dim] if "w_pos" in params else None
        for a, i in enumerate(query_positions):
            for b, j in enumerate(key_positions):
                if not s.sees(i, j):
                    term[h, a, b] = -np.inf
                    continue
                cell = np.dot(params["pos_bias_u"][h], k[h, b])
                if s.variant == "learned":
                    r = s.row(i, j)
                    cell += 0.0 if r is None else np.dot(q[h, a], params["r_emb"][r, h]) + params["r_bias"][r, h]
                else:
                    cell += np.dot(q[h, a] + params["pos_bias_v"][h], W @ waves[s.distance(i, j)])
                if segment is not None:
                    other = int(segment[0][a] != segment[1][b])
                    cell += np.dot(q[h, a] + params["seg_bias"][h], params["seg_embed"][other, h])
                term[h, a, b] = scale * cell
    return term


def _segments(query_positions: Positions, key_positions: Positions) -> tuple[np.ndarray, np.ndarray] | None:
    """Segment ids of queries and keys; None where neither side tells them."""
    queries, keys = query_positions.segment(0), key_positions.segment(0)
    if (queries is None) != (keys is None):
        raise PositionError("transformer_xl: `segments` must be given for queries and keys alike; one side has none.")
    return None if queries is None or keys is None else (queries, keys)
