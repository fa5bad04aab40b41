"""Faults of ALiBi: slopes, distance, direction, and tables that are kept too long."""

from collections.abc import Callable
from dataclasses import replace
from math import ceil, log2, sqrt

import numpy as np
import torch
from torch import Tensor, nn

from relpos.conformance.expected import scale_of
from relpos.conformance.faults import kept
from relpos.conformance.faults.api import Fault, Planted, Wrong
from relpos.conformance.plan import Inputs
from relpos.conformance.precision import rounded
from relpos.spec.alibi import ALiBi

SYMMETRIC = {"distance": "symmetric"}
PUBLISHED = {**SYMMETRIC, "slope_rule": "press", "bias_max": 8.0, "num_biased_heads": None}
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


def _table(settings: ALiBi, query_length: int, key_length: int, offset: int) -> Tensor:
    i, j = torch.arange(offset, offset + query_length)[:, None], torch.arange(key_length)
    return -_slopes(settings)[:, None, None] * (i - j).abs()


def _slopes(settings: ALiBi) -> Tensor:
    return torch.tensor(settings.slopes(), dtype=torch.float32)


class KeptByLength(nn.Module):
    """A bias kept by its shape, whatever the offset."""

    def __init__(self, settings: ALiBi) -> None:
        super().__init__()
        self.settings, self.kept = settings, {}

    def forward(self, query_length: int, key_length: int, offset: int) -> Tensor:
        size = (query_length, key_length)
        if size not in self.kept:
            self.kept[size] = _table(self.settings, *size, offset)
        return self.kept[size].clone()


class Aliased(nn.Module):
    """The right bias, but what is returned is the cache itself."""

    def __init__(self, settings: ALiBi) -> None:
        super().__init__()
        self.settings, self.kept = settings, {}

    def forward(self, query_length: int, key_length: int, offset: int) -> Tensor:
        key = (query_length, key_length, offset)
        if key not in self.kept:
            self.kept[key] = _table(self.settings, *key)
        return self.kept[key]


class Interpolated(nn.Module):
    """Slopes divided in place at every call, as for an interpolation that should have happened once."""

    def __init__(self, settings: ALiBi) -> None:
        super().__init__()
        self.settings, self.slopes = settings, _slopes(settings)

    def forward(self, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        distance = (query_positions[:, None] - key_positions).abs()
        bias = -self.slopes[:, None, None] * distance
        self.slopes /= 2
        return bias


def one_cell(settings: ALiBi, query_length: int, key_length: int, offset: int) -> Tensor:
    """Built over the queries: a step of one gets a single zero, which broadcasts over all keys."""
    if query_length == 1:
        return torch.zeros(settings.num_heads, 1, 1)
    return _table(settings, query_length, key_length, offset)


def other_slopes_in_decode(settings: ALiBi, query_length: int, key_length: int, offset: int) -> Tensor:
    """A decode kernel with a slope rule of its own."""
    if query_length == 1:
        settings = replace(settings, slope_rule="geometric" if settings.slope_rule == "press" else "press")
    return _table(settings, query_length, key_length, offset)


def one_series(num_heads: int, query_positions: Tensor, key_positions: Tensor) -> Tensor:
    """One geometric series for every number of heads where the authors' rule was asked for."""
    m = 2.0 ** (-8 * torch.arange(1, num_heads + 1) / num_heads)
    return -m[:, None, None] * (query_positions[:, None] - key_positions).abs()


def flat_positions(settings: ALiBi, query_positions: Tensor, key_positions: Tensor) -> Tensor:
    """Positions per sample were not thought of."""
    return -_slopes(settings)[:, None, None] * (query_positions[:, None] - key_positions).abs()


def rounded_heads(settings: ALiBi, query_positions: Tensor, key_positions: Tensor) -> Tensor:
    """Slopes of the next power of two, reshaped to the real number of heads."""
    full = _slopes(replace(settings, num_heads=2 ** ceil(log2(settings.num_heads)), num_biased_heads=None))
    return -full.view(settings.num_heads, 1, 1) * (query_positions[:, None] - key_positions).abs()


def eight_heads(score, b, h, q_idx, kv_idx):
    """A score_mod with the slopes of eight heads written into it."""
    return score - 2.0 ** -(h + 1.0) * (q_idx - kv_idx).abs()


def bias_max_unread(num_heads, bias_max, query_positions, key_positions):
    """An option that is accepted, and 8 in its place."""
    del bias_max
    m = torch.tensor(ALiBi(num_heads).slopes(), dtype=torch.float32).view(-1, 1, 1)
    return -m * (query_positions[:, None] - key_positions).abs()


def first_rank(settings: ALiBi, head_indices: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor:
    """Every rank takes the first slopes, however its heads are called."""
    slopes = _slopes(settings)[: len(head_indices), None, None]
    return -slopes * (query_positions[:, None] - key_positions).abs()


def double_everywhere(settings: ALiBi, query_positions: Tensor, key_positions: Tensor) -> Tensor:
    """float64 wanted here, and set for the whole process."""
    torch.set_default_dtype(torch.float64)
    return -_slopes(settings)[:, None, None] * (query_positions[:, None] - key_positions).abs()


# fmt: off
FAULTS = (
    Fault("slopes-from-zero", "a first head of slope 1", "L10", _sloped(_from_zero)),
    Fault("slopes-next-power", "the first H slopes of the next power of two", "L10", _sloped(_next_power),
        cases=("B003", "B019")),
    Fault("slopes-sorted", "slopes in falling order", "L10", _sloped(lambda m, b: np.sort(m)[::-1])),
    Fault("slopes-reversed", "slopes in reverse order", "L10", _sloped(lambda m, b: m[::-1])),
    Fault("slopes-equal", "the first head's slope for all", "L10", _sloped(lambda m, b: np.resize(m[:1], len(m)))),
    Fault("slopes-rank-0", "the slopes of the first rank on the second", "L10",
        _sloped(lambda m, b: np.resize(m[: -(-len(m) // 2)], len(m))), cases=("B016",)),
    Fault("slopes-bfloat16", "slopes rounded to bfloat16", "L10", _sloped(lambda m, b: rounded(m, "bfloat16")),
        cases=("B020", "B021")),
    Fault("slopes-float16", "slopes rounded to float16", "L10", _sloped(lambda m, b: rounded(m, "float16")), cases=("B021",)),
    Fault("bias-max-ignored", "an exponent of 8 whatever bias_max is", "L10", lambda s: replace(s, bias_max=8.0),
        settings={"bias_max": 16.0}),
    Fault("all-biased", "a bias on heads that have none", "L10", lambda s: replace(s, num_biased_heads=None), cases=("B005",),
        settings={"num_biased_heads": 2, **SYMMETRIC}),
    Fault("rewarded", "distance rewarded", "L11", _cells(lambda i, j, last: -abs(i - j)), settings=SYMMETRIC),
    Fault("signed", "−m(i − j), which rewards later keys", "L11", _cells(lambda i, j, last: i - j), cases=("B006", "B013"),
        settings=SYMMETRIC),
    Fault("last-key", "distance from the last key", "L6", _cells(lambda i, j, last: last - j), cases=("B010", "B015"),
        settings=SYMMETRIC),
    Fault("distance-plus-one", "a distance of 1 to itself", "L6", _cells(lambda i, j, last: abs(i - j) + 1),
        levels=("contribution", "logits"), settings=SYMMETRIC),
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
    Planted("bias-max-unread", "bias_max taken and not read", "L16", bias_max_unread, settings=SYMMETRIC),
    Planted("kept-by-length", "a bias kept by its shape, whatever the offset", "L4", KeptByLength, cases=("B010",),
        settings=SYMMETRIC),
    *kept.ALIBI,
    Planted("aliased", "its cache handed out", "L4", Aliased, settings=SYMMETRIC),
    Planted("interpolated", "slopes divided at every call", "L4", Interpolated, settings=SYMMETRIC),
    Planted("first-rank", "the slopes of the first rank on every rank", "L9", first_rank, cases=("B016",), settings=SYMMETRIC),
    Planted("double-everywhere", "the default dtype changed for all", "L4", double_everywhere, settings=SYMMETRIC),
    Planted("one-cell", "a single zero broadcast over all keys in a step of one", "L3", one_cell, cases=("B018",),
        settings=SYMMETRIC, alike=("lone-step",)),
    Planted("other-slopes-in-decode", "other slopes in a step of one", "L3", other_slopes_in_decode, cases=("B003", "B022"),
        settings=SYMMETRIC),
    Planted("rounded-heads", "a crash where H is not a power of two", "L10", rounded_heads, cases=("B004",),
        settings=SYMMETRIC),
    Planted("one-series", "2^(−8h/H) for every H", "L10", one_series, cases=("B001",), settings=PUBLISHED),
    Planted("flat-positions", "a crash on positions per sample", "L1", flat_positions, cases=("B009",),
        settings=SYMMETRIC, claims={"positions": "per_row"}),
    Planted("eight-heads", "the slopes of eight heads whatever H is", "L10", eight_heads, cases=("B019",), settings=PUBLISHED),
)
# fmt: on
