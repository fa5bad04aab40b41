"""How the goldens of swin, swin_v2 and beit are explained: rows and masks exactly, biases, and two attention layers."""

import re
from math import prod

import numpy as np

from golden_files import Golden, Match, load
from relpos.spec.attention import allowed, attention
from relpos.spec.beit import BEiT
from relpos.spec.contract import SettingsError
from relpos.spec.positions import Grid
from relpos.spec.swin import Swin
from relpos.spec.swin_v2 import SwinV2

ROWS, MASKS = "swin_v1__relative_index_and_attention.npz", "swin_v1__shifted_window_mask.npz"
NETWORK, CLASS = "swin_v2__cpb.npz", "beit__relative_index_cls.npz"
SAMPLED = (0, 1, 2, 100, 196)  # rows that the golden keeps of the 14 × 14 index
LAYER = "float32 layer"


def _excused() -> dict[tuple[str, str], str]:
    found = {(MASKS, name): "no mask is made where the shift is 0; that it is, `effective` says" for name in _empty(MASKS)}
    found |= {
        (NETWORK, f"coords_{size}"): "0/0 or 8/0 in a window of 1; the definition divides by 1 there, as timm does"
        for size in ("1x3_pre0x0", "3x3_pre1x1")
    }
    try:
        SwinV2(1, (4, 4), (2, 0))
    except SettingsError as refusal:
        found[NETWORK, "coords_4x4_pre2x0"] = str(refusal)
    return found


def _empty(file: str) -> list[str]:
    return [name for name, array in load(file).arrays.items() if not array.size]


NOT_EXPRESSIBLE = _excused()
FAMILIES = {"swin_v1__": "swin", "swin_v2__": "swin_v2", "beit__": "beit"}
INPUTS = {
    ROWS: {"ex_table", "ex_x", "ex_mask", "ex_qkv_w", "ex_qkv_b", "ex_proj_w", "ex_proj_b"},
    NETWORK: {
        "ex_w1", "ex_b1", "ex_w2", "ex_x", "ex_qkv_w", "ex_q_bias", "ex_v_bias", "ex_proj_w", "ex_proj_b", "ex_logit_scale",
    },
    CLASS: {name for name in load(CLASS).arrays if name.startswith("table_")},
}  # fmt: skip


def explain(golden: Golden) -> dict[str, Match]:
    return {ROWS: _swin, MASKS: _masks, NETWORK: _swin_v2, CLASS: _beit}[golden.name](golden)


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split("x")))


# ---- swin


def _swin(golden: Golden) -> dict[str, Match]:
    matches = {}
    for name in golden.arrays:
        if found := re.fullmatch(r"index_(\d+x\d+)", name):
            window = _sizes(found[1])
            matches[name] = Match(Swin(1, window), Swin(1, window).rows(Grid(window), Grid(window)))
    settings, at = Swin(2, (2, 3)), Grid((2, 3))
    params = {"table": golden["ex_table"].astype(np.float64)}
    matches["ex_bias_HNN"] = Match(settings, settings.bias(params, at, at), "float32")
    qkv = golden["ex_x"].astype(np.float64) @ golden["ex_qkv_w"].T.astype(np.float64) + golden["ex_qkv_b"]
    q, k, v = (_heads(part, 2) for part in np.split(qkv, 3, axis=-1))
    seen = golden["ex_mask"] == 0  # the authors add −100; hidden, the difference is far below a float32 rounding
    for name, mask in (("nomask", None), ("mask", np.concatenate([seen, seen]))):  # window by window, sample by sample
        out = attention(settings, params, q, k, v, at, at, mask=mask)
        lengths = (np.linalg.norm(x, axis=-1).max() for x in (q, k))
        matches[f"ex_out_{name}"] = _projected(golden, settings, out, prod(lengths) + np.abs(params["table"]).max())
    return matches


def _masks(golden: Golden) -> dict[str, Match]:
    matches = {}
    for name in golden.arrays:
        kind, *numbers = re.fullmatch(r"(\w+)_H(\d+)_W(\d+)_ws(\d+)_sh(\d+)", name).groups()
        height, width, ws, shift = map(int, numbers)
        settings = Swin(1, (min(height, width, ws),) * 2)
        if kind == "effective":
            got = np.array([settings.window_size[0], settings.shift_of((height, width), shift)])
            matches[name] = Match(settings, got)
        elif golden[name].size:
            at = settings.windows((height, width), shift)
            windows, N = at.array().shape[:2]
            seen = allowed((windows, 1, N, N), at, at)[:, 0]
            matches[name] = Match(settings, np.where(seen, 0.0, -100.0))
    return matches


# ---- swin_v2


def _swin_v2(golden: Golden) -> dict[str, Match]:
    matches = {}
    for name in golden.arrays:
        if not (found := re.fullmatch(r"(coords|index)_(\d+x\d+)_pre(\d+x\d+)", name)) or (NETWORK, name) in NOT_EXPRESSIBLE:
            continue
        window, before = _sizes(found[2]), _sizes(found[3])
        settings = SwinV2(1, window, before if before[0] > 0 and min(before) > 0 else None)
        if found[1] == "index":
            matches[name] = Match(Swin(1, window), Swin(1, window).rows(Grid(window), Grid(window)))
        else:
            matches[name] = Match(settings, _coordinates(settings), "float32", magnitude=2.0)
    settings, at = SwinV2(2, (3, 3)), Grid((3, 3))
    params = {
        "cpb_in": golden["ex_w1"], "cpb_bias": golden["ex_b1"], "cpb_out": golden["ex_w2"],
        "logit_scale": golden["ex_logit_scale"].reshape(-1),
    }  # fmt: skip
    params = {key: value.astype(np.float64) for key, value in params.items()}
    matches |= _network(golden, settings, params)
    qkv = golden["ex_x"].astype(np.float64) @ golden["ex_qkv_w"].T.astype(np.float64)
    q, k, v = (_heads(part, 2) for part in np.split(qkv, 3, axis=-1))
    q, v = (x + golden[bias].reshape(2, 1, -1) for x, bias in ((q, "ex_q_bias"), (v, "ex_v_bias")))
    out = attention(settings, params, q, k, v, at, at)
    largest = np.exp(np.minimum(params["logit_scale"], np.log(100))).max()
    # A weight moves with its logit, up to 100 times a cosine and 16 for the bias, against the mean of the values.
    return matches | {"ex_out": _projected(golden, settings, out, largest + 16)}


def _coordinates(settings: SwinV2) -> np.ndarray:
    """Of all offsets, [2W_1 − 1, 2W_2 − 1, 2]."""
    before = settings.pretrained_window_size or settings.window_size
    lines = [[settings.coordinate(d, W) for d in range(1 - w, w)] for w, W in zip(settings.window_size, before, strict=True)]
    return np.stack(np.meshgrid(*lines, indexing="ij"), axis=-1)


def _network(golden: Golden, settings: SwinV2, params: dict) -> dict[str, Match]:
    at, table = Grid((3, 3)), golden["ex_table_raw"]
    bias, size = (f(params, at, at) for f in (settings.bias, settings.magnitude))
    raw = np.zeros(table.shape)
    rows = Swin(1, (3, 3)).rows(at, at)
    for i, j in np.ndindex(rows.shape):
        raw[rows[i, j]] = np.log(bias[:, i, j] / (16 - bias[:, i, j]))  # the network inside the sigmoid
    reach = float(size.max())
    return {
        "ex_bias_HNN": Match(settings, bias, "float32", magnitude=reach),
        "ex_table_raw": Match(settings, raw, "float32", magnitude=reach / 4),
    }


# ---- beit


def _beit(golden: Golden) -> dict[str, Match]:
    matches = {}
    for name in golden.arrays:
        kind, size, *_ = name.split("_")
        settings, at = BEiT(2, _sizes(size)), Grid(_sizes(size), special=1)
        if kind == "index":
            rows = settings.rows(at, at)
            matches[name] = Match(settings, rows[list(SAMPLED)] if name.endswith("sha_rows") else rows)
        elif kind == "bias":
            matches[name] = Match(settings, settings.bias({"table": golden[f"table_{size}"]}, at, at), "float32")
    return matches


# ---- layers


def _heads(x: np.ndarray, H: int) -> np.ndarray:
    return x.reshape(*x.shape[:2], H, -1).swapaxes(1, 2)


def _projected(golden: Golden, settings, out: np.ndarray, reach: float) -> Match:
    """The output's projection; reach is the largest that a logit can be."""
    joined = out.swapaxes(1, 2).reshape(out.shape[0], out.shape[2], -1)
    result = joined @ golden["ex_proj_w"].T.astype(np.float64) + golden["ex_proj_b"]
    return Match(settings, result, LAYER, magnitude=float((1 + reach) * (1 + np.abs(result).max())))
