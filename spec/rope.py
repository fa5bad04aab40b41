"""rope: queries and keys are turned, pair by pair, by an angle proportional to their position.

    (x'_a, x'_b) = μ · (x_a cos pθ_m − x_b sin pθ_m,  x_a sin pθ_m + x_b cos pθ_m)     θ_m = base^(−2m/r)

p       position, any whole number            r   rotary width (`rotary_dim`): r columns are turned, the others pass through
a, b    the two columns of pair m, from 0 (`layout`, `partial`)
μ       1, but for YaRN                       θ   changed by `scaling`: formulas in `rope_scaling.py`
sign    q and k turn the same way, from a towards b: q·k sees query minus key
scale   1/√D on q·k of the turned vectors
beyond  angles go on growing: defined at every position
edges   q_i·k_j depends on i − j alone; position 0 turns nothing; lengths are kept (times μ). Under scaling="dynamic" θ depends
        on the length of the context: the stated one, else the largest position + 1 (in attention, of queries and keys)

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
from relpos.spec.rope_scaling import check_scaling, frequencies, magnitude


@dataclass(frozen=True)
class RoPE:
    """Settings of the rotation.

    head_dim    width D of a head
    rotary_dim  r, even: how many columns are turned; None: all of them
    base        10000 in the paper; Llama 3 uses 500000
    layout      "interleaved": columns (2m, 2m+1), as in the paper (RoFormer, Meta's Llama, GPT-J). "half": (m, m + r/2)
                (GPT-NeoX, Hugging Face's Llama). The same scheme only after permuting the columns of q and k
    partial     "leading": the first r columns are a smaller rotation of their own, with r in the exponent (GPT-NeoX, GPT-J).
                "proportional": the first r/2 pairs of the whole head's rotation, with D in the exponent and, in halves,
                partners D/2 apart (Gemma 4; Hugging Face's rope_type of this name); with scaling none or linear

    Beyond the trained length, each refused where it would be ignored:

    scaling     "none", "linear" (position interpolation), "ntk" (static), "dynamic" (NTK by the length of the context), "yarn",
                "llama3"
    factor      f, at least 1: how many times farther than trained; under ntk often called alpha
    max_position  M of dynamic, the trained length: up to and including M nothing is scaled. The reach is M·f
    original_max_position  L of yarn and llama3, the trained length
    attention_factor  μ of yarn, final; None: 0.1 ln f + 1
    mscale, mscale_all_dim  together: μ is a ratio, 1 when they are equal (DeepSeek, which besides multiplies the softmax scale
                by (0.1 · mscale_all_dim · ln f + 1)²: no part of the rotation, give it as `scale`). Hugging Face ignores one
                without the other
    beta_fast, beta_slow  of yarn, turns within L; None: 32 and 1
    ramp        of yarn, "code" (linear in m; every release) or "paper" (linear in turns): not the same frequencies
    truncate    of yarn's code: its ramp ends at whole pairs; False leaves them where they fall (gpt-oss)
    low_freq_factor, high_freq_factor  of llama3, turns within L; None: 1 and 4, as in every release
    """

    form: ClassVar[Form] = "rotation"
    claims: ClassVar[frozenset[str]] = frozenset({"relative"})
    draws: ClassVar[dict[str, tuple]] = {
        "base": (10000.0, 100.0, 500000.0),
        "factor": (4.0, 1.0, 2.5),
        "max_position": (4, 7),
        "original_max_position": (512, 128),
        "attention_factor": (None, 0.9),
        "beta_fast": (None, 16.0),
        "beta_slow": (None, 2.0),
        "low_freq_factor": (None, 2.0),
        "high_freq_factor": (None, 8.0),
    }
    bundles: ClassVar[tuple[dict, ...]] = (
        {"scaling": "dynamic", "factor": 2.0, "max_position": 4},
        {"scaling": "yarn", "factor": 4.0, "original_max_position": 512},
        {"scaling": "llama3", "factor": 8.0, "original_max_position": 128},
        {"scaling": "yarn", "factor": 4.0, "original_max_position": 512, "ramp": "paper"},
        {"scaling": "yarn", "factor": 40.0, "original_max_position": 512, "mscale": 1.0, "mscale_all_dim": 0.5},
        {"scaling": "linear", "factor": 4.0},
        {"scaling": "ntk", "factor": 2.0},
    )

    head_dim: int
    rotary_dim: int | None = None
    base: float = 10000.0
    layout: Literal["interleaved", "half"] = "interleaved"
    partial: Literal["leading", "proportional"] = "leading"
    scaling: Literal["none", "linear", "ntk", "dynamic", "yarn", "llama3"] = "none"
    factor: float | None = None
    max_position: int | None = None
    original_max_position: int | None = None
    attention_factor: float | None = None
    mscale: float | None = None
    mscale_all_dim: float | None = None
    beta_fast: float | None = None
    beta_slow: float | None = None
    ramp: Literal["code", "paper"] = "code"
    truncate: bool = True
    low_freq_factor: float | None = None
    high_freq_factor: float | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        require(self, "head_dim", self.head_dim >= 1, "at least 1")
        require(self, "base", self.base > 0, "a positive number", "The paper uses 10000; for no rotation use the scheme none.")
        if self.rotary_dim is None:
            require(self, "head_dim", self.head_dim % 2 == 0, "even", "Or turn fewer columns with an even `rotary_dim`.")
        else:
            fits = 0 <= self.rotary_dim <= self.head_dim and self.rotary_dim % 2 == 0
            require(self, "rotary_dim", fits, f"even and from 0 to head_dim = {self.head_dim}")
        if self.partial == "proportional":
            require(self, "head_dim", self.head_dim % 2 == 0, 'even under partial="proportional"')
            known, hint = self.scaling in ("none", "linear"), "No release says what the others are."
            require(self, "scaling", known, "'none' or 'linear' under partial=\"proportional\"", hint)
        check_scaling(self)

    @property
    def length_dependent(self) -> bool:
        """Whether the result depends on the length of the context."""
        return self.scaling == "dynamic"

    def parameters(self) -> dict[str, tuple[int, ...]]:
        """No learned tensors."""
        return {}

    def width(self) -> int:
        """Rotary width r."""
        return self.head_dim if self.rotary_dim is None else self.rotary_dim

    def exponent_width(self) -> int:
        """The width in the exponent of θ: r, or D under partial="proportional"."""
        return self.head_dim if self.partial == "proportional" else self.width()

    def frequencies(self, context_length: int | None = None) -> np.ndarray:
        """θ_m in radians per position, shape [r/2]; the context matters under scaling="dynamic" only."""
        return frequencies(self, context_length)

    def gains(self, positions: Positions, role: str) -> np.ndarray:
        """What every pair's length is multiplied by, shape [L, r/2]: μ."""
        del role
        return np.full((len(positions), self.width() // 2), magnitude(self))

    def pairs(self) -> list[tuple[int, int]]:
        """The columns of pair m, for every m."""
        w = self.exponent_width()
        return [(2 * m, 2 * m + 1) if self.layout == "interleaved" else (m, m + w // 2) for m in range(self.width() // 2)]

    def rotate(self, x: np.ndarray, positions: Positions, role: str) -> np.ndarray:
        """x [..., L, D] with every row turned to its position; queries and keys ("query", "key") turn alike."""
        x = np.asarray(x, dtype=np.float64)
        check_rows("rope", x, positions, self.head_dim)
        θ, μ = self.frequencies(positions.context()), self.gains(positions, role)
        ps, turned = list(positions), x.copy()
        for *leading, i in np.ndindex(x.shape[:-1]):
            p = ps[i]
            row = (*leading, i)
            for m, (a, b) in enumerate(self.pairs()):
                c, s = cos(p * θ[m]), sin(p * θ[m])
                turned[(*row, a)] = μ[i, m] * (x[(*row, a)] * c - x[(*row, b)] * s)
                turned[(*row, b)] = μ[i, m] * (x[(*row, a)] * s + x[(*row, b)] * c)
        return turned


def check_rows(scheme: str, x: np.ndarray, positions: Positions, head_dim: int) -> None:
    """Refuse what does not have one row of a head's width per position."""
    if x.ndim < 2 or x.shape[-2:] != (len(positions), head_dim):
        raise PositionError(
            f"{scheme}: `x` must have shape [..., L, D] = [..., {len(positions)}, {head_dim}], one row per position, "
            f"got {list(x.shape)}."
        )
