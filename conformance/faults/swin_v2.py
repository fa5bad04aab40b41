"""Faults of swin_v2: its coordinates, its network, and a content term that is a cosine."""

from collections.abc import Callable
from dataclasses import replace
from math import copysign, exp, log2
from typing import Any

import numpy as np

from relpos.conformance.faults.api import Fault, Wrong
from relpos.conformance.plan import Inputs
from relpos.spec.swin_v2 import LARGEST, SwinV2

SCORES = ("logits", "attention")
NORMALISED = {"coordinates": "normalised"}


def _placed(coordinate: Callable[[SwinV2, int, int], float]) -> Callable[[SwinV2], Wrong]:
    """Another coordinate of the offset d along an axis of the window W."""

    def wrong(s: SwinV2) -> Wrong:
        one: Any = Wrong(s, coordinate=lambda d, W: coordinate(s, d, W))
        return _placing(s, lambda i, j: SwinV2.coordinates_of(one, i, j))

    return wrong


def _placing(s: SwinV2, coordinates_of: Callable[..., Any]) -> Wrong:
    placed: Any = Wrong(s, coordinates_of=coordinates_of)
    return Wrong(placed, bias=lambda *given: SwinV2.bias(placed, *given))


def _exchanged(s: SwinV2) -> Wrong:
    def turned(i, j):
        c = s.coordinates_of(i, j)
        return c if c is None else c[::-1]

    return _placing(s, turned)


def _biased(change: Callable[[np.ndarray], np.ndarray]) -> Callable[[SwinV2], Wrong]:
    return lambda s: Wrong(s, bias=lambda *given: change(s.bias(*given)))


def _but(name: str, change: Callable[[np.ndarray], np.ndarray]) -> Callable[[Inputs], Inputs]:
    return lambda i: i.but(params={**i.params, name: change(i.params[name])})


def _compared(content: Callable[[np.ndarray, np.ndarray, float], np.ndarray]) -> Callable[[SwinV2], Wrong]:
    """Another content term of one head: content(q, k, τ)."""

    def wrong(s: SwinV2) -> Wrong:
        every = lambda params, q, k: np.stack([content(*x) for x in zip(q, k, params["logit_scale"], strict=True)])  # noqa: E731
        return Wrong(s, content=every)

    return wrong


def _cosine(q: np.ndarray, k: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(q, axis=-1)[:, None] * np.linalg.norm(k, axis=-1)
    return q @ k.T / np.where(lengths > 0, lengths, 1.0)


def _normalised(u: float) -> float:
    return copysign(log2(1 + abs(u)) / log2(8), u)


# fmt: off
FAULTS = (
    Fault("coordinates-to-one", "coordinates that reach 1, not log2 9 / 3", "L1",
        _placed(lambda s, d, W: s.coordinate(d, W) * log2(8) / log2(9)), cases=("B070",), settings=NORMALISED),
    Fault("coordinates-linear", "coordinates without a logarithm", "L1", _placed(lambda s, d, W: d / max(W - 1, 1)),
        settings=NORMALISED),
    Fault("coordinates-unread", "log-spaced coordinates whatever is asked for", "L16",
        lambda s: replace(s, coordinates="normalised"), cases=("B071",)),
    Fault("pretrained-ignored", "the window at hand in place of the pretrained one", "L16",
        lambda s: replace(s, pretrained_window_size=None)),
    Fault("window-not-less-one", "offsets divided by W, not by W − 1", "L1", _placed(lambda s, d, W: _normalised(8 * d / W)),
        settings=NORMALISED),
    Fault("direction-ignored", "coordinates of |i − j|", "L1", _placed(lambda s, d, W: abs(s.coordinate(d, W)))),
    Fault("key-minus-query", "key minus query", "L1", _placed(lambda s, d, W: s.coordinate(-d, W))),
    Fault("axes-exchanged", "columns before rows", "L1", _exchanged, cases=("B089",)),
    Fault("not-sixteen", "a bias between 0 and 1", "L1", _biased(lambda bias: bias / 16)),
    Fault("signed-bias", "a bias between −16 and 16", "L1", _biased(lambda bias: 2 * bias - 16)),
    Fault("no-first-bias", "a network without a bias in its first layer", "L1", given=_but("cpb_bias", np.zeros_like)),
    Fault("dot-product", "q·k in place of the cosine", "L1", _compared(lambda q, k, τ: q @ k.T * exp(min(τ, LARGEST))),
        levels=SCORES),
    Fault("scaled-as-well", "1/√D on the cosine", "L1",
        _compared(lambda q, k, τ: _cosine(q, k) * exp(min(τ, LARGEST)) / q.shape[-1] ** 0.5), levels=SCORES),
    Fault("temperature-linear", "τ itself, not its exponential", "L1",
        _compared(lambda q, k, τ: _cosine(q, k) * min(τ, LARGEST)), levels=SCORES),
    Fault("temperature-free", "a temperature without its limit of 100", "L1",
        _compared(lambda q, k, τ: _cosine(q, k) * exp(τ)), levels=SCORES),
    Fault("temperature-limit-late", "a temperature limited to e^100", "L1",
        _compared(lambda q, k, τ: _cosine(q, k) * exp(min(τ, exp(LARGEST)))), levels=SCORES),
    Fault("first-temperature", "the first head's temperature for all", "L1",
        given=_but("logit_scale", lambda τ: np.full_like(τ, τ[0])), levels=SCORES),
)
# fmt: on
