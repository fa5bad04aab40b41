"""How the goldens of deberta are explained: terms, complete scores and outputs of the authors' classes, and their buckets."""

from dataclasses import replace

import numpy as np

from golden_files import Golden, Match
from relpos.spec.attention import allowed, attention, default_scale, logits, softmax
from relpos.spec.deberta import DeBERTa
from relpos.spec.none import NoPE
from relpos.spec.positions import Range

FAMILIES = {"deberta_": "deberta"}
INPUTS = {"q", "k", "v", "pos_key", "pos_query", "rel_emb", "relative_position"}


def explain(golden: Golden) -> dict[str, Match]:
    return _buckets(golden) if golden.family == "deberta_log_bucket" else _attention(golden)


def settings_of(golden: Golden) -> DeBERTa:
    """The settings of the authors' class that the golden was run with; their buckets are those of the repository now."""
    p = golden.params
    buckets, terms = p.get("position_buckets", -1), p["pos_att_type"]
    named = {
        "terms": "both" if len(terms) == 2 else terms[0],
        **({"version": "v2", "num_buckets": buckets, "clamp": True} if buckets > 0 else {}),
    }
    return DeBERTa(golden["q"].shape[1], p["d"], p["max_relative_positions"], **named)


def _buckets(golden: Golden) -> dict[str, Match]:
    p = golden.params
    settings = DeBERTa(1, 1, p["max_position"], version="v2", num_buckets=p["position_buckets"])
    found = np.array([settings.bucket(int(r)) for r in golden["relative_position"]])
    return {f"bucket_{code}": Match(settings, found) for code in ("numpy64", "torch64", "torch32")}


def _attention(golden: Golden) -> dict[str, Match]:
    settings, q, k, v = settings_of(golden), golden["q"], golden["k"], golden["v"]
    params = {name: golden[name] for name in settings.parameters()}
    at = Range(0, q.shape[2]), Range(0, k.shape[2])  # query 0 and key 0 aligned, whatever the lengths
    scale, reach = settings.scale(q.shape[-1]), _largest_logit(golden)
    score = logits(settings, params, q, k, *at)
    visible = _visible(golden, score.shape)
    matches = {
        "scale": Match("the divisor", np.array(1.0 / default_scale(settings, q.shape[-1])), magnitude=1.0),
        "rel_index": Match(settings, _distances(settings, *at)),
        "mask_visible": Match("the last keys and queries are padding", visible[:, 0]),
        "logits_c2c": Match("scale · q · k", logits(NoPE(), {}, q, k, *at, scale=scale), magnitude=reach),
        "logits_c2p": Match("c2p", _term(settings, golden, "c2p", scale), magnitude=reach),
        "logits_p2c": Match("p2c", _term(settings, golden, "p2c", scale), magnitude=reach),
        "logits": Match(settings, score, magnitude=reach),
        "weights": Match(settings, softmax(score, visible), magnitude=1 + reach),
        "out": Match(
            settings, attention(settings, params, q, k, v, *at, mask=visible), magnitude=(1 + reach) * 2 * np.abs(v).max()
        ),
    }
    return {name: match for name, match in matches.items() if name in golden.arrays}


def _distances(settings: DeBERTa, queries: Range, keys: Range) -> np.ndarray:
    """What is looked up, before the tables' middle is added: i − j, or its bucket."""
    bucket = settings.bucket if settings.version == "v2" else int
    return np.array([[bucket(i - j) for j in keys] for i in queries])


def _term(settings: DeBERTa, golden: Golden, terms: str, scale: float) -> np.ndarray:
    """One position term alone, under the scale of both."""
    q, k = golden["q"], golden["k"]
    if settings.terms not in (terms, "both"):
        return np.zeros((*q.shape[:3], k.shape[2]))
    alone = replace(settings, terms=terms)
    at = Range(0, q.shape[2]), Range(0, k.shape[2])
    params = {name: golden[name] for name in alone.parameters()}
    return np.stack([alone.logits(params, q[b], k[b], *at, scale=scale) for b in range(len(q))])


def _visible(golden: Golden, shape: tuple[int, ...]) -> np.ndarray:
    """Padding at the end of the last sample sees nothing and is not seen."""
    keep = np.ones(shape, dtype=bool)
    if golden.params.get("pad", 0):
        real = shape[2] - golden.params["pad"]
        keep[-1, :, real:] = keep[-1, :, :, real:] = False
    where = Range(0, shape[2]), Range(0, shape[3])
    return allowed(shape, *where, mask=keep)


def _largest_logit(golden: Golden) -> float:
    """Σ of the magnitudes of the three terms, at most."""
    longest = {name: np.linalg.norm(golden[name], axis=-1).max() for name in ("q", "k", "pos_key", "pos_query")}
    content = longest["q"] * (longest["k"] + longest["pos_key"])
    return float((content + longest["k"] * longest["pos_query"]) / np.sqrt(golden["q"].shape[-1]))
