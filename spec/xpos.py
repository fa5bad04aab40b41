"""xpos: a rotation whose pairs also grow in queries and shrink in keys, so that q·k decays with distance, pair by pair.

    (x'_a, x'_b) = ζ_m^(±(p − c)/S) · (x_a cos pθ_m − x_b sin pθ_m,  x_a sin pθ_m + x_b cos pθ_m)     + queries, − keys

    ζ_m = (2m + γ r) / ((1 + γ) r),  γ = 0.4        θ_m = base^(−2m/r)

p       position, any whole number            r   rotary width (`rotary_dim`): columns from r on pass through
a, b    columns 2m and 2m+1 of pair m         S   `scale_base`: so many tokens apart, pair m keeps ζ_m of its product
c       the middle of the context (`centre`); it cancels in q·k and keeps the powers small
sign    q and k turn the same way, from a towards b: q·k sees query minus key
scale   none: q·k is scaled by 1/√D as always
beyond  defined at every position; q·k goes on falling before the query, and rising after it
edges   q_i·k_j has the factor ζ^((i − j)/S): it decays for keys before the query and GROWS for keys after it, so the scheme is
        meant for causal attention. c follows the length of the context (stated, else the largest position + 1, in attention
        of queries and keys): keys turned for one length do not fit queries turned for another

Worked table, unit vector of a query in the first column of width 2 (ζ_0 = 0.4/1.4), S = 1, positions 0, 1, 2 of 3 (c = 2):

>>> x = np.array([[1.0, 0.0]] * 3)
>>> XPos(head_dim=2, scale_base=1.0).rotate(x, Range(0, 3), "query").round(4)
array([[12.25  ,  0.    ],
       [ 1.8911,  2.9451],
       [-0.4161,  0.9093]])

Source: Sun et al., "A Length-Extrapolatable Transformer", 2022 (equation numbers not checked), and the authors' code,
torchscale's xpos_relative_position.py, from which γ, S and the centre are taken.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from relpos.spec.contract import Form, PositionError, check_fields, require
from relpos.spec.positions import Positions, Range  # noqa: F401  (Range: the worked table)
from relpos.spec.rope import RoPE, check_rows

GAMMA = 0.4
FARTHEST = 12  # in scale bases: the middle of the context is then 6 away, and 0.286^−6 is 1.8e3


@dataclass(frozen=True)
class XPos:
    """Settings of the rotation and its powers.

    head_dim    width D of a head
    rotary_dim  r, even: how many leading columns are turned; None: all of them
    base        of θ, 10000 in every release we know
    scale_base  S, 512 in every release we know
    centre      "ceil": c = ⌈n/2⌉ of a context of n tokens (torchscale takes the floor of −n/2). "floor": ⌊n/2⌋
                (x-transformers). Turned vectors differ, their products do not
    """

    form: ClassVar[Form] = "rotation"
    claims: ClassVar[frozenset[str]] = frozenset({"relative"})
    length_dependent: ClassVar[bool] = True
    draws: ClassVar[dict[str, tuple]] = {"base": (10000.0, 100.0), "scale_base": (512.0, 64.0)}

    head_dim: int
    rotary_dim: int | None = None
    base: float = 10000.0
    scale_base: float = 512.0
    centre: Literal["ceil", "floor"] = "ceil"

    def __post_init__(self) -> None:
        check_fields(self)
        require(self, "head_dim", self.head_dim >= 1, "at least 1")
        require(self, "base", self.base > 0, "a positive number", "Every release uses 10000.")
        require(self, "scale_base", self.scale_base > 0, "a positive number", "For no decay use the scheme rope.")
        if self.rotary_dim is None:
            require(self, "head_dim", self.head_dim % 2 == 0, "even", "Or turn fewer columns with an even `rotary_dim`.")
        else:
            fits = 0 <= self.rotary_dim <= self.head_dim and self.rotary_dim % 2 == 0
            require(self, "rotary_dim", fits, f"even and from 0 to head_dim = {self.head_dim}")

    def parameters(self) -> dict[str, tuple[int, ...]]:
        """No learned tensors."""
        return {}

    def farthest(self) -> int:
        """A position up to which every number format holds the powers; the definition itself has no end."""
        return int(FARTHEST * self.scale_base)

    def width(self) -> int:
        """Rotary width r."""
        return self._rotation().width()

    def frequencies(self, context_length: int | None = None) -> np.ndarray:
        """θ_m in radians per position, shape [r/2], whatever the context."""
        return self._rotation().frequencies(context_length)

    def pairs(self) -> list[tuple[int, int]]:
        """The columns of pair m, for every m."""
        return self._rotation().pairs()

    def decays(self) -> np.ndarray:
        """ζ_m, shape [r/2], from 0.286 for the fastest pair towards 1."""
        r = self.width()
        return np.array([(2 * m + GAMMA * r) / ((1 + GAMMA) * r) for m in range(r // 2)])

    def powers(self, positions: Positions, role: str) -> np.ndarray:
        """±(p − c)/S, shape [L]: + for "query", − for "key"."""
        if role not in ("query", "key"):
            raise PositionError(f"xpos: `role` must be 'query' or 'key', got {role!r}: they are stretched in opposite ways.")
        n = positions.context()
        c = n // 2 if self.centre == "floor" else -(-n // 2)
        sign = 1 if role == "query" else -1
        return np.array([sign * (p - c) / self.scale_base for p in positions])

    def gains(self, positions: Positions, role: str) -> np.ndarray:
        """What every pair's length is multiplied by, shape [L, r/2]: ζ_m^(±(p − c)/S)."""
        return self.decays() ** self.powers(positions, role).reshape(-1, 1)

    def rotate(self, x: np.ndarray, positions: Positions, role: str) -> np.ndarray:
        """x [..., L, D], every row turned to its position and stretched by its role, "query" or "key"."""
        check_rows("xpos", np.asarray(x), positions, self.head_dim)
        turned = self._rotation().rotate(x, positions, role)
        gains, pairs = self.gains(positions, role), self.pairs()
        for *leading, i in np.ndindex(turned.shape[:-1]):
            for m, pair in enumerate(pairs):
                for column in pair:
                    turned[(*leading, i, column)] *= gains[i, m]
        return turned

    def _rotation(self) -> RoPE:
        return RoPE(self.head_dim, self.rotary_dim, self.base)
