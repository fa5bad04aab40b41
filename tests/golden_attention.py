"""How the goldens of none and shaw are explained: logits, weights and outputs of whole attention."""

from math import sqrt

import numpy as np

from golden_files import Golden, Match
from relpos.spec.attention import allowed, attention, logits, softmax
from relpos.spec.none import NoPE
from relpos.spec.positions import Range
from relpos.spec.shaw import Shaw

FAMILIES = {"nope__": "none", "shaw": "shaw"}
INPUTS = {"q", "k", "v", "rel_k", "rel_v", "rel_kv", "distance_embedding"}


def explain(golden: Golden) -> dict[str, Match]:
    settings, params = _settings(golden)
    q, k, v = golden["q"], golden["k"], golden["v"]
    where = Range(k.shape[2] - q.shape[2], q.shape[2]), Range(0, k.shape[2])
    causal = golden.params.get("causal", False)
    score = logits(settings, params, q, k, *where)
    visible = allowed(score.shape, *where, causal=causal)
    reach = _largest_logit(q, k, params)
    values = max(np.abs(x).max() for x in (v, *params.values()))
    matches = {
        "logits": Match(settings, score, magnitude=reach),
        "weights": Match(settings, softmax(score, visible), magnitude=1 + reach),
        "out": Match(settings, attention(settings, params, q, k, v, *where, causal=causal), magnitude=(1 + reach) * 2 * values),
        "mask_visible": Match(f"causal={causal}", visible[0, 0]),
    }
    if isinstance(settings, Shaw):
        matches["rel_index"] = Match(settings, settings.rows(*where))
    return {name: match for name, match in matches.items() if name in golden.arrays}


def _settings(golden: Golden) -> tuple[NoPE | Shaw, dict[str, np.ndarray]]:
    p = golden.params
    if golden.family == "nope":
        return NoPE(), {}
    if golden.family == "shaw2018":
        return Shaw(p["d"], p["max_relative_position"]), {"rel_k": golden["rel_k"], "rel_v": golden["rel_v"]}
    if golden.family == "shaw_opennmt_tied_kv":
        return Shaw(p["d"], p["max_relative_positions"], tables="tied"), {"rel_k": golden["rel_kv"]}
    tables = golden.family.removeprefix("shaw_hf_")
    return Shaw(p["d"], p["max_position_embeddings"] - 1, tables=tables), {"rel_k": golden["distance_embedding"]}


def _largest_logit(q: np.ndarray, k: np.ndarray, params: dict[str, np.ndarray]) -> float:
    """Σ of the magnitudes of all terms, at most: content, q·a and (relative_key_query) k·a."""
    longest = {name: np.linalg.norm(x, axis=-1).max() for name, x in {"q": q, "k": k, **params}.items()}
    table = longest.get("rel_k", 0.0)
    return float((longest["q"] * (longest["k"] + table) + longest["k"] * table) / sqrt(q.shape[-1]))
