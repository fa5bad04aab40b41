"""How the ALiBi goldens are explained by named settings of the spec."""

import re
from functools import cache

import numpy as np
import torch

from golden_files import Golden, Match
from relpos.spec.alibi import ALiBi
from relpos.spec.attention import corner
from relpos.spec.positions import Explicit, Positions, Range

FAMILIES = {"alibi__": "alibi"}
INPUTS = {
    "alibi__slopes.npz": {"heads", "offsets"},
    "alibi__bias.npz": {"padmask_rows", "fa_varlen_querymask", "fa_varlen_keymask"},
    "alibi__shift_equivalence_precision.json": {"dtype", "L", "slope"},
}
LEARNED = "slopes learned per side, −sigmoid(raw)·|i − j|: ALiBi's settings have no learned slopes"
NOT_EXPRESSIBLE = {
    ("alibi__bidirectional_variants_own_reference.npz", "nonsym_learned_H4"): LEARNED,
    ("alibi__bidirectional_variants_own_reference.npz", "learned_raw_left"): "input of nonsym_learned_H4",
    ("alibi__bidirectional_variants_own_reference.npz", "learned_raw_right"): "input of nonsym_learned_H4",
}


def explain(golden: Golden) -> dict[str, Match]:
    case = golden.meta["case"]
    return {
        "slopes": _slopes,
        "bias": _bias,
        "bidirectional_variants_own_reference": _bidirectional,
        "shift_equivalence_precision": _precision,
    }[case](golden)


# ---- slopes


def _slopes(golden: Golden) -> dict[str, Match]:
    def every(rule: str) -> np.ndarray:
        return np.concatenate([ALiBi(int(H), slope_rule=rule).slopes() for H in golden["heads"]])

    matches = {
        "press_f64": Match('slope_rule="press"', every("press")),
        "formula_naive_f64": Match('slope_rule="geometric"', every("geometric")),
        "mpt_f32": Match('slope_rule="press"', every("press"), "float32"),
        "bloom_f32": Match('slope_rule="press"', every("press"), "float32 power"),
    }
    for name in golden.arrays:
        if found := re.fullmatch(r"mpt_bias_max(\d+)_H(\d+)", name):
            settings = ALiBi(int(found[2]), bias_max=float(found[1]))
            matches[name] = Match(settings, settings.slopes(), "float32")
    return matches


# ---- biases


def _bias(golden: Golden) -> dict[str, Match]:
    matches = {name: _one_length(name) for name in golden.arrays if re.search(r"_H\d+_(L|q)\d", name)}
    return matches | _padded(golden) | _flash_padded(golden) | _x_transformers()


def _one_length(name: str) -> Match:
    """press, bloom, hf_mpt, mpt_causal, mpt_full, neox, fa_causal, fa_noncausal at one length of queries and keys."""
    implementation, H, sizes = re.fullmatch(r"(\w+?)_H(\d+)_(.*)", name).groups()
    lengths = [int(n) for n in re.findall(r"\d+", sizes)]
    queries, keys = corner(lengths[0], lengths[-1], "bottom-right")
    last = Range(lengths[-1] - 1, 1)
    distance, queries, axes = {
        "press_mask_plus_alibi": ("key_only", queries, 3),
        "bloom": ("key_only", Range(0, 1), 3),
        "hf_mpt": ("symmetric", last, 3),
        "mpt_causal": ("symmetric", last, 4),
        "mpt_full": ("symmetric", queries, 4),
        "neox": ("causal", queries, 4),
        "fa_causal": ("symmetric", last, 4),
        "fa_noncausal": ("symmetric", queries, 4),
    }[implementation]
    settings = ALiBi(int(H), distance=distance)
    got = settings.bias({}, queries, keys)
    if implementation == "press_mask_plus_alibi":
        hidden = keys.array() > queries.array()[:, None]
        got = np.where(hidden, -np.inf, got)
    precision = "float32 power" if implementation == "bloom" else "float32"
    return Match(settings, got if axes == 3 else got[None], precision)


def _padded(golden: Golden) -> dict[str, Match]:
    """BLOOM and Falcon count real tokens only: a key's position comes from the padding mask, row by row."""
    mask = golden["padmask_rows"]
    keys = Explicit((mask.cumsum(-1) - 1) * mask)
    bloom, falcon = ALiBi(4, distance="key_only"), ALiBi(4, distance="key_only", scale_bias=True)
    return {
        "bloom_pad_H4_f32": Match(bloom, _per_sample(bloom, Range(0, 1), keys), "float32 power"),
        "falcon_pad_H4_f32": Match(falcon, _per_sample(falcon, Range(0, 1), keys), "bfloat16"),
    }


def _flash_padded(golden: Golden) -> dict[str, Match]:
    """flash-attention's reference aligns the true last query with the true last key of every sample."""
    settings = ALiBi(2)
    starts = golden["fa_varlen_keymask"].sum(-1) - golden["fa_varlen_querymask"].sum(-1)
    queries = Explicit(starts[:, None] + np.arange(golden["fa_varlen_querymask"].shape[1]))
    keys = Range(0, golden["fa_varlen_keymask"].shape[1])
    # leftpad: three padded keys stand at position 2^32, the real ones start at 0 after them
    padded = Explicit([2**32] * 3 + [0, 1, 2])
    return {
        "fa_varlen_H2": Match(settings, _per_sample(settings, queries, keys), "float32"),
        "fa_leftpad_H2_leftpad3": Match(settings, settings.bias({}, Range(2, 4), padded)[None], "float32"),
    }


def _x_transformers() -> dict[str, Match]:
    all_heads, some_heads, two = ALiBi(3), ALiBi(5, num_biased_heads=3), ALiBi(2)
    queries, keys = corner(3, 5, "bottom-right")
    own = Explicit([0, 1, 4])
    return {
        "xt_alibi_heads3_total3_i3_j5": Match(all_heads, all_heads.bias({}, queries, keys), "float32"),
        "xt_alibi_heads3_total5_i3_j5": Match(some_heads, some_heads.bias({}, queries, keys), "float32"),
        "xt_alibi_custom_pos": Match(two, two.bias({}, own, own), "float32"),
    }


def _per_sample(settings: ALiBi, queries: Positions, keys: Positions) -> np.ndarray:
    batch = max(p.array().shape[0] for p in (queries, keys) if p.array().ndim == 2)
    return np.stack([settings.bias({}, queries.row(b), keys.row(b)) for b in range(batch)])


def _bidirectional(golden: Golden) -> dict[str, Match]:
    both, half = ALiBi(4), ALiBi(4, distance="half_half")
    L = Range(0, golden.params["L"])
    return {
        "symmetric_H4": Match(both, both.bias({}, L, L)),
        "nonsym_half_heads_H4": Match(half, half.bias({}, L, L)),
    }


# ---- what a low precision makes of the two forms


def _precision(golden: Golden) -> dict[str, Match]:
    """Key-only and symmetric biases of the last query, rounded to a dtype, then through a float32 softmax."""
    rows = zip(golden["L"], golden["slope"], golden["dtype"], strict=True)
    errors = np.array([_errors(int(L), float(m), dtype) for L, m, dtype in rows])
    columns = ("max_abs_softmax_diff_last_row", "exact64", "dist_err")
    settings = 'ALiBi(16), distance="key_only" against "symmetric"'
    return {name: Match(settings, errors[:, c], "float32", magnitude=1.0) for c, name in enumerate(columns)}


def _errors(L: int, slope: float, dtype: str) -> tuple[float, float, float]:
    exact = _softmax(_last_row(L, slope, "symmetric"))
    key, distance = (_rounded(_last_row(L, slope, form), slope, dtype) for form in ("key_only", "symmetric"))
    return np.abs(key - distance).max(), np.abs(key - exact).max(), np.abs(distance - exact).max()


@cache
def _biases(L: int, distance: str) -> np.ndarray:
    return ALiBi(16, distance=distance).bias({}, Range(L - 1, 1), Range(0, L))[:, 0]


def _last_row(L: int, slope: float, distance: str) -> np.ndarray:
    head = list(ALiBi(16).slopes()).index(slope)
    return _biases(L, distance)[head]


def _rounded(bias: np.ndarray, slope: float, dtype: str) -> np.ndarray:
    """The slope and the product rounded to float32, the product to dtype; the softmax in float32."""
    distances = torch.from_numpy(np.rint(bias / slope)).float()
    stored = (torch.tensor(slope, dtype=torch.float32) * distances).to(getattr(torch, dtype.removeprefix("torch.")))
    return torch.softmax(stored.float(), -1).double().numpy()


def _softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max())
    return e / e.sum()
