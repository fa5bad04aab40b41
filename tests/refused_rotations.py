"""What rope's scaling and xpos refuse, and in which words; `test_spec_settings.py` tries each."""

from typing import Any

from relpos.spec.rope import RoPE
from relpos.spec.xpos import XPos

RULES = "'none', 'linear', 'ntk', 'dynamic', 'yarn', 'llama3'"
EXPLAINED = "The module's docstring explains each."
YARN: dict[str, Any] = {"head_dim": 8, "scaling": "yarn", "factor": 4.0, "original_max_position": 512}
LLAMA3 = {**YARN, "scaling": "llama3"}
ALL = "'linear', 'ntk', 'dynamic', 'yarn', 'llama3'"


def ignored(name: str, value: Any, rule: str, users: str) -> tuple[type, dict, str]:
    """A setting that the rule would not look at."""
    needs = {"none": {}, "linear": {"factor": 2.0}, "yarn": YARN, "llama3": LLAMA3}
    needs["dynamic"] = {"factor": 2.0, "max_position": 4}
    given = {**needs[rule], "head_dim": 8, "scaling": rule, name: value}
    return RoPE, given, f'rope: `{name}` must be left out under scaling="{rule}", got {value!r}. It belongs to scaling {users}.'


REFUSED_ROTATIONS = [
    (RoPE, {"head_dim": 8, "scaling": "ntk-aware"}, f"rope: `scaling` must be one of {RULES}, got 'ntk-aware'. {EXPLAINED}"),
    (RoPE, {"head_dim": 8, "scaling": "linear"}, 'rope: `factor` must be given under scaling="linear", got None.'),
    (RoPE, {"head_dim": 8, "scaling": "dynamic", "factor": 2.0},
        'rope: `max_position` must be given under scaling="dynamic", got None.'),
    (RoPE, {"head_dim": 8, "scaling": "llama3", "factor": 8.0},
        'rope: `original_max_position` must be given under scaling="llama3", got None.'),
    (RoPE, {**YARN, "factor": 0.5}, "rope: `factor` must be at least 1, got 0.5. It is how many times farther to reach."),
    (RoPE, {**YARN, "factor": "4"}, "rope: `factor` must be a finite number, got '4'."),
    (RoPE, {**YARN, "original_max_position": 0}, "rope: `original_max_position` must be at least 1, got 0."),
    (RoPE, {"head_dim": 8, "scaling": "dynamic", "factor": 2.0, "max_position": 0},
        "rope: `max_position` must be at least 1, got 0."),
    (RoPE, {**YARN, "attention_factor": 0.0}, "rope: `attention_factor` must be a positive number, got 0.0."),
    (RoPE, {**YARN, "base": 1.0}, 'rope: `base` must be greater than 1 under scaling="yarn", got 1.0.'),
    (RoPE, {"head_dim": 2, "scaling": "ntk", "factor": 2.0},
        'rope: `head_dim` must be not 2 under scaling="ntk", got 2. The exponent r/(r − 2) has no value there.'),
    (RoPE, {"head_dim": 8, "rotary_dim": 2, "scaling": "ntk", "factor": 2.0},
        'rope: `rotary_dim` must be not 2 under scaling="ntk", got 2. The exponent r/(r − 2) has no value there.'),
    (RoPE, {**YARN, "mscale": 1.0},
        "rope: `mscale_all_dim` must be given together with mscale or not at all, got None. The magnitude is their ratio."),
    (RoPE, {**YARN, "mscale": 1.0, "mscale_all_dim": 1.0, "attention_factor": 2.0},
        "rope: `attention_factor` must be left out beside mscale and mscale_all_dim, got 2.0. "
        "It is final, nothing multiplies it."),
    (RoPE, {**YARN, "ramp": "paper", "truncate": False},
        'rope: `truncate` must be left out under ramp="paper", got False. That ramp has no ends to round.'),
    (RoPE, {**YARN, "ramp": "linear"}, f"rope: `ramp` must be one of 'code', 'paper', got 'linear'. {EXPLAINED}"),
    (RoPE, {**YARN, "beta_fast": 1.0}, "rope: `beta_fast` must be greater than beta_slow = 1, got 1.0."),
    (RoPE, {**YARN, "beta_slow": -1.0}, "rope: `beta_slow` must be a positive number, got -1.0."),
    (RoPE, {**YARN, "head_dim": 64, "original_max_position": 1},
        "rope: `original_max_position` must be a length whose ramp begins before it ends, got 1. "
        "Some pair must turn beta_slow times within it, and some fewer than beta_fast."),
    (RoPE, {**LLAMA3, "high_freq_factor": 0.5}, "rope: `high_freq_factor` must be greater than low_freq_factor = 1, got 0.5."),
    (RoPE, {**LLAMA3, "low_freq_factor": 0.0}, "rope: `low_freq_factor` must be a positive number, got 0.0."),
    (RoPE, {"head_dim": 8, "partial": "first"},
        f"rope: `partial` must be one of 'leading', 'proportional', got 'first'. {EXPLAINED}"),
    (RoPE, {"head_dim": 7, "rotary_dim": 4, "partial": "proportional"},
        'rope: `head_dim` must be even under partial="proportional", got 7.'),
    (RoPE, {**YARN, "rotary_dim": 4, "partial": "proportional"},
        "rope: `scaling` must be 'none' or 'linear' under partial=\"proportional\", got 'yarn'. "
        "No release says what the others are."),
    ignored("factor", 2.0, "none", ALL),
    ignored("max_position", 2048, "yarn", "'dynamic'"),
    ignored("original_max_position", 2048, "dynamic", "'yarn', 'llama3'"),
    ignored("attention_factor", 1.0, "linear", "'yarn'"),
    ignored("mscale", 1.0, "llama3", "'yarn'"),
    ignored("mscale_all_dim", 1.0, "linear", "'yarn'"),
    ignored("beta_fast", 32.0, "linear", "'yarn'"),
    ignored("beta_slow", 1.0, "none", "'yarn'"),
    ignored("ramp", "paper", "llama3", "'yarn'"),
    ignored("truncate", False, "none", "'yarn'"),
    ignored("low_freq_factor", 1.0, "yarn", "'llama3'"),
    ignored("high_freq_factor", 4.0, "dynamic", "'llama3'"),
    (XPos, {"head_dim": 0}, "xpos: `head_dim` must be at least 1, got 0."),
    (XPos, {"head_dim": 5}, "xpos: `head_dim` must be even, got 5. Or turn fewer columns with an even `rotary_dim`."),
    (XPos, {"head_dim": 8, "rotary_dim": 3}, "xpos: `rotary_dim` must be even and from 0 to head_dim = 8, got 3."),
    (XPos, {"head_dim": 8, "base": 0.0}, "xpos: `base` must be a positive number, got 0.0. Every release uses 10000."),
    (XPos, {"head_dim": 8, "scale_base": 0},
        "xpos: `scale_base` must be a positive number, got 0. For no decay use the scheme rope."),
    (XPos, {"head_dim": 8, "centre": "zero"}, f"xpos: `centre` must be one of 'ceil', 'floor', got 'zero'. {EXPLAINED}"),
]  # fmt: skip
