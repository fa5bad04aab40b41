"""How a rotation reaches beyond the length it was trained at: frequencies and magnitude under every `scaling` of rope.

    linear    θ_m / f                       position interpolation: positions divided by f
    ntk       base^(−2m/r) of a larger base:  base · f^(r/(r−2))
    dynamic   the same:                       base · (f·s/M − (f − 1))^(r/(r−2)),   s = max(n, M)
    yarn, llama3                              γ_m θ_m + (1 − γ_m) θ_m / f,   θ_m = base^(−2m/r)

    γ_m       share of θ_m that is left alone: 1 for pairs that turn often within L, 0 for those that hardly turn
      llama3  clip((ρ_m − low)/(high − low)),  ρ_m = L θ_m / 2π  turns of pair m within L
      yarn    ramp="paper": the same with low, high = β_slow, β_fast.
              ramp="code": 1 − clip((m − a)/(b − a)), linear in m, from a = max(⌊pair(β_fast)⌋, 0) to
              b = min(⌈pair(β_slow)⌉, r − 1), where pair(β) = r ln(L/2πβ) / (2 ln base) turns β times within L
    magnitude yarn multiplies cosine and sine, so that q·k gains its square: 0.1 ln f + 1, or the ratio of
              0.1 · mscale · ln f + 1  to  0.1 · mscale_all_dim · ln f + 1, or `attention_factor` as it is

f  `factor`   r  rotary width   n  length of the context   M  `max_position`   L  `original_max_position`   clip  to 0 … 1

Sources: Chen et al., "Extending Context Window of Large Language Models via Positional Interpolation", 2023 (linear);
bloc97, "NTK-Aware Scaled RoPE", a post of 2023 (ntk; dynamic is emozilla's, in the same month); Peng et al., "YaRN:
Efficient Context Window Extension of Large Language Models", 2023, section 3 (numbers not checked), and the authors' code,
jquesnelle/yarn, whose ramp is linear in m where the paper's is linear in turns: frequencies are 0.97 to 3.04 times as large
at r = 128, f = 16, L = 4096; Meta's llama-models (llama3). Fields and rules are those of Hugging Face's modeling_rope_utils.

Worked table, width 4 in base 10000 (θ = 1 and 0.01), trained at 8 tokens, twice as far, in a context of 8 and of 9: the base
grows by (2·9/8 − 1)² = 1.25², so that θ_1 falls by 1.25.

>>> from relpos.spec.rope import RoPE
>>> dynamic = RoPE(4, scaling="dynamic", factor=2.0, max_position=8)
>>> dynamic.frequencies(8), dynamic.frequencies(9)
(array([1.  , 0.01]), array([1.   , 0.008]))
"""

from math import ceil, floor, log, pi
from typing import Any

import numpy as np

from relpos.spec.contract import require

# What each rule needs, and what it takes besides.
NEEDS: dict[str, tuple[str, ...]] = {
    "none": (),
    "linear": ("factor",),
    "ntk": ("factor",),
    "dynamic": ("factor", "max_position"),
    "yarn": ("factor", "original_max_position"),
    "llama3": ("factor", "original_max_position"),
}
TAKES: dict[str, tuple[str, ...]] = {
    "yarn": ("attention_factor", "mscale", "mscale_all_dim", "beta_fast", "beta_slow", "ramp", "truncate"),
    "llama3": ("low_freq_factor", "high_freq_factor"),
}
DEFAULTS = {"ramp": "code", "truncate": True}  # of all others None: left out
POSITIVE = ("attention_factor", "mscale", "mscale_all_dim", "beta_slow", "low_freq_factor")
NARROWEST = 0.001  # a ramp of no width, as the authors' code has it


def check_scaling(s: Any) -> None:
    """Refuse what the rule lacks, what it would ignore, and what it has no meaning for."""
    rule = f'under scaling="{s.scaling}"'
    mine = NEEDS[s.scaling] + TAKES.get(s.scaling, ())
    for name in NEEDS[s.scaling]:
        require(s, name, getattr(s, name) is not None, f"given {rule}")
    for name in sorted({n for names in (*NEEDS.values(), *TAKES.values()) for n in names}.difference(mine)):
        users = ", ".join(repr(rule) for rule in NEEDS if name in NEEDS[rule] + TAKES.get(rule, ()))
        require(s, name, getattr(s, name) == DEFAULTS.get(name), f"left out {rule}", f"It belongs to scaling {users}.")
    for name in ("max_position", "original_max_position"):
        require(s, name, getattr(s, name) is None or getattr(s, name) >= 1, "at least 1")
    require(s, "factor", s.factor is None or s.factor >= 1, "at least 1", "It is how many times farther to reach.")
    for name in POSITIVE:
        require(s, name, getattr(s, name) is None or getattr(s, name) > 0, "a positive number")
    if s.scaling != "none":
        require(s, "base", s.base > 1, f"greater than 1 {rule}")
    if s.scaling in ("ntk", "dynamic"):
        name = "head_dim" if s.rotary_dim is None else "rotary_dim"
        require(s, name, s.width() != 2, f"not 2 {rule}", "The exponent r/(r − 2) has no value there.")
    if s.scaling in ("yarn", "llama3"):
        _check_mixing(s)


def _check_mixing(s: Any) -> None:
    low, high = turns(s)
    name, other = ("beta_fast", "beta_slow") if s.scaling == "yarn" else ("high_freq_factor", "low_freq_factor")
    require(s, name, high > low, f"greater than {other} = {low:g}")
    if s.scaling == "llama3":
        return
    alone = (s.mscale is None) == (s.mscale_all_dim is None)
    require(s, "mscale_all_dim", alone, "given together with mscale or not at all", "The magnitude is their ratio.")
    settled = s.attention_factor is None or s.mscale is None
    require(s, "attention_factor", settled, "left out beside mscale and mscale_all_dim", "It is final, nothing multiplies it.")
    require(s, "truncate", s.truncate or s.ramp == "code", 'left out under ramp="paper"', "That ramp has no ends to round.")
    if s.ramp == "code" and s.width() > 0:
        a, b = ends(s)
        hint = "Some pair must turn beta_slow times within it, and some fewer than beta_fast."
        require(s, "original_max_position", a <= b, "a length whose ramp begins before it ends", hint)


def frequencies(s: Any, n: int | None = None) -> np.ndarray:
    """θ_m in a context of n tokens, shape [r/2]; None: not longer than `max_position`."""
    base, w = s.base, s.exponent_width()
    if s.scaling in ("ntk", "dynamic"):
        base *= enlarged(s, n) ** (w / (w - 2))
    θ = np.array([base ** (-2 * m / w) for m in range(s.width() // 2)])
    if s.scaling == "linear":
        return θ / s.factor
    if s.scaling in ("yarn", "llama3"):
        γ = kept(s, θ)
        return γ * θ + (1 - γ) * θ / s.factor
    return θ


def enlarged(s: Any, n: int | None) -> float:
    """What the base is multiplied by, before the power r/(r − 2): f under ntk, f·s/M − (f − 1) under dynamic."""
    if s.scaling == "ntk":
        return s.factor
    longest = max(s.max_position if n is None else n, s.max_position)
    return s.factor * longest / s.max_position - (s.factor - 1)


def turns(s: Any) -> tuple[float, float]:
    """Turns within L below which nothing of θ is kept, and above which all of it is."""
    if s.scaling == "llama3":
        return (1.0 if s.low_freq_factor is None else s.low_freq_factor), (
            4.0 if s.high_freq_factor is None else s.high_freq_factor
        )
    return (1.0 if s.beta_slow is None else s.beta_slow), (32.0 if s.beta_fast is None else s.beta_fast)


def kept(s: Any, θ: np.ndarray) -> np.ndarray:
    """γ_m, the share of every θ_m that is left alone, shape [r/2]."""
    if s.scaling == "yarn" and s.ramp == "code":
        a, b = ends(s)
        return 1 - np.clip([(m - a) / (b - a if a < b else NARROWEST) for m in range(len(θ))], 0, 1)
    low, high = turns(s)
    ρ = s.original_max_position * θ / (2 * pi)
    return np.clip((ρ - low) / (high - low), 0, 1)


def ends(s: Any) -> tuple[float, float]:
    """Where the ramp of YaRN's code begins and ends, as indices of pairs; whole numbers unless `truncate` is off."""
    r, L = s.width(), s.original_max_position
    slow, fast = turns(s)
    a, b = (r * log(L / (2 * pi * β)) / (2 * log(s.base)) for β in (fast, slow))
    return (max(floor(a), 0), min(ceil(b), r - 1)) if s.truncate else (max(a, 0), min(b, r - 1))


def magnitude(s: Any) -> float:
    """What cosine and sine are multiplied by."""
    if s.scaling != "yarn":
        return 1.0
    if s.attention_factor is not None:
        return s.attention_factor
    if s.mscale is not None:
        return (0.1 * s.mscale * log(s.factor) + 1) / (0.1 * s.mscale_all_dim * log(s.factor) + 1)
    return 0.1 * log(s.factor) + 1
