"""How the goldens of sinusoidal and rope are explained by named settings of the spec."""

from dataclasses import replace
from math import sqrt

import numpy as np

from golden_files import Golden, Match
from relpos.spec.attention import logits
from relpos.spec.positions import Range
from relpos.spec.rope import RoPE
from relpos.spec.sinusoidal import Sinusoidal

FAMILIES = {"sinusoidal_": "sinusoidal", "rope_": "rope"}
INPUTS = {"q", "k"}
LAYOUTS = {
    "sinusoidal_paper_interleaved": "interleaved",
    "sinusoidal_hf_marian": "halves",
    "sinusoidal_t2t": "t2t",
    "sinusoidal_fairseq": "t2t",
}


def explain(golden: Golden) -> dict[str, Match]:
    if golden.family.startswith("sinusoidal"):
        return _sinusoid(golden)
    return _rotation(golden)


def _sinusoid(golden: Golden) -> dict[str, Match]:
    length, width = golden["pe"].shape
    settings = Sinusoidal(width, layout=LAYOUTS[golden.family], base=golden.params.get("max_timescale", 10000.0))
    positions = Range(golden.params.get("start_index", 0), length)
    encoded = settings.encode(positions)
    if golden.params.get("padding_idx") is not None:
        encoded[golden.params["padding_idx"]] = 0.0
    turns = 1.0 + positions.array().max()
    matches = {
        "pe": Match(settings, encoded, magnitude=turns),
        "pe_library": Match(settings, encoded, "float32", magnitude=1.0),
        "position": Match(settings, positions.array()),
    }
    return {name: match for name, match in matches.items() if name in golden.arrays}


def _rotation(golden: Golden) -> dict[str, Match]:
    p, q, k = golden.params, golden["q"], golden["k"]
    layout = "half" if golden.family == "rope_half_neox" else "interleaved"
    settings = RoPE(p["d"], p.get("rotary_dim"), float(p["base"]), layout)
    positions = Range(p.get("offset", 0), q.shape[2])
    turns = 1.0 + positions.array().max()
    longest = {name: float(np.linalg.norm(x, axis=-1).max()) for name, x in (("q", q), ("k", k))}
    matches = {
        "position": Match(settings, positions.array()),
        "inv_freq": Match(settings, settings.frequencies()),
        "q_rot": Match(settings, settings.rotate(q, positions, "query"), magnitude=turns * longest["q"]),
        "k_rot": Match(settings, settings.rotate(k, positions, "key"), magnitude=turns * longest["k"]),
        "logits": Match(
            settings,
            logits(settings, {}, q, k, positions, positions),
            magnitude=turns * longest["q"] * longest["k"] / sqrt(p["d"]),
        ),
        "perm_half_to_interleaved": Match("the columns of either layout's pairs", interleaved_columns(settings)),
        # bert4keras turns by the paper's sinusoid
        "sinusoidal": Match(Sinusoidal(p["d"]), Sinusoidal(p["d"]).encode(positions), magnitude=turns),
    }
    return {name: match for name, match in matches.items() if name in golden.arrays}


def interleaved_columns(settings: RoPE) -> np.ndarray:
    """Which column of the interleaved layout holds what the half layout has in column 0, 1, …"""
    half, interleaved = (replace(settings, layout=layout).pairs() for layout in ("half", "interleaved"))
    columns = {a: b for pair, other in zip(half, interleaved, strict=True) for a, b in zip(pair, other, strict=True)}
    return np.array([columns[a] for a in range(settings.width())])
