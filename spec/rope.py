"""rope: queries and keys are turned, pair by pair, by an angle proportional to their position.

    (x'_a, x'_b) = (x_a cos pθ_m − x_b sin pθ_m,  x_a sin pθ_m + x_b cos pθ_m)     θ_m = base^(−2m/r)

p       position, any whole number            r   rotary width (`rotary_dim`): only the first r columns are turned
a, b    the two columns of pair m, from 0 (`layout`)
sign    q and k turn the same way, from a towards b: q·k sees query minus key
scale   1/√D on q·k of the turned vectors
beyond  angles go on growing: defined at every position
edges   q_i·k_j depends on i − j alone; position 0 changes nothing; lengths are kept; columns from r on pass through

Worked table, unit vector in the first column of width 2 at positions 0, 1, 2:

>>> x = np.array([[1.0, 0.0]] * 3)
>>> RoPE(head_dim=2).rotate(x, Range(0, 3), "query").round(4)
array([[ 1.    ,  0.    ],
       [ 0.5403,  0.8415],
       [-0.4161,  0.9093]])

Source: Su et al., "RoFormer: Enhanced Transformer with Rotary Position Embedding", 2021, equations 14, 15 and 34 (numbers
recalled, not checked). The paper counts pairs from 1 with θ_i = 10000^(−2(i−1)/d); positions count from 0 in the code.
"""

from dataclasses import dataclass
from math import cos, sin
from typing import ClassVar, Literal

import numpy as np

from relpos.spec.contract import Form, PositionError, check_fields, require
from relpos.spec.positions import Positions, Range  # noqa: F401  (Range: the worked table)


@dataclass(frozen=True)
class RoPE:
    """Settings of the rotation.

    head_dim    width D of a head
    rotary_dim  r, even: how many leading columns are turned; None: all of them. The exponent has r, not D, in it
    base        10000 in the paper; Llama 3 uses 500000
    layout      "interleaved": columns (2m, 2m+1), as in the paper (RoFormer, Meta's Llama, GPT-J). "half": (m, m + r/2)
                (GPT-NeoX, Hugging Face's Llama). The same scheme only after permuting the columns of q and k
    """

    form: ClassVar[Form] = "rotation"
    claims: ClassVar[frozenset[str]] = frozenset({"relative"})
    draws: ClassVar[dict[str, tuple]] = {"base": (10000.0, 100.0, 500000.0)}

    head_dim: int
    rotary_dim: int | None = None
    base: float = 10000.0
    layout: Literal["interleaved", "half"] = "interleaved"

    def __post_init__(self) -> None:
        check_fields(self)
        require(self, "head_dim", self.head_dim >= 1, "at least 1")
        require(self, "base", self.base > 0, "a positive number", "The paper uses 10000; for no rotation use the scheme none.")
        if self.rotary_dim is None:
            require(self, "head_dim", self.head_dim % 2 == 0, "even", "Or turn fewer columns with an even `rotary_dim`.")
        else:
            fits = 0 <= self.rotary_dim <= self.head_dim and self.rotary_dim % 2 == 0
            require(self, "rotary_dim", fits, f"even and from 0 to head_dim = {self.head_dim}")

    def parameters(self) -> dict[str, tuple[int, ...]]:
        """No learned tensors."""
        return {}

    def width(self) -> int:
        """Rotary width r."""
        return self.head_dim if self.rotary_dim is None else self.rotary_dim

    def frequencies(self) -> np.ndarray:
        """θ_m in radians per position, shape [r/2]."""
        r = self.width()
        return np.array([self.base ** (-2 * m / r) for m in range(r // 2)])

    def pairs(self) -> list[tuple[int, int]]:
        """The columns of pair m, for every m."""
        r = self.width()
        return [(2 * m, 2 * m + 1) if self.layout == "interleaved" else (m, m + r // 2) for m in range(r // 2)]

    def rotate(self, x: np.ndarray, positions: Positions, role: str) -> np.ndarray:
        """x [..., L, D] with every row turned to its position; queries and keys ("query", "key") turn alike."""
        del role
        x = np.asarray(x, dtype=np.float64)
        fits = x.ndim >= 2 and x.shape[-2:] == (len(positions), self.head_dim)
        if not fits:
            raise PositionError(
                f"rope: `x` must have shape [..., L, D] = [..., {len(positions)}, {self.head_dim}], one row per position, "
                f"got {list(x.shape)}."
            )
        θ, ps, turned = self.frequencies(), list(positions), x.copy()
        for *leading, i in np.ndindex(x.shape[:-1]):
            p = ps[i]
            row = (*leading, i)
            for m, (a, b) in enumerate(self.pairs()):
                c, s = cos(p * θ[m]), sin(p * θ[m])
                turned[(*row, a)] = x[(*row, a)] * c - x[(*row, b)] * s
                turned[(*row, b)] = x[(*row, a)] * s + x[(*row, b)] * c
        return turned
