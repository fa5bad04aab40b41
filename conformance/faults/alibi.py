"""Faults of ALiBi: slopes, distance, direction, and tables that are kept too long."""

from collections.abc import Callable
from dataclasses import replace
from math import ceil, log2, sqrt

import numpy as np

from relpos.conformance.expected import scale_of
from relpos.conformance.faults import caches
from relpos.conformance.faults.alibi_paths import PATHS
from relpos.conformance.faults.alibi_planted import PLANTED, SYMMETRIC
from relpos.conformance.faults.api import Fault, Planted, Wrong
from relpos.conformance.faults.kept import OF_ALIBI
from relpos.conformance.plan import Inputs
from relpos.conformance.precision import rounded
from relpos.spec.alibi import ALiBi

REACH = 5  # where a distance that is wrongly clipped stops growing


def _biased(s: ALiBi, bias: Callable[..., np.ndarray]) -> Wrong:
    def magnitude(params, query_positions, key_positions):
        size = np.abs(bias(params, query_positions, key_positions))
        return np.where(np.isinf(size), 0.0, size) * (1 + s.bias_max)  # at least 1 + |ln m|

    return Wrong(s, bias=bias, magnitude=magnitude)


def _sloped(slopes: Callable[[np.ndarray, float], np.ndarray]) -> Callable[[ALiBi], Wrong]:
    """The bias is proportional to the slope: other slopes for the heads that have one."""

    def wrong(s: ALiBi) -> Wrong:
        m = s.slopes()
        instead = m.copy()
        instead[m > 0] = slopes(m[m > 0], s.bias_max)
        factor = np.where(m > 0, instead / np.where(m > 0, m, 1.0), 1.0)
        w = _biased(s, lambda *given: s.bias(*given) * factor[:, None, None])
        return Wrong(w, slopes=lambda: instead)

    return wrong


def _from_zero(m: np.ndarray, b: float) -> np.ndarray:
    H = len(m)
    return np.array([2.0 ** (-b * h / H) for h in range(H)])


def _next_power(m: np.ndarray, b: float) -> np.ndarray:
    H = len(m)
    p = 2 ** ceil(log2(H)) if H else 1
    return np.array([2.0 ** (-b * h / p) for h in range(1, H + 1)])


def _cells(distance: Callable[..., float]) -> Callable[[ALiBi], Wrong]:
    """−m_h · distance(i, j, last key), whatever the settings say of distance."""

    def wrong(s: ALiBi) -> Wrong:
        def bias(params, query_positions, key_positions):
            m, last = s.slopes(), max(key_positions)
            table = np.zeros((s.num_heads, len(query_positions), len(key_positions)))
            for h in range(s.num_heads):
                for a, i in enumerate(query_positions):
                    for b, j in enumerate(key_positions):
                        table[h, a, b] = -m[h] * distance(i, j, last)
            return table

        return _biased(s, bias)

    return wrong


def _exchanged(s: ALiBi) -> Wrong:
    """bias(j, i) transposed: what looked back looks ahead."""
    return _biased(s, lambda params, queries, keys: s.bias(params, keys, queries).swapaxes(1, 2))


def _per_length(s: ALiBi) -> Wrong:
    return _biased(s, lambda params, queries, keys: s.bias(params, queries, keys) / len(keys))


def _unscaled(i: Inputs) -> Inputs:
    s = i.settings
    return i.but(settings=_biased(s, lambda *given: s.bias(*given) / scale_of(i)))


# fmt: off
FAULTS: tuple[Fault | Planted, ...] = (
    Fault("slopes-from-zero", "a first head of slope 1", "L10", _sloped(_from_zero)),
    Fault("slopes-next-power", "the first H slopes of the next power of two", "L10", _sloped(_next_power),
        cases=("B003",)),
    Fault("slopes-sorted", "slopes in falling order", "L10", _sloped(lambda m, b: np.sort(m)[::-1])),
    Fault("slopes-reversed", "slopes in reverse order", "L10", _sloped(lambda m, b: m[::-1])),
    Fault("slopes-equal", "the first head's slope for all", "L10", _sloped(lambda m, b: np.resize(m[:1], len(m)))),
    Fault("slopes-rank-0", "the slopes of the first rank on the second", "L10",
        _sloped(lambda m, b: np.resize(m[: -(-len(m) // 2)], len(m))), cases=("B016",)),
    Fault("slopes-bfloat16", "slopes rounded to bfloat16", "L10", _sloped(lambda m, b: rounded(m, "bfloat16"))),
    Fault("slopes-float16", "slopes rounded to float16", "L10", _sloped(lambda m, b: rounded(m, "float16"))),
    Fault("bias-max-ignored", "an exponent of 8 whatever bias_max is", "L10", lambda s: replace(s, bias_max=8.0),
        settings={"bias_max": 16.0}),
    Fault("all-biased", "a bias on heads that have none", "L10", lambda s: replace(s, num_biased_heads=None),
        settings={"num_biased_heads": 2, **SYMMETRIC}),
    Fault("last-head-biased", "a bias on the last head too, where all others have one", "L10",
        lambda s: replace(s, num_biased_heads=None) if s.num_biased_heads == s.num_heads - 1 == 3 else s),
    Fault("rewarded", "distance rewarded", "L11", _cells(lambda i, j, last: -abs(i - j)), settings=SYMMETRIC),
    Fault("signed", "−m(i − j), which rewards later keys", "L11", _cells(lambda i, j, last: i - j), cases=("B013",),
        settings=SYMMETRIC),
    Fault("last-key", "distance from the last key", "L6", _cells(lambda i, j, last: last - j), settings=SYMMETRIC),
    Fault("distance-plus-one", "a distance of 1 to itself", "L6", _cells(lambda i, j, last: abs(i - j) + 1),
        cases=("B015",), levels=("contribution", "logits"), settings=SYMMETRIC),
    Fault("distance-minus-one", "neighbours at distance 0", "L10", _cells(lambda i, j, last: max(abs(i - j) - 1, 0)),
        settings=SYMMETRIC),
    Fault("distance-root", "the square root of distance", "L11", _cells(lambda i, j, last: sqrt(abs(i - j))),
        settings=SYMMETRIC),
    Fault("distance-clipped", "a distance that stops growing", "L1", _cells(lambda i, j, last: min(abs(i - j), REACH)),
        settings=SYMMETRIC),
    Fault("distance-per-length", "distance divided by the number of keys", "L3", _per_length),
    Fault("halves-exchanged", "the halves of the heads looking the other way", "L11", _exchanged,
        settings={"distance": "half_half"}),
    Fault("scaled-up", "the bias divided by the scale", "L29", given=_unscaled, levels=("logits", "attention"),
        settings={"scale_bias": False}),
    Fault("scale-bias-ignored", "scale_bias ignored", "L29", lambda s: replace(s, scale_bias=False),
        levels=("logits", "attention"), settings={"scale_bias": True}),
    *PLANTED,
    *PATHS,
    *OF_ALIBI,
    *caches.ALIBI,
)
# fmt: on
