"""sinusoidal: every position is a fixed vector of sines and cosines, added to the token's vector.

    e[p, 2m] = sin(p · θ_m)     e[p, 2m+1] = cos(p · θ_m)     θ_m = base^(−2m/D)

p       position, any whole number        m   pair, from 0        D   width (`embed_dim`)
sign    none: absolute positions
scale   none: e is added to the token's vector as it is
beyond  defined at every position
edges   an odd width is defined per layout below. e·e' depends on p − p' alone when every sine
        has its cosine; e itself is not relative

Worked table, positions 0, 1, 2 in width 4 (the last pair turns 100 times more slowly):

>>> Sinusoidal(embed_dim=4).encode(Range(0, 3)).round(4)
array([[ 0.    ,  1.    ,  0.    ,  1.    ],
       [ 0.8415,  0.5403,  0.01  ,  1.    ],
       [ 0.9093, -0.4161,  0.02  ,  0.9998]])

Source: Vaswani et al., "Attention Is All You Need", 2017, section 3.5. The authors' library, tensor2tensor, computes
something else (`layout="t2t"`): other columns and other frequencies.
"""

from dataclasses import dataclass
from math import ceil, cos, sin
from typing import ClassVar, Literal

import numpy as np

from relpos.spec.contract import Form, check_fields, require
from relpos.spec.positions import Positions, Range  # noqa: F401  (Range: the worked table)


@dataclass(frozen=True)
class Sinusoidal:
    """Settings of the sinusoid.

    embed_dim   width D
    layout      "interleaved": sine and cosine alternate, as in the paper; an odd width ends with a sine alone.
                "halves": all sines, then all cosines, same frequencies (Marian, RoFormer, Transformer-XL); an odd width has
                one sine more. "t2t": halves with θ_m = base^(−m/(n−1)), n = ⌊D/2⌋, so that the last wavelength is
                2π·base exactly (tensor2tensor, fairseq, OpenNMT); an odd width ends with a column of zeros
    base        10000 in every release we know; tensor2tensor calls it max_timescale
    """

    form: ClassVar[Form] = "embedding"
    draws: ClassVar[dict[str, tuple]] = {"base": (10000.0, 100.0, 1000.0)}

    embed_dim: int
    layout: Literal["interleaved", "halves", "t2t"] = "interleaved"
    base: float = 10000.0

    def __post_init__(self) -> None:
        check_fields(self)
        require(self, "embed_dim", self.embed_dim >= 1, "at least 1")
        require(self, "base", self.base > 0, "a positive number", "The paper uses 10000.")

    @property
    def claims(self) -> frozenset[str]:
        """e·e' is relative only when every sine has its cosine."""
        unpaired = self.embed_dim % 2 == 1 and self.layout != "t2t"
        return frozenset() if unpaired else frozenset({"relative_dot"})

    def parameters(self) -> dict[str, tuple[int, ...]]:
        """No learned tensors."""
        return {}

    def frequencies(self) -> np.ndarray:
        """θ_m in radians per position, one per sine, shape [⌈D/2⌉] ([⌊D/2⌋] under "t2t")."""
        D = self.embed_dim
        if self.layout == "t2t":
            n = D // 2
            return np.array([self.base ** (-m / max(n - 1, 1)) for m in range(n)])
        return np.array([self.base ** (-2 * m / D) for m in range(ceil(D / 2))])

    def encode(self, positions: Positions) -> np.ndarray:
        """The vectors of the positions, shape [L, D]."""
        θ, columns = self.frequencies(), self.columns()
        e = np.zeros((len(positions), self.embed_dim))
        for a, p in enumerate(positions):
            for m, (sine, cosine) in enumerate(columns):
                e[a, sine] = sin(p * θ[m])
                if cosine < self.embed_dim:
                    e[a, cosine] = cos(p * θ[m])
        return e

    def columns(self) -> list[tuple[int, int]]:
        """The columns of sine m and cosine m, for every m; a cosine column at D or beyond does not exist."""
        count = len(self.frequencies())
        return [(2 * m, 2 * m + 1) if self.layout == "interleaved" else (m, count + m) for m in range(count)]
