"""How much the formula of a rotation amplifies roundings: of a frequency θ_m, and of the powers of xpos.

plain      1 + |ln θ|                       θ = base^x amplifies the rounding of x by |x|·ln base
larger base  + 2m/r · (2 + k·(1 + a + ln α))  base · α^k to the power 2m/r; a: of α, a difference of terms 2fs/M and f − 1
mixed      2 + plain + δγ·(θ − θ/f)/θ'      θ' = γθ + (1 − γ)θ/f, and δγ: of γ where it is not cut off
  γ of turns     1 + (ρ·(2 + plain) + low)/(high − low)           of ρ = Lθ/2π, as 1 − γ is off by as much as γ
  γ of indices   2, and unless its ends are whole their own: r/(2 ln base)·(2 + |ln(L/2πβ)|) + 3·end, over b − a
power      |e|·(3 + |ln ζ|)                 ζ^e amplifies the rounding of e by |ln ζ|·|e| and the three of ζ by |e|
"""

from math import log, pi
from typing import Any

import numpy as np

from relpos.spec import rope_scaling as rules
from relpos.spec.positions import Positions


def frequency(settings: Any, θ: np.ndarray, context_length: int) -> np.ndarray:
    """Roundings of every θ_m, relative to it, shape [r/2]; θ are the frequencies in that context."""
    plain, scaling = 1 + np.abs(np.log(θ)), getattr(settings, "scaling", "none")
    if scaling in ("ntk", "dynamic"):
        return plain + _of_base(settings, context_length)
    if scaling == "linear":
        return plain + 1 + log(settings.factor)
    if scaling in ("yarn", "llama3"):
        return 2 + plain + log(settings.factor) + _of_mixture(settings, θ)
    return plain


def powers(settings: Any, positions: Positions, role: str) -> np.ndarray | float:
    """Roundings of the gains of a rotation, relative to them, [L, r/2]; those of a constant magnitude are in M."""
    if not hasattr(settings, "powers"):
        return 0.0
    e = np.abs(settings.powers(positions, role))[:, None]
    return e * (3 + np.abs(np.log(settings.decays())))


def _of_base(s: Any, n: int) -> np.ndarray:
    w, α = s.exponent_width(), rules.enlarged(s, n)
    a = 0.0 if s.scaling == "ntk" else (2 * (α + s.factor - 1) + s.factor - 1) / α
    exponents = np.array([2 * m / w for m in range(s.width() // 2)])
    return exponents * (2 + abs(w / (w - 2)) * (1 + a + log(α)))


def _of_mixture(s: Any, mixed: np.ndarray) -> np.ndarray:
    θ = np.array([s.base ** (-2 * m / s.width()) for m in range(s.width() // 2)])
    γ = rules.kept(s, θ)
    δ = _of_indices(s) if s.scaling == "yarn" and s.ramp == "code" else _of_turns(s, θ)
    return np.where((γ > 0) & (γ < 1), δ * (θ - θ / s.factor) / mixed, 0.0)


def _of_turns(s: Any, θ: np.ndarray) -> np.ndarray:
    low, high = rules.turns(s)
    ρ = s.original_max_position * θ / (2 * pi)
    return 1 + (ρ * (3 + np.abs(np.log(θ))) + low) / (high - low)


def _of_indices(s: Any) -> float:
    if s.truncate:
        return 2.0
    a, b = rules.ends(s)
    logarithms = [abs(log(s.original_max_position / (2 * pi * β))) for β in rules.turns(s)]
    ends = s.width() / (2 * log(s.base)) * (2 + max(logarithms)) + 3 * b
    return 2 + ends / (b - a if a < b else rules.NARROWEST)
