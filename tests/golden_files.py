"""Goldens as files: what is in them, and how closely the spec must meet them."""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from golden_rows import columns

FOLDER = Path(__file__).resolve().parents[1] / "conformance" / "goldens"

# How far an array may be from the spec: so many spacings (eps) of its magnitude. Integers and booleans must be equal.
ROUNDINGS = {
    # D + 3 roundings per logit of D ≤ 8 terms on either side, twice that for a weight, 2·(17 + 1) more for a sum over 17
    # keys: 114 half-spacings at worst. Press raises a rounded base to the power h ≤ 128: as many again, and 32 spacings seen
    "float64": (64, 2.0**-52),
    # slope and product are rounded once each, half a spacing apiece; as much again where a sum or softmax follows
    "float32": (2, 2.0**-23),
    # A layer: two projections of 8 terms, logits of 4, a softmax, a sum over at most 9 keys, a projection of 8: 9 + 9 + 7 + 11
    # + 10 + 9 half-spacings
    "float32 layer": (28, 2.0**-23),
    # BLOOM raises a rounded base to the power h (11 spacings from the authors' slopes, says its golden); Hugging Face's
    # rotary raises base to a rounded exponent: ln(500000) = 13.1 half-spacings, and one each for power and quotient
    "float32 power": (12, 2.0**-23),
    # That frequency mixed with its f-th part: 1 − γ is off by as much as γ, which near γ = 1 is worth f ≤ 40 half-spacings of
    # YaRN's mixture; 15 for the frequency. Llama 3's weight could be worth more where it is near 0: no pair sits there
    "float32 mixture": (28, 2.0**-23),
    # Falcon rounds the slope to bfloat16, then the product
    "bfloat16": (1, 2.0**-7),
}


@dataclass(frozen=True)
class Golden:
    """One file of outputs of someone's code, with its provenance in `meta`."""

    name: str
    arrays: dict[str, np.ndarray]
    meta: dict[str, Any]

    @property
    def family(self) -> str:
        return self.name.split("__")[0]

    @property
    def params(self) -> dict[str, Any]:
        return self.meta["params"]

    def __getitem__(self, array: str) -> np.ndarray:
        return self.arrays[array]


@dataclass(frozen=True)
class Match:
    """What the spec says an array should be, and by which settings.

    magnitude   of the terms that were summed; None: nothing cancels, every entry is as precise as its own size
    """

    settings: Any
    got: np.ndarray
    precision: str = "float64"
    magnitude: float | None = None


def index() -> list[dict]:
    return json.loads((FOLDER / "index.json").read_text(encoding="utf-8"))


def names() -> list[str]:
    return sorted(entry["file"] for entry in index())


@cache
def load(name: str) -> Golden:
    if name.endswith(".json"):
        meta = json.loads((FOLDER / name).read_text(encoding="utf-8"))
        rows = meta.pop("rows")
        return Golden(name, columns(rows), meta)
    with np.load(FOLDER / name) as file:
        arrays = {key: file[key] for key in file.files if key != "meta"}
        return Golden(name, arrays, json.loads(str(file["meta"])))


def assert_same(match: Match, expected: np.ndarray, what: str) -> None:
    """Equal where exact, within the stated roundings elsewhere; infinities and NaN in the same cells."""
    got = np.asarray(match.got)
    assert got.shape == expected.shape, f"{what}: the spec gives shape {got.shape}, the golden has {expected.shape}"
    if expected.dtype.kind in "iub":
        bound = np.zeros(expected.shape)
    else:
        count, eps = ROUNDINGS[match.precision]
        magnitude = np.abs(expected, dtype=np.float64) if match.magnitude is None else match.magnitude
        bound = np.broadcast_to(count * eps * magnitude, expected.shape)
    finite = np.isfinite(expected)
    elsewhere = np.asarray(got, dtype=np.float64)[~finite], expected[~finite]
    assert np.array_equal(*elsewhere, equal_nan=True), f"{what}: other cells are infinite or NaN"
    error = np.abs(np.subtract(got, expected, dtype=np.float64, where=finite, out=np.zeros(expected.shape)))
    if not (error <= np.where(finite, bound, 0)).all():
        worst = np.unravel_index(np.argmax(error - np.where(finite, bound, 0)), error.shape)
        raise AssertionError(
            f"{what}{list(map(int, worst))}: the spec gives {got[worst]!r}, the golden {expected[worst]!r}, "
            f"{error[worst]:.3g} apart, allowed {bound[worst]:.3g}, under {match.settings}"
        )
