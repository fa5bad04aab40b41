"""How the goldens of scaled rotations and of xpos are explained by named settings of the spec."""

from math import log, sqrt
from typing import Any

import numpy as np

from golden_files import Golden, Match
from relpos.spec.attention import logits
from relpos.spec.positions import Range
from relpos.spec.rope import RoPE
from relpos.spec.xpos import XPos

FAMILIES = {"rope_scaling_": "rope", "xpos_": "xpos"}
INPUTS = {"q", "k"}
# Hugging Face's names of ours; `max_position_embeddings` is the length a model is served at, except under "dynamic".
RULES = {"default": "none"}
NAMES = {"original_max_position_embeddings": "original_max_position"}
TOLD = (
    "factor",
    "attention_factor",
    "mscale",
    "mscale_all_dim",
    "beta_fast",
    "beta_slow",
    "low_freq_factor",
    "high_freq_factor",
)


def explain(golden: Golden) -> dict[str, Match]:
    if golden.family == "xpos":
        return _stretched(golden)
    return _turned(golden) if golden.family == "rope_scaling_applied" else _frequencies(golden)


def scaled(golden: Golden) -> RoPE:
    """The settings that a golden's parameters stand for."""
    p = golden.params
    given: dict[str, Any] = {"base": p.get("base", 10000.0), "layout": "half"}
    if golden.family == "rope_scaling_ntk_static":
        return RoPE(p["head_dim"], scaling="ntk", factor=p["alpha"], **given)
    if golden.family == "rope_scaling_yarn_paper_formula":
        p = {**p, "rope_scaling": {**p, "rope_type": "yarn"}}
        given["ramp"] = "paper"
    said = p["rope_scaling"] or {"rope_type": "default"}
    given |= {NAMES.get(name, name): value for name, value in said.items() if name in (*NAMES, *TOLD)}
    given |= {name: float(given[name]) for name in TOLD if name in given}
    if said["rope_type"] == "dynamic":
        given["max_position"] = p["max_position_embeddings"]
    if "truncate" in said:
        given["truncate"] = said["truncate"]
    return RoPE(p["head_dim"], scaling=RULES.get(said["rope_type"], said["rope_type"]), **given)


def _frequencies(golden: Golden) -> dict[str, Match]:
    settings = scaled(golden)
    θ = settings.frequencies(golden.params.get("seq_len"))
    turned = settings.rotate(np.eye(settings.head_dim)[:1], Range(1, 1), "query")
    matches = {name: Match(settings, θ, _precision(name, settings)) for name in golden.arrays if name.startswith("inv_freq")}
    matches["attention_scaling"] = Match(settings, np.linalg.norm(turned), magnitude=1.0)
    return {name: match for name, match in matches.items() if name in golden.arrays}


def _precision(name: str, settings: RoPE) -> str:
    if name != "inv_freq_f32":
        return "float64"
    return "float32 mixture" if settings.scaling in ("yarn", "llama3") else "float32 power"


def _turned(golden: Golden) -> dict[str, Match]:
    settings = scaled(golden)
    q, k, (first, last) = golden["q"], golden["k"], golden.params["positions"]
    positions = Range(first, last + 1 - first)
    longest = {name: float(np.linalg.norm(x, axis=-1).max()) for name, x in (("q", q), ("k", k))}
    return {
        "position": Match(settings, positions.array()),
        "inv_freq": Match(settings, settings.frequencies()),
        "attention_scaling": Match(settings, settings.gains(positions, "query").max()),
        "q_rot": Match(settings, settings.rotate(q, positions, "query"), magnitude=last * longest["q"]),
        "k_rot": Match(settings, settings.rotate(k, positions, "key"), magnitude=last * longest["k"]),
        "logits": Match(settings, logits(settings, {}, q, k, positions, positions), magnitude=_logit(last, longest, settings)),
    }


def _stretched(golden: Golden) -> dict[str, Match]:
    p, q, k = golden.params, golden["q"], golden["k"]
    settings = XPos(p["d"], scale_base=float(p["scale_base"]))
    n = p["Lk"]
    queries, keys = Range(p["offset"], p["Lq"], n), Range(0, n, n)
    longest = {name: float(np.linalg.norm(x, axis=-1).max()) for name, x in (("q", q), ("k", k))}
    # No power of these goldens is larger than 0.4/1.4 to the power −n/S, below e.
    assert n / settings.scale_base * log(1.4 / 0.4) < 1
    return {
        "zeta": Match(settings, settings.decays()),
        "inv_freq": Match(settings, settings.frequencies()),
        "q_rot": Match(settings, settings.rotate(q, queries, "query"), magnitude=n * longest["q"]),
        "k_rot": Match(settings, settings.rotate(k, keys, "key"), magnitude=n * longest["k"]),
        "logits": Match(settings, logits(settings, {}, q, k, queries, keys), magnitude=_logit(n, longest, settings)),
    }


def _logit(turns: float, longest: dict[str, float], settings: RoPE | XPos) -> float:
    """Σ|q||k|/√D, times the largest angle, which the roundings of an angle grow with."""
    return turns * longest["q"] * longest["k"] / sqrt(settings.head_dim)
