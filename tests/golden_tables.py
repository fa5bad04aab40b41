"""How the goldens of t5 and clipped are explained: buckets and rows exactly, biases, and two whole layers."""

import re

import numpy as np

from golden_files import Golden, Match, load
from relpos.spec.attention import allowed, attention, logits, softmax
from relpos.spec.clipped import Clipped
from relpos.spec.contract import SettingsError
from relpos.spec.positions import Range
from relpos.spec.shaw import Shaw
from relpos.spec.t5 import T5

ENCODER, ARTICLE = "t5__attention_encoder_padding.npz", "clipped_table__article1_per_head.npz"
VARIANTS, DEGENERATE = "clipped_table__variants_with_offset_own_reference.npz", "t5__degenerate.json"
SCAN, NUMPY = "t5__float_boundary_scan.json", "t5__t5x_numpy1_vs_numpy2.json"
BIASES = ("t5__compute_bias_decoder_causal.npz", "t5__compute_bias_encoder_bidirectional.npz")


def _named(file: str, start: str) -> set[str]:
    return {name for name in load(file).arrays if name.startswith(start)}


def _settings_of(name: str) -> dict:
    """ "… nb32_md128_bi" in words of the scheme."""
    n, most, way = re.search(r"nb(\d+)_md(\d+)_(bi|causal)", name).groups()
    return {"num_buckets": int(n), "max_distance": int(most), "bidirectional": way == "bi"}


def _refusals() -> dict[tuple[str, str], str]:
    """What public code makes of settings that mean nothing: garbage, negative buckets, a division by zero."""
    found = {}
    for name in sorted(_named(DEGENERATE, "hf") | _named(DEGENERATE, "t5x")):
        try:
            T5(1, **_settings_of(name))
        except SettingsError as refusal:
            found[DEGENERATE, name] = str(refusal)
    return found


NOT_EXPRESSIBLE = _refusals()
FAMILIES = {"t5__": "t5", "clipped_table__": "clipped"}
INPUTS = {
    "t5__buckets.npz": {"relative_position"},
    **{name: {"table_buckets_by_heads"} for name in BIASES},
    ENCODER: {"x", "key_padding_mask", "relative_attention_bias_weight", *(f"{n}_weight" for n in "qkvo")},
    DEGENERATE: _named(DEGENERATE, "relative_position"),
    SCAN: {name for name in load(SCAN).arrays if name.endswith(" settings")},
    NUMPY: {"differ settings"},
    ARTICLE: _named(ARTICLE, "table_") | {
        "mha_x", "mha_mask_B1LL", "mha_relative_position_bias_relative_position_bias_table",
        *(f"mha_{part}_proj_{kind}" for part in ("qkv", "out") for kind in ("weight", "bias")),
    },
    VARIANTS: {name for name in load(VARIANTS).arrays if name.split("_")[0] in ("table", "vtable", "q")},
}  # fmt: skip


def explain(golden: Golden) -> dict[str, Match]:
    if golden.name in BIASES:
        return _biases(golden)
    return {
        "t5__buckets.npz": _buckets, ENCODER: _encoder, DEGENERATE: _degenerate, SCAN: _at_edges, NUMPY: _at_edges,
        ARTICLE: _article, VARIANTS: _variants,
    }[golden.name](golden)  # fmt: skip


# ---- t5


def _row_by_row(settings: T5, relative_position: np.ndarray) -> np.ndarray:
    return np.array([settings.bucket(int(r)) for r in relative_position])


def _buckets(golden: Golden) -> dict[str, Match]:
    """Ours in whole numbers and Hugging Face's by a float32 logarithm are the same at all these settings."""
    matches = {}
    for name in golden.arrays:
        if name.startswith(("exact_", "hf_")):
            settings = T5(1, **_settings_of(name))
            matches[name] = Match(settings, _row_by_row(settings, golden["relative_position"]))
    return matches


def _degenerate(golden: Golden) -> dict[str, Match]:
    matches = {}
    for name in golden.arrays:
        key, _, where = name.partition(" ")
        if key in ("hf", "t5x") and (golden.name, name) not in NOT_EXPRESSIBLE:
            settings = T5(1, **_settings_of(name))
            matches[name] = Match(settings, _row_by_row(settings, golden[f"relative_position {where}"]))
    return matches


def _at_edges(golden: Golden) -> dict[str, Match]:
    """Edges of the definition; and where a float formula differs, it does so by its rounding of one edge: right beside it."""
    matches = {}
    for name in golden.arrays:
        if name.endswith(" settings"):
            continue
        told = golden[f"{name} settings"]
        beside = name != "lower_edges_exact"
        each = [(int(n), T5(1, int(N), int(D), bool(both))) for n, (N, D, both) in zip(golden[name], told, strict=True)]
        got = np.array([n if _edge(settings, n, beside) else -1 for n, settings in each])
        matches[name] = Match("the settings listed beside it", got)
    return matches


def _edge(settings: T5, n: int, beside: bool) -> bool:
    """Whether a bucket starts at distance n (or, `beside`, at n + 1)."""
    first = settings.bucket(-n) != settings.bucket(1 - n)
    return first or (beside and settings.bucket(-n) != settings.bucket(-n - 1))


def _biases(golden: Golden) -> dict[str, Match]:
    p, table = golden.params, golden["table_buckets_by_heads"]
    settings = T5(p["num_heads"], p["num_buckets"], p["max_distance"], p["bidirectional"])
    matches = {}
    for name in golden.arrays:
        if found := re.fullmatch(r"bias_q(\d+)_k(\d+)_past(\d+)", name):
            q, k, past = map(int, found.groups())
            matches[name] = Match(settings, settings.bias({"table": table}, Range(past, q), Range(0, k))[None], "float32")
    n = 400
    counts = np.zeros(p["num_buckets"])
    for r in range(1 - n, n):
        counts[settings.bucket(r)] += n - abs(r)
    return matches | {"table_grad_rowcount_400x400": Match(settings, counts, "float32")}


def _encoder(golden: Golden) -> dict[str, Match]:
    p, x = golden.params, golden["x"].astype(np.float64)
    settings = T5(p["heads"], p["num_buckets"], p["max_distance"])
    params = {"table": golden["relative_attention_bias_weight"]}
    q, k, v = (_heads(x @ golden[f"{n}_weight"].T.astype(np.float64), p["heads"]) for n in "qkv")
    at = Range(0, x.shape[1]), Range(0, x.shape[1])
    hidden = np.broadcast_to(golden["key_padding_mask"][:, None] > 0, (len(x), len(at[0]), len(at[1])))
    matches = {"position_bias": Match(settings, settings.bias(params, *at)[None], "float32")}
    for name, mask in (("nomask", None), ("padded", hidden)):
        out = _joined(attention(settings, params, q, k, v, *at, mask=mask)) @ golden["o_weight"].T
        matches |= _layer(f"{{}}_{name}", settings, params, q, k, at, mask, out, x)
    return matches


# ---- clipped


def _article(golden: Golden) -> dict[str, Match]:
    matches = {}
    for name in golden.arrays:
        if found := re.fullmatch(r"(index|bias)_k(\d+)_L(\d+)", name):
            kind, K, L = found[1], int(found[2]), Range(0, int(found[3]))
            settings = Clipped(3, K)
            if kind == "index":
                matches[name] = Match(settings, settings.rows(L, L))
            else:
                matches[name] = Match(settings, settings.bias({"table": golden[f"table_k{K}"]}, L, L)[None], "float32")
    settings = Clipped(2, 3)
    rows = settings.rows(Range(0, 9), Range(0, 9))
    counts = np.array([[(rows == r).sum()] * 2 for r in range(7)])
    return matches | {"grad_counts_k3_L9": Match(settings, counts, "float32")} | _article_layer(golden)


def _article_layer(golden: Golden) -> dict[str, Match]:
    """Its attention; where a query has no keys, the article has NaN and the definition 0."""
    x, table = golden["mha_x"].astype(np.float64), golden["mha_relative_position_bias_relative_position_bias_table"]
    settings, params = Clipped(table.shape[1], len(table) // 2), {"table": table}
    projected = x @ golden["mha_qkv_proj_weight"].T.astype(np.float64) + golden["mha_qkv_proj_bias"]
    q, k, v = (_heads(part, table.shape[1]) for part in np.split(projected, 3, axis=-1))
    at = Range(0, x.shape[1]), Range(0, x.shape[1])
    padded = golden["mha_mask_B1LL"] > 0
    matches = {}
    for name, mask in (("nomask", None), ("causal_LL", np.tri(x.shape[1], dtype=bool)), ("causal_pad_B1LL", padded)):
        out = _joined(attention(settings, params, q, k, v, *at, mask=mask)) @ golden["mha_out_proj_weight"].T
        out = out + golden["mha_out_proj_bias"]
        layer = _layer(f"mha_{{}}_{name}", settings, params, q, k, at, mask, out, x)
        weights = layer.pop(f"mha_weights_{name}")
        empty = ~np.broadcast_to(True if mask is None else mask, weights.got.shape).any(-1, keepdims=True)
        layer[f"mha_w_{name}"] = Match(settings, np.where(empty, np.nan, weights.got), weights.precision, weights.magnitude)
        matches |= {name: match for name, match in layer.items() if name in golden.arrays}
    return matches


def _variants(golden: Golden) -> dict[str, Match]:
    matches = {}
    for name in golden.arrays:
        if not (found := re.fullmatch(r"(index|bias_\w+)_(Q(\d+)_K(\d+)_off(\d+)_k(\d+))", name)):
            continue
        kind, case, (Q, L, start, K) = found[1], found[2], map(int, found.groups()[2:])
        at, table = (Range(start, Q), Range(0, L)), golden[f"table_{case}"]
        one, own = Clipped(2, K, heads="shared"), Clipped(2, K)
        vectors = Shaw(4, K, tables="tied", sign="query_minus_key")
        q, e = golden[f"q_{case}"], golden[f"vtable_{case}"]
        matches[name] = {
            "index": lambda own=own, at=at: Match(own, own.rows(*at)),
            "bias_scalar": lambda one=one, at=at, t=table[:, :1]: Match(one, one.bias({"table": t}, *at)[0]),
            "bias_perhead": lambda own=own, at=at, t=table: Match(own, own.bias({"table": t}, *at)),
            "bias_vector": lambda s=vectors, at=at, q=q, e=e, L=L: Match(
                s, s.logits({"rel_k": e}, q, np.zeros((2, L, 4)), *at, scale=1.0),
                magnitude=float(np.abs(q).sum(-1).max() * np.abs(e).max()),
            ),
        }[kind]()  # fmt: skip
    return matches


# ---- layers: projections, weights, output


def _heads(x: np.ndarray, H: int) -> np.ndarray:
    return x.reshape(*x.shape[:2], H, -1).swapaxes(1, 2)


def _joined(out: np.ndarray) -> np.ndarray:
    return out.swapaxes(1, 2).reshape(out.shape[0], out.shape[2], -1)


def _layer(names: str, settings, params, q, k, at, mask, out, x) -> dict[str, Match]:
    score = logits(settings, params, q, k, *at)
    visible = allowed(score.shape, *at, mask=mask)
    reach = 1 + np.abs(score).max() + float(np.linalg.norm(q, axis=-1).max() * np.linalg.norm(k, axis=-1).max())
    return {
        names.format("weights"): Match(settings, softmax(score, visible), "float32 layer", magnitude=reach),
        names.format("out"): Match(settings, out, "float32 layer", magnitude=reach * (1 + np.abs(out).max() + np.abs(x).max())),
    }
