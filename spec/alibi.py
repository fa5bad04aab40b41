"""ALiBi: every head lowers its logits in proportion to distance, at a fixed slope of its own.

    logit[h, i, j] = q_i · k_j · scale  −  m_h · |i − j|

i, j    positions of query and key
m_h     slope of head h, fixed, not learned (`slopes`)
sign    either way the same, |i − j|; other forms are named by `distance`
scale   1/√D on q·k, none on the bias (`scale_bias`)
beyond  nothing is clipped: the bias goes on falling
edges   defined for Lq ≠ Lk; nothing depends on L

Worked table, one head of two (m = 1/16), three queries by three keys:

>>> ALiBi(num_heads=2).bias({}, Range(0, 3), Range(0, 3))[0] * 16
array([[ 0., -1., -2.],
       [-1.,  0., -1.],
       [-2., -1.,  0.]])

Source: Press, Smith & Lewis, "Train Short, Test Long: Attention with Linear Biases Enables Input Length Extrapolation",
ICLR 2022, section 3 (the display has no number). It leaves the scale out; the authors' code applies it to q·k and not
to the bias (Falcon applies it to both: `scale_bias`). The authors define it for causal attention only and add m·j, which
differs from −m·|i − j| by a constant per query: `distance` names the forms.
"""

from dataclasses import dataclass
from math import floor, log2
from typing import ClassVar, Literal

import numpy as np

from relpos.spec.contract import Form, check_fields, require
from relpos.spec.positions import Positions, Range  # noqa: F401  (Range: the worked table)


@dataclass(frozen=True)
class ALiBi:
    """Settings of ALiBi.

    num_heads   any positive number; for one that is not a power of two see `slope_rule`
    slope_rule  "press": the authors' code, also BLOOM, MPT, flash-attention. "geometric": 2^(−b·h/H) for every H, as the
                paper's text and many ports have it; the same for powers of two, up to 45 times apart at H = 12
    bias_max    b, the exponent of the last slope of a power of two: 8 in every release we know; MPT makes it an option
    distance    "symmetric": −m·|i − j|. "causal": −m·(i − j) at or before the query and 0 after it (GPT-NeoX, KERPLE).
                "key_only": m·j (the authors, BLOOM): equal under a causal softmax, wrong without one. "half_half": the first
                half of the heads sees only the past, the second half only the future, each with the slopes of H/2 heads
                (the authors' proposal for encoders)
    scale_bias  the scale multiplies the bias as well as q·k (Falcon)
    num_biased_heads  only so many heads, the first, have a bias, with the slopes of that many heads (x-transformers,
                NeMo); None: all of them
    """

    form: ClassVar[Form] = "bias"
    draws: ClassVar[dict[str, tuple]] = {"bias_max": (8.0, 4.0, 16.0)}

    num_heads: int
    slope_rule: Literal["press", "geometric"] = "press"
    bias_max: float = 8.0
    distance: Literal["symmetric", "causal", "key_only", "half_half"] = "symmetric"
    scale_bias: bool = False
    num_biased_heads: int | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        require(self, "num_heads", self.num_heads >= 1, "at least 1")
        require(self, "bias_max", self.bias_max > 0, "a positive exponent", "The authors use 8.")
        if self.num_biased_heads is not None:
            within = 0 <= self.num_biased_heads <= self.num_heads
            require(self, "num_biased_heads", within, f"from 0 to num_heads = {self.num_heads}")
        if self.distance == "half_half":
            name = "num_heads" if self.num_biased_heads is None else "num_biased_heads"
            require(self, name, self._biased() % 2 == 0, 'even under distance="half_half"', "Half look back, half ahead.")

    @property
    def claims(self) -> frozenset[str]:
        """Which laws hold: m·j is relative only up to a constant per query; the one-sided forms are not symmetric."""
        return {
            "symmetric": frozenset({"relative", "symmetric"}),
            "key_only": frozenset({"row_relative"}),
        }.get(self.distance, frozenset({"relative"}))

    def parameters(self) -> dict[str, tuple[int, ...]]:
        """No learned tensors."""
        return {}

    def slopes(self) -> np.ndarray:
        """Slopes m_h, shape [H]; under "press" not monotone in h unless H is a power of two."""
        count = self._biased()
        if self.distance == "half_half":
            biased = self._series(count // 2) * 2
        else:
            biased = self._series(count)
        return np.array(biased + [0.0] * (self.num_heads - count))

    def bias(self, params: dict, query_positions: Positions, key_positions: Positions) -> np.ndarray:
        """The bias of every head, shape [H, Lq, Lk]: −m_h · |i − j| by default."""
        del params
        m = self.slopes()
        bias = np.zeros((self.num_heads, len(query_positions), len(key_positions)))
        for h in range(self.num_heads):
            for a, i in enumerate(query_positions):
                for b, j in enumerate(key_positions):
                    bias[h, a, b] += self._cell(h, m[h], i, j)
        return bias

    def magnitude(self, params: dict, query_positions: Positions, key_positions: Positions) -> np.ndarray:
        """Size of the terms that are rounded when the bias is computed in its declared form, [H, Lq, Lk].

        2^x for the slope amplifies the rounding of x by |x|·ln 2 = |ln m|; m·j rounds with the largest key position.
        """
        m = self.slopes()
        size = np.abs(self.bias(params, query_positions, key_positions))
        if self.distance == "key_only":
            size[:] = m[:, None, None] * max((abs(j) for j in key_positions), default=0)
        size[np.isinf(size)] = 0.0
        return size * (1 + np.abs(np.log(np.where(m > 0, m, 1.0))))[:, None, None]

    def _cell(self, h: int, m: float, i: int, j: int) -> float:
        if self.distance == "key_only":
            return m * j
        if self.distance == "causal":
            return -m * max(i - j, 0)
        if self.distance == "half_half" and h < self._biased():
            looks_back = h < self._biased() // 2
            return -m * abs(i - j) if (j <= i if looks_back else j >= i) else -np.inf
        return -m * abs(i - j)

    def _biased(self) -> int:
        return self.num_heads if self.num_biased_heads is None else self.num_biased_heads

    def _series(self, count: int) -> list[float]:
        if count == 0:
            return []
        b = self.bias_max
        if self.slope_rule == "geometric":
            return [2.0 ** (-b * h / count) for h in range(1, count + 1)]
        p = 2 ** floor(log2(count))
        first = [2.0 ** (-b * h / p) for h in range(1, p + 1)]
        between = [2.0 ** (-b * (2 * r - 1) / (2 * p)) for r in range(1, count - p + 1)]
        return first + between
