"""How the goldens of music_transformer and transformer_xl are explained, and what a skew or shift leaves above the diagonal.

What is left there is no definition. It is written down by index (`left`), so that arrays of whole matrices can be matched:
cells that the definition speaks of come from the definition, the others from that formula.
"""

from typing import Any

import numpy as np

from golden_files import Golden, Match
from relpos.conformance.magnitude import logits_size
from relpos.spec.attention import allowed, attention, default_scale, logits, softmax
from relpos.spec.music_transformer import MusicTransformer
from relpos.spec.positions import Explicit, Range
from relpos.spec.transformer_xl import TransformerXL

FAMILIES = {"music_transformer_": "music_transformer", "transformer_xl_": "transformer_xl", "xlnet_": "transformer_xl"}
TABLES = {"rel_k", "rel_v", "r_emb", "r_bias", "pos_bias_u", "pos_bias_v"}
WEIGHTS = {"r_w_bias", "r_r_bias", "W_r", "W_pos", "W_qkv", "W_o", "w", "mems"}
INPUTS = {"q", "k", "v", "x_masked", "x_unmasked"} | TABLES | WEIGHTS
SHORT = -1  # clamp_len of the authors' code: none
EPS_LAYER_NORM = 1e-5  # torch.nn.LayerNorm's own


def explain(golden: Golden) -> dict[str, Match]:
    if golden.family == "music_transformer_skew":
        return _skews(golden)
    if golden.family == "music_transformer_jason9693":
        return _masked_before(golden)
    if golden.family.startswith("music_transformer"):
        return _music(golden)
    matches = _whole(golden, *_xl(golden)) if "r_emb" in golden.arrays else _waves(golden, *_xl(golden))
    return {name: match for name, match in matches.items() if name in golden.arrays}


def left(x: np.ndarray, out: np.ndarray, valid: np.ndarray) -> np.ndarray:
    """`out` where valid; elsewhere what padding x [..., n, m] by a column, reshaping and slicing leaves: 0, then row i + 1."""
    n, m = x.shape[-2:]
    found = np.where(valid, out, 0.0)
    for i, j in np.argwhere(~valid):
        if j > i + m - n + 1:
            found[..., i, j] = x[..., i + 1, j - i - (m - n) - 2]
    return found


# ---- Music Transformer


def _music(golden: Golden) -> dict[str, Match]:
    p, q, k, v = golden.params, golden["q"], golden["k"], golden["v"]
    variant = golden.family.removeprefix("music_transformer_")
    s = MusicTransformer(
        p["H"],
        p["d"],
        4 * p["block_length"] if variant == "local" else p["max_relative_position"],
        variant=variant,
        per_head=not p["heads_share_relative_embedding"],
        block_length=p["block_length"] if variant == "local" else None,
        value_term="every" if p["add_relative_to_values"] else "none",
        value_dim=v.shape[-1],
    )
    params, L = {name: golden[name] for name in s.parameters()}, Range(0, q.shape[2])
    matches = _whole(golden, s, params, L, L, causal=variant != "unmasked")
    if variant == "local":  # cells that no query sees hold the content alone
        hidden = np.isinf(matches["logits"].got)
        content = default_scale(s, p["d"]) * q @ k.swapaxes(-1, -2)
        matches["logits"].got[hidden] = content[hidden]
    else:
        matches |= _products(golden, s, params)
    return {name: match for name, match in matches.items() if name in golden.arrays}


def _products(golden: Golden, s: MusicTransformer, params: dict) -> dict[str, Match]:
    """The vectors of all distances in order, their products with q, and these after the skew."""
    q, n = golden["q"], golden["q"].shape[2]
    far = range(1 - n, n if s.variant == "unmasked" else 1)
    rows = s.rows(Range(0, 1), Explicit(np.array(far)))[0]
    used = np.where((rows >= 0)[:, None], params["rel_k"][..., rows, :], 0.0)
    scale, size = default_scale(s, s.head_dim), _size(s, params, q, golden["k"], Range(0, n), Range(0, n))
    here, nothing = Explicit(np.zeros(n, dtype=int)), np.zeros((s.num_heads, len(far), s.head_dim))
    raw = np.stack([s.logits(params, x, nothing, here, Explicit(np.array(far)), scale=scale) for x in q])
    defined = np.stack([s.logits(params, x, nothing, Range(0, n), Range(0, n), scale=scale) for x in q])
    valid = np.ones((n, n), dtype=bool) if s.variant == "unmasked" else np.tri(n, dtype=bool)
    return {
        "rel_k_used": Match(s, used),
        "qe_raw": Match(s, raw, magnitude=size),
        "srel_skewed_full": Match(f"{s} and what skew leaves", left(raw, defined, valid), magnitude=size),
    }


def _skews(golden: Golden) -> dict[str, Match]:
    """Numbers in place of products: x[i, r] is at the pair whose row is r, and a weight goes to the row of its pair."""
    L, found = golden.params["L"], {}
    for variant in ("masked", "unmasked"):
        s, x = MusicTransformer(1, 1, L, variant=variant), golden[f"x_{variant}"]
        rows, width = s.rows(Range(0, L), Range(0, L)), x.shape[-1]
        pairs = np.stack([[x[0, 0, i, rows[i, j]] for j in range(L)] for i in range(L)])[None, None]
        weights = golden["x_masked"]
        by_row = np.zeros((1, 1, L, width))
        for i, j in np.argwhere(rows >= 0):
            by_row[..., i, rows[i, j]] = weights[..., i, j]
        pairs = left(x, pairs, rows >= 0) if variant == "masked" else pairs
        found[f"rel2abs_{variant}"] = Match(f"{s} and what skew leaves", pairs)
        found[f"abs2rel_{variant}"] = Match(s, by_row)
    return found


def _masked_before(golden: Golden) -> dict[str, Match]:
    """Products of distances that lie after the query are erased before the skew: the term is 0 there, as defined here."""
    q, n = golden["q"], golden["q"].shape[2]
    s, params = MusicTransformer(golden.params["H"], q.shape[-1], golden.params["max_seq"], per_head=False), {}
    params["rel_k"] = golden["rel_k"]
    nothing, here = np.zeros_like(q[0]), Explicit(np.full(n, n - 1))
    qe = np.stack([s.logits(params, x, nothing, here, Range(0, n), scale=1.0) for x in q])
    srel = np.stack([s.logits(params, x, nothing, Range(0, n), Range(0, n), scale=1.0) for x in q])
    size = _size(s, params, q, q, Range(0, n), Range(0, n)) * np.sqrt(q.shape[-1])
    kept = np.tri(n, dtype=bool)[:, ::-1]
    matches = {"qe": qe, "qe_masked": np.where(kept, qe, 0.0), "srel": srel}
    return {name: Match(s, array, magnitude=size) for name, array in matches.items()}


# ---- Transformer-XL, XLNet


def _xl(golden: Golden) -> tuple[TransformerXL, dict, Range, Range, bool]:
    p, q, k = golden.params, golden["q"], golden["k"]
    H, D = q.shape[1], q.shape[3]
    clamp = None if p.get("clamp_len", SHORT) == SHORT else p["clamp_len"]
    u = golden["r_w_bias"] if "r_w_bias" in golden.arrays else golden["pos_bias_u"]
    if golden.family == "transformer_xl_learnable":
        s = TransformerXL(H, D, variant="learned", max_distance=p["table_rows"])
        params = {"pos_bias_u": u, "r_emb": golden["r_emb"], "r_bias": golden["r_bias"]}
    elif golden.family == "transformer_xl_bidirectional_fairseq":
        s = TransformerXL(H, D, variant="bidirectional")
        params = {"pos_bias_u": u, "pos_bias_v": golden["pos_bias_v"], "w_pos": golden["W_pos"]}
    elif golden.family == "xlnet":
        s = TransformerXL(H, D, variant="xlnet", d_model=p["d_model"], clamp_len=clamp)
        w_pos = golden["W_r"].reshape(p["d_model"], -1).T
        without = {"seg_embed": np.zeros((2, H, D)), "seg_bias": np.zeros((H, D))}  # run without segments
        params = {"pos_bias_u": u, "pos_bias_v": golden["r_r_bias"], "w_pos": w_pos, **without}
    else:
        s = TransformerXL(H, D, d_model=p["d_model"], clamp_len=clamp)
        params = {"pos_bias_u": u, "pos_bias_v": golden["r_r_bias"], "w_pos": golden["W_r"]}
    causal = p.get("causal", "attn_type" not in p and s.variant != "bidirectional") or p.get("attn_type") == "uni"
    return s, params, Range(k.shape[2] - q.shape[2], q.shape[2]), Range(0, k.shape[2]), causal


def _waves(golden: Golden, s: TransformerXL, params: dict, queries: Range, keys: Range, causal: bool) -> dict[str, Match]:
    q, n, m = golden["q"], len(queries), len(keys)
    stored = "R" if "R" in golden.arrays else "R_pos_emb"
    first = m if s.variant == "xlnet" else m - 1
    far = [first - c for c in range(len(golden[stored]))]  # query minus key, falling
    R = np.array([s.encoding(s.distance(δ, 0)) for δ in far])
    projected = (R @ params["w_pos"].T).reshape(len(far), s.num_heads, s.head_dim)
    size = _size(s, params, q, golden["k"], queries, keys)
    raw, defined = (_asked(s, params, q, *at) for at in ((np.zeros(n, dtype=int), -np.array(far)), (queries, keys)))
    valid = np.array([[j <= i or s.variant == "bidirectional" or len(far) == n + m for j in keys] for i in queries])
    shifted = _wrapped(raw, defined, valid) if s.variant == "xlnet" else left(raw, defined, valid)
    beside = 0.0 if s.variant == "xlnet" else default_scale(s, s.head_dim) * (shifted - defined)  # its logits are the formula's
    matches = _whole(golden, s, params, queries, keys, causal, beside)
    of_terms, turns = size * np.sqrt(s.head_dim), float(first + n)
    for name, got, magnitude in (
        (stored, R, turns),
        ("r_head_k", projected, turns * np.abs(params["w_pos"]).sum(-1).max()),
        ("k_head_r", projected, turns * np.abs(params["w_pos"]).sum(-1).max()),
        ("bd_raw", raw, of_terms),
        ("bd_shifted", shifted, of_terms),
    ):
        matches[name] = Match(f"{s} and what the shift leaves", got, magnitude=magnitude)
    matches["rel_term_valid"] = Match(s, valid)
    return matches | ({"layer_out": _layer(golden, matches["out"])} if "layer_out" in golden.arrays else {})


def _asked(s: TransformerXL, params: dict, q: np.ndarray, queries: Any, keys: Any) -> np.ndarray:
    """(q + v) · W R alone, unscaled."""
    at = [p if isinstance(p, Range) else Explicit(p) for p in (queries, keys)]
    alone = {**params, "pos_bias_u": np.zeros_like(params["pos_bias_u"])}
    return np.stack([s.logits(alone, x, np.zeros((len(x), len(at[1]), x.shape[-1])), *at, scale=1.0) for x in q])


def _wrapped(x: np.ndarray, out: np.ndarray, valid: np.ndarray) -> np.ndarray:
    """`out` where valid; elsewhere what dropping a row and cutting columns leaves (XLNet has no column of zeros)."""
    n, width = x.shape[-2:]
    found = np.where(valid, out, 0.0)
    for i, j in np.argwhere(~valid):
        found[..., i, j] = x[..., i + 1, n - i + j - width]
    return found


def _layer(golden: Golden, out: Match) -> Match:
    """The whole layer: the output projected, added to the input, normalised."""
    w, heads = golden["w"], np.moveaxis(out.got, 2, 0)  # [length, batch, heads, depth]
    x = w + heads.reshape(*heads.shape[:2], -1) @ golden["W_o"].T
    centred = x - x.mean(-1, keepdims=True)
    spread = np.sqrt((centred**2).mean(-1, keepdims=True) + EPS_LAYER_NORM)
    terms = np.abs(w).max() + out.magnitude * np.abs(golden["W_o"]).sum(-1).max()
    return Match(out.settings, centred / spread, magnitude=2 * terms / spread.min() * np.abs(centred / spread).max())


# ---- both


def _whole(golden: Golden, s: Any, params: dict, queries: Range, keys: Range, causal: bool, beside: Any = 0.0) -> dict:
    """Scores, weights, output; `beside` is what the other code adds to the score where nothing is defined."""
    q, k, v = golden["q"], golden["k"], golden["v"]
    score = logits(s, params, q, k, queries, keys)
    visible = allowed(score.shape, queries, keys, causal=causal)
    weights = softmax(score + beside, visible)
    out = attention(s, params, q, k, v, queries, keys, causal=causal)
    if not causal and np.any(beside):
        out = weights @ v
    size = _size(s, params, q, k, queries, keys)
    values = max(np.abs(x).max() for x in (v, params.get("rel_v", v)))
    shown = "-inf" if causal and np.isneginf(golden["logits"]).any() else "all"
    told = np.where(visible, score, -np.inf) if shown == "-inf" else score + beside
    return {
        "logits": Match(s, told, magnitude=size),
        "weights": Match(s, weights, magnitude=1 + size),
        "out": Match(s, out, magnitude=(1 + size) * 2 * values),
        "mask_visible": Match(f"causal={causal}", (visible & np.isfinite(score))[0, 0]),
    }


def _size(s: Any, params: dict, q: np.ndarray, k: np.ndarray, queries: Range, keys: Range) -> float:
    """Sum of the magnitudes of all terms of a logit, at most, angles included."""
    size = logits_size(s, params, q, k, queries, keys, default_scale(s, q.shape[-1]))
    return float((size.M + size.P).max())
