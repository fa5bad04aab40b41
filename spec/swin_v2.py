"""swin_v2: a small network of log-spaced offsets gives the bias, and content is compared by angle, not by length.

    logit[h, i, j] = cos(q_i, k_j) · exp(min(τ_h, ln 100))  +  16 · sigmoid( Σ_m V[h, m] · max(0, U[m] · c + b[m]) )

    c_a = sign(u_a) · log2(1 + |u_a|) / log2 8,   u_a = 8 · d_a / (W_a − 1),   d = i − j

i, j    positions of query and key on n axes, (row, column): QUERY minus KEY on every axis
W_a     `pretrained_window_size` where given, else `window_size`, first axis first: a model moved to larger windows keeps the
        coordinates that it learned
U, b    `cpb_in` [hidden, n] and `cpb_bias` [hidden];   V  `cpb_out` [H, hidden], without a bias;   τ  `logit_scale` [H]
sign    QUERY minus KEY on every axis
rows    none is read by row: a network of the offset
scale   none: the cosine has its own temperature, one per head, at most 100 times; the bias lies between 0 and 16
beyond  every offset has a bias: the coordinate grows on
edges   at |d_a| = W_a − 1 the coordinate is log2 9 / 3 = 1.057, not 1; beyond, it grows on, so every offset is defined. A
        window of 1 on an axis divides by max(W_a − 1, 1), as timm does; the authors' code has NaN there. A query or key
        shorter than 10⁻¹² counts as that long, so that a length of 0 has cosine 0. A token without a position has bias 0

A scheme of its own beside swin, not a version of it: it learns other tensors and owns its content term.

Worked table, the coordinates of one axis, W = 3, offsets −2 … 2:

>>> [round(SwinV2(num_heads=1, window_size=(3, 3)).coordinate(d, 3), 4) for d in range(-2, 3)]
[-1.0566, -0.774, 0.0, 0.774, 1.0566]

Source: Liu et al., "Swin Transformer V2: Scaling Up Capacity and Resolution", 2022, equations 2 to 4 (numbers recalled, not
checked). Equation 4 has sign(d) · ln(1 + |d|), not normalised (coordinates="paper"); factor, base and sigmoid are those of the
authors' code, which tests the first axis alone for a pretrained window, and takes 0 as none.
"""

from dataclasses import dataclass
from math import copysign, exp, log, log2
from typing import ClassVar, Literal

import numpy as np

from relpos.spec.contract import Form, check_fields, require
from relpos.spec.positions import Positions

LARGEST = log(100)  # of τ
SHORTEST = 1e-12  # of a query or key
Place = tuple[int, ...] | None  # None: a token without a position


@dataclass(frozen=True)
class SwinV2:
    """Settings of the network and its coordinates.

    num_heads               H
    window_size             (W_1, W_2), or as many axes as there are
    pretrained_window_size  the window of the model that the weights come from; None: the same
    hidden                  units of the network
    coordinates             "normalised": the authors' code. "paper": sign(d) · ln(1 + |d|)
    """

    form: ClassVar[Form] = "bias"
    claims: ClassVar[frozenset[str]] = frozenset({"relative"})
    draws: ClassVar[dict[str, tuple]] = {
        "window_size": ((2, 3), (3, 2), (1, 3), (2, 2), (1, 1), (2, 1, 2)),
        "pretrained_window_size": (None, (4, 6), (3, 3)),
        "hidden": (3, 1, 8),
    }

    num_heads: int
    window_size: tuple[int, ...]
    pretrained_window_size: tuple[int, ...] | None = None
    hidden: int = 512
    coordinates: Literal["normalised", "paper"] = "normalised"

    def __post_init__(self) -> None:
        check_fields(self)
        require(self, "num_heads", self.num_heads >= 1, "at least 1")
        several = len(self.window_size) >= 2 and min(self.window_size) >= 1
        require(self, "window_size", several, "two sizes or more, each at least 1")
        before = self.pretrained_window_size
        fits = before is None or (len(before) == self.axes and min(before) >= 1)
        hint = "Leave it at None for no other window."
        require(self, "pretrained_window_size", fits, f"None or {self.axes} sizes, each at least 1", hint)
        require(self, "hidden", self.hidden >= 1, "at least 1", "The authors have 512.")

    @property
    def axes(self) -> int:
        """Coordinates of a position."""
        return len(self.window_size)

    def parameters(self) -> dict[str, tuple[int, ...]]:
        """cpb_in [hidden, n], cpb_bias [hidden], cpb_out [H, hidden], logit_scale [H]."""
        H, m = self.num_heads, self.hidden
        return {"cpb_in": (m, self.axes), "cpb_bias": (m,), "cpb_out": (H, m), "logit_scale": (H,)}

    def coordinate(self, d: int, W: int) -> float:
        """c of an offset d along an axis of the window W."""
        if self.coordinates == "paper":
            return copysign(log(1 + abs(d)), d)
        u = 8 * d / max(W - 1, 1)
        return copysign(log2(1 + abs(u)) / log2(8), u)

    def coordinates_of(self, i: Place, j: Place) -> np.ndarray | None:
        """c, one number per axis; None where a token has no position."""
        if i is None or j is None:
            return None
        windows = self.pretrained_window_size or self.window_size
        return np.array([self.coordinate(p - r, W) for p, r, W in zip(i, j, windows, strict=True)])

    def bias(self, params: dict, query_positions: Positions, key_positions: Positions) -> np.ndarray:
        """16 · sigmoid(network), shape [H, Lq, Lk]."""
        U, b, V = params["cpb_in"], params["cpb_bias"], params["cpb_out"]
        bias = np.zeros((self.num_heads, len(query_positions), len(key_positions)))
        for a, i in enumerate(query_positions):
            for e, j in enumerate(key_positions):
                if (c := self.coordinates_of(i, j)) is not None:
                    units = np.maximum(0, U @ c + b)
                    for h in range(self.num_heads):
                        bias[h, a, e] = 16 * np.exp(-np.logaddexp(0, -(V[h] @ units)))  # without overflow
        return bias

    def content(self, params: dict, q: np.ndarray, k: np.ndarray) -> np.ndarray:
        """cos(q_i, k_j) · exp(min(τ_h, ln 100)) in place of scale · q·k, [H, Lq, Lk]; q and k [H, L, D]."""
        content = np.zeros((len(q), q.shape[1], k.shape[1]))
        for h, i, j in np.ndindex(content.shape):
            lengths = max(np.linalg.norm(q[h, i]), SHORTEST), max(np.linalg.norm(k[h, j]), SHORTEST)
            cosine = (q[h, i] / lengths[0]) @ (k[h, j] / lengths[1])
            content[h, i, j] = cosine * exp(min(params["logit_scale"][h], LARGEST))
        return content

    def magnitude(self, params: dict, query_positions: Positions, key_positions: Positions) -> np.ndarray:
        """Size of the terms that are rounded on the way to the bias, [H, Lq, Lk].

        X sums the magnitudes inside the sigmoid, whose slope is s(1 − s): 16·s + 16·s(1 − s)·X. A coordinate is a quotient
        and a logarithm, and log2(1 + |u|) amplifies the rounding of u by at most 1/ln 8: |c| counts as 2|c| + 1/ln 8.
        """
        U, b, V = (np.abs(params[name]) for name in ("cpb_in", "cpb_bias", "cpb_out"))
        s = self.bias(params, query_positions, key_positions) / 16
        X = np.zeros(s.shape)
        for a, i in enumerate(query_positions):
            for e, j in enumerate(key_positions):
                if (c := self.coordinates_of(i, j)) is not None:
                    X[:, a, e] = V @ (U @ (2 * np.abs(c) + (c != 0) / log(8)) + b)
        return 16 * s + 16 * s * (1 - s) * X

    def content_magnitude(self, params: dict, q: np.ndarray, k: np.ndarray) -> np.ndarray:
        """Size of the terms of `content`: the products, both lengths, and exp, which amplifies the rounding of τ by |τ|."""
        τ = np.minimum(params["logit_scale"], LARGEST)[:, None, None]
        return self.content(params, np.abs(q), np.abs(k)) * (3 + np.abs(τ))
