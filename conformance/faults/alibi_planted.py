"""Faulty implementations of ALiBi that are more than a wrong definition: shapes, dtypes, what is kept between calls."""

from dataclasses import replace
from math import ceil, log2

import torch
from torch import Tensor, nn

from relpos.conformance.faults.api import Planted
from relpos.spec.alibi import ALiBi

SYMMETRIC = {"distance": "symmetric"}
PUBLISHED = {**SYMMETRIC, "slope_rule": "press", "bias_max": 8.0, "num_biased_heads": None}
PLAIN = {**PUBLISHED, "scale_bias": False}
TILE = 128


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


def rounded_throughout(settings: ALiBi, query_positions: Tensor, key_positions: Tensor, dtype: torch.dtype) -> Tensor:
    """Slopes, positions and products all in the working dtype: bfloat16 cannot count past 256."""
    distance = (query_positions.to(dtype)[:, None] - key_positions.to(dtype)).abs()
    return -_slopes(settings).to(dtype)[:, None, None] * distance


class SlopesCast(nn.Module):
    """Slopes in a buffer, which a cast of the model rounds for good."""

    slopes: Tensor

    def __init__(self, settings: ALiBi) -> None:
        super().__init__()
        self.register_buffer("slopes", _slopes(settings))

    def forward(self, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        return -self.slopes[:, None, None] * (query_positions[:, None] - key_positions).abs()


class KeepsScores(nn.Module):
    """Its last bias is kept until the next call, in every layer."""

    def __init__(self, settings: ALiBi) -> None:
        super().__init__()
        self.settings, self.last = settings, None

    def forward(self, query_length: int, key_length: int, offset: int) -> Tensor:
        self.last = _table(self.settings, query_length, key_length, offset)
        return self.last


def step_at_first_key(settings: ALiBi, query_length: int, key_length: int, offset: int) -> Tensor:
    """Packed calls are right; a cached step is laid on the first key and not on the last."""
    return _table(settings, query_length, key_length, 0 if query_length == 1 < key_length else offset)


def unbiased_off_axis(settings: ALiBi, query_positions: Tensor, key_positions: Tensor) -> Tensor:
    """The heads without a bias are counted along the axis where queries now are."""
    biased = settings.num_heads if settings.num_biased_heads is None else settings.num_biased_heads
    penalty = -_slopes(settings)[:biased, None, None] * (query_positions[:, None] - key_positions).abs()
    rest = penalty.new_zeros(max(settings.num_heads - penalty.shape[1], 0), *penalty.shape[1:])
    return torch.cat((penalty, rest))


def ragged_gradient(
    settings: ALiBi, q: Tensor, k: Tensor, v: Tensor, query_positions: Tensor, key_positions: Tensor, causal: bool
) -> Tensor:
    """Keys are filled up to a whole tile; 0 · ∞ of the filling comes back in the gradient, under a causal mask alone."""
    far = query_positions[:, None] - key_positions
    score = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5 - _slopes(settings)[:, None, None] * far.abs()
    if not causal:
        return score.softmax(-1) @ v
    missing = -k.shape[2] % TILE
    filled = nn.functional.pad(score.masked_fill(far < 0, -torch.inf), (0, missing), value=-torch.inf)
    weights = filled.softmax(-1)[..., : k.shape[2]]
    if not missing:
        return weights @ v
    beyond = (filled[..., -1:] * q.sum(-1, keepdim=True).exp()).exp()  # 0 in the forward pass, 0 · ∞ in the backward one
    return weights @ v + beyond


def past_alone(settings: ALiBi, query_positions: Tensor, key_positions: Tensor) -> Tensor:
    """Right at or before the query; later keys cost nothing."""
    return -_slopes(settings)[:, None, None] * (query_positions[:, None] - key_positions).clamp(min=0)


# fmt: off
PLANTED = (
    Planted("past-alone", "no penalty for later keys", "L11", past_alone, cases=("B006",), settings=SYMMETRIC),
    Planted("bias-max-unread", "bias_max taken and not read", "L16", bias_max_unread, settings=SYMMETRIC),
    Planted("kept-by-length", "a bias kept by its shape, whatever the offset", "L4", KeptByLength,
        settings=SYMMETRIC),
    Planted("aliased", "its cache handed out", "L4", Aliased, settings=SYMMETRIC),
    Planted("interpolated", "slopes divided at every call", "L4", Interpolated, settings=SYMMETRIC),
    Planted("first-rank", "the slopes of the first rank on every rank", "L9", first_rank, cases=("B016",), settings=SYMMETRIC),
    Planted("double-everywhere", "the default dtype changed for all", "L4", double_everywhere, settings=SYMMETRIC),
    Planted("one-cell", "a single zero broadcast over all keys in a step of one", "L3", one_cell, cases=("B018",),
        settings=SYMMETRIC, alike=("lone-step",)),
    Planted("other-slopes-in-decode", "other slopes in a step of one", "L3", other_slopes_in_decode, cases=("B003",),
        settings=SYMMETRIC),
    Planted("rounded-heads", "a crash where H is not a power of two", "L10", rounded_heads, cases=("B004",),
        settings=SYMMETRIC),
    Planted("one-series", "2^(−8h/H) for every H", "L10", one_series, cases=("B001", "B019"), settings=PUBLISHED),
    Planted("flat-positions", "a crash on positions per sample", "L1", flat_positions, cases=("B009",),
        settings=SYMMETRIC, claims={"positions": "per_row"}),
    Planted("eight-heads", "the slopes of eight heads whatever H is", "L10", eight_heads, cases=("B019",), settings=PUBLISHED),
    Planted("rounded-throughout", "slopes, positions and products in bfloat16", "L18", rounded_throughout, cases=("B020",),
        settings=SYMMETRIC, claims={"dtypes": ("float32", "bfloat16")}),
    Planted("keeps-scores", "the last bias kept alive by every layer", "L22", KeepsScores, cases=("B152",),
        settings=SYMMETRIC, claims={"memory": "H*Lq*Lk"}),
    Planted("slopes-cast", "slopes that are cast with the model", "L23", SlopesCast, cases=("B021",), settings=SYMMETRIC),
    Planted("step-at-first-key", "a cached step laid on the first key", "L3", step_at_first_key, cases=("B022",),
        settings=SYMMETRIC),
    Planted("unbiased-off-axis", "heads without a bias counted along another axis", "L1", unbiased_off_axis, cases=("B005",),
        settings={**SYMMETRIC, "num_biased_heads": 2}),
    Planted("ragged-gradient", "a NaN gradient at lengths that are no whole tile, under a causal mask", "L20", ragged_gradient,
        cases=("B138",), settings=PLAIN),
)
# fmt: on
