"""Faults of the rotation: pairs, frequencies, angles, roles, tables kept too long. Those of scaling: `rope_scaling.py`."""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from relpos.conformance.faults import caches, rope_scaling
from relpos.conformance.faults.api import Fault, Planted
from relpos.conformance.faults.rope_planted import HALF, PARTIAL, PLANTED
from relpos.conformance.faults.rope_planted import turned_as_halves as _half
from relpos.conformance.faults.turning import changed, series, turning
from relpos.conformance.plan import Inputs
from relpos.conformance.precision import rounded
from relpos.spec.positions import Explicit, Positions
from relpos.spec.rope import RoPE


def _mixed(s: RoPE, x: np.ndarray, _turned: np.ndarray, positions: Positions, _role: str) -> np.ndarray:
    """Columns paired as the layout says, each turned by the angle that the other layout gives its column."""
    other = replace(s, layout="half" if s.layout == "interleaved" else "interleaved")
    frequencies = s.frequencies(positions.context())
    θ = {column: θ_m for pair, θ_m in zip(other.pairs(), frequencies, strict=True) for column in pair}
    p, turned = positions.array(), np.array(x, dtype=np.float64)
    for a, b in s.pairs():
        turned[..., a] = x[..., a] * np.cos(p * θ[a]) - x[..., b] * np.sin(p * θ[a])
        turned[..., b] = x[..., a] * np.sin(p * θ[b]) + x[..., b] * np.cos(p * θ[b])
    return turned


def _overwritten(s: RoPE, x: np.ndarray, turned: np.ndarray, positions: Positions, _role: str) -> np.ndarray:
    """The second column of a pair is computed from the first one's new value."""
    p, out = positions.array(), turned.copy()
    for (a, b), θ in zip(s.pairs(), s.frequencies(positions.context()), strict=True):
        out[..., b] = turned[..., a] * np.sin(p * θ) + x[..., b] * np.cos(p * θ)
    return out


def _not_put_back(s: RoPE, _x: np.ndarray, turned: np.ndarray, _positions: Positions, _role: str) -> np.ndarray:
    """Pairs taken out as interleaved and left as halves."""
    out, half = turned.copy(), s.width() // 2
    for m, (a, b) in enumerate(s.pairs()):
        out[..., m], out[..., half + m] = turned[..., a], turned[..., b]
    return out


def _quarter_turn(_s: RoPE, x: np.ndarray, turned: np.ndarray, positions: Positions, _role: str) -> np.ndarray:
    out = turned.copy()
    for (a, b), θ in zip(_s.pairs(), _s.frequencies(positions.context()), strict=True):
        c, s = np.sin(positions.array() * θ), np.cos(positions.array() * θ)
        out[..., a], out[..., b] = x[..., a] * c - x[..., b] * s, x[..., a] * s + x[..., b] * c
    return out


def _keys_back(s: RoPE, x: np.ndarray, turned: np.ndarray, positions: Positions, role: str) -> np.ndarray:
    back = Explicit(-positions.array(), context_length=positions.context())
    return s.rotate(x, back, role) if role == "key" else turned


def _angle_in(dtype: str):
    """Position, frequency and their product, each rounded."""
    one = lambda x: rounded(np.array([x], dtype=np.float64), dtype)[0]  # noqa: E731
    return lambda p, θ: one(one(p) * one(θ))


def _values_too(i: Inputs) -> Inputs:
    return i.but(v=np.stack([i.settings.rotate(i.v[b], i.key_positions.row(b), "key") for b in range(len(i.v))]))


def counted_in_working_dtype(x, positions):
    """Positions in the dtype of x, as a buffer that the model was cast with gives them."""
    return _half(x, positions.to(x.dtype).double(), 10000.0)


def counted_under_autocast(x, positions, base):
    """Angles as a product of matrices, which autocast turns into one of bfloat16."""
    r = x.shape[-1]
    θ = base ** (-torch.arange(0, r, 2, dtype=torch.float64) / r)
    angles = positions[..., None].float() @ θ[None].float()
    c, s = angles.float().cos(), angles.float().sin()
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * c - b * s, a * s + b * c), dim=-1)


class KeptByLength(nn.Module):
    """Positions kept by their number, whatever the offset."""

    def __init__(self, base: float) -> None:
        super().__init__()
        self.base, self.kept = base, {}

    def forward(self, x: Tensor, offset: int) -> Tensor:
        L = x.shape[-2]
        return _half(x, self.kept.setdefault(L, torch.arange(offset, offset + L)), self.base)


class FirstLength(nn.Module):
    """A table as long as the first call; later rows repeat its last."""

    def __init__(self, base: float) -> None:
        super().__init__()
        self.base, self.longest = base, 0

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        self.longest = self.longest or int(positions.max())
        return _half(x, positions.clamp(max=self.longest), self.base)


class StepsFromZero:
    """A decoder that reads the offset before the new keys have joined the cache."""

    def __init__(self, base: float) -> None:
        self.base = base
        self.kept: list[tuple[Tensor, Tensor]] = []

    def step(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        n = q.shape[2]
        self.kept.append((k, v))
        keys, values = (torch.cat(pieces, dim=2) for pieces in zip(*self.kept, strict=True))
        at = torch.arange(keys.shape[2])
        score = _half(q, torch.arange(n), self.base) @ _half(keys, at, self.base).transpose(-1, -2) * q.shape[-1] ** -0.5
        return score.masked_fill(at > at[-n:, None], -torch.inf).softmax(-1) @ values


def in_place(x: Tensor, positions: Tensor, base: float) -> Tensor:
    """The input is turned where it lies."""
    return x.copy_(_half(x, positions, base))


def along_heads(x: Tensor, positions: Tensor, base: float) -> Tensor:
    """Positions run along the head axis."""
    return _half(x.transpose(1, 2), int(positions[0]) + torch.arange(x.shape[1]), base).transpose(1, 2)


def heads_for_length(x: Tensor, positions: Tensor, base: float) -> Tensor:
    """The table is as long as there are heads."""
    return _half(x, positions[0] + (positions - positions[0]).clamp(max=x.shape[1] - 1), base)


def detached(x: Tensor, positions: Tensor, base: float) -> Tensor:
    """The gradient is cut."""
    return _half(x.detach(), positions, base)


class KeptInDtype(nn.Module):
    """A table kept in the dtype of the first call."""

    def __init__(self, base: float) -> None:
        super().__init__()
        self.base, self.dtype = base, None

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        self.dtype = self.dtype or x.dtype
        return _half(x.to(self.dtype), positions, self.base).to(x.dtype)


# fmt: off
FAULTS: tuple[Fault | Planted, ...] = (
    Fault("mixed-layouts", "the angles of one layout on the pairs of the other", "L14", changed(_mixed), cases=("B081",)),
    Fault("layout-ignored", "halves paired whatever the layout", "L14", lambda s: replace(s, layout="half"),
        cases=("B082",)),
    Fault("partner-of-head", "partners half a head away", "L14",
        turning(pairs=lambda s: [(m, m + s.head_dim // 2) for m in range(s.width() // 2)]),
        settings={**PARTIAL, "layout": "half"}),
    Fault("neighbours", "pairs (m, m + 1)", "L14", turning(pairs=lambda s: [(m, m + 1) for m in range(s.width() // 2)])),
    Fault("proportional-as-leading", "a rotation of its own in place of the head's first pairs", "L15",
        lambda s: replace(s, partial="leading"), settings={**PARTIAL, "partial": "proportional"}),
    Fault("partial-ignored", "the whole head turned", "L14", lambda s: replace(s, rotary_dim=None), settings=PARTIAL),
    Fault("not-put-back", "turned columns in the order of the other layout", "L14", changed(_not_put_back),
        levels=("contribution",), settings={"layout": "interleaved"}),
    Fault("overwritten", "a column read after it was overwritten", "L14", changed(_overwritten)),
    Fault("sine-for-cosine", "sine and cosine exchanged", "L14", changed(_quarter_turn)),
    Fault("backwards", "turning the other way", "L11", turning(angle=lambda p, θ: -p * θ)),
    Fault("keys-not-turned", "keys not turned", "L2",
        changed(lambda s, x, turned, positions, role: x if role == "key" else turned)),
    Fault("keys-turned-back", "keys turned against queries", "L2", changed(_keys_back)),
    Fault("values-too", "values turned as well", "L2", given=_values_too, levels=("attention",)),
    Fault("exponent-of-head", "the head's width in the exponent of a partial rotation", "L15",
        turning(lambda s, n: series(s.base, s.width() // 2, s.head_dim)), settings=PARTIAL),
    Fault("exponent-half", "the exponent m/r", "L15", turning(lambda s, n: series(s.base, s.width() // 2, 2 * s.width()))),
    Fault("pair-from-one", "pairs counted from 1", "L15", turning(lambda s, n: series(s.base, s.width() // 2, s.width(), 1))),
    Fault("frequencies-reversed", "frequencies in reverse order", "L15", turning(lambda s, n: list(s.frequencies(n)[::-1]))),
    Fault("one-frequency", "one frequency for all pairs", "L15", turning(lambda s, n: [1.0] * (s.width() // 2))),
    Fault("frequencies-bfloat16", "frequencies rounded to bfloat16", "L15",
        turning(lambda s, n: list(rounded(s.frequencies(n), "bfloat16")))),
    Fault("base-ignored", "base 10000 whatever is set", "L15", lambda s: replace(s, base=10000.0), settings={"base": 100.0}),
    Fault("turned-twice", "everything turned twice", "L15", turning(angle=lambda p, θ: 2 * p * θ), cases=("B116",)),
    Fault("angles-float16", "angles formed in float16", "L1",
        turning(angle=_angle_in("float16")), cases=("B108",), claims={"max_position": 2**15}),
    Fault("angles-bfloat16", "angles formed in bfloat16", "L1",
        turning(angle=_angle_in("bfloat16")), cases=("B108",)),
    Planted("counted-in-dtype", "positions counted in the dtype of x", "L18", counted_in_working_dtype,
        cases=("B109",), settings={"layout": "half"}, claims={"dtypes": ("float32", "bfloat16", "float16")}),
    Planted("counted-under-autocast", "positions counted in bfloat16 inside autocast", "L18", counted_under_autocast,
        settings=HALF),
    Planted("kept-by-length", "angles kept by their number, whatever the offset", "L4", KeptByLength, cases=("B095",),
        settings=HALF),
    Planted("kept-in-dtype", "a table in the dtype of the first call", "L4", KeptInDtype, settings=HALF,
        claims={"dtypes": ("float32", "bfloat16"), "level": "contribution"}),
    Planted("first-length", "a table as long as the first call", "L4", FirstLength, settings=HALF),
    Planted("steps-from-zero", "a decoder whose queries are always at 0", "L3", StepsFromZero, cases=("B097",),
        settings=HALF),
    Planted("in-place", "its input turned in place", "L4", in_place, cases=("B130",), settings=HALF),
    Planted("in-place-gradient", "a backward that fails on its overwritten input", "L20", in_place, cases=("B130",),
        settings=HALF),
    Planted("along-heads", "positions along the head axis", "L21", along_heads, cases=("B092",), settings=HALF),
    Planted("heads-for-length", "a table as long as there are heads", "L1", heads_for_length, cases=("B094",), settings=HALF),
    Planted("detached", "no gradient for the input", "L20", detached, settings=HALF),
    *PLANTED,
    *caches.ROPE,
    *rope_scaling.FAULTS,
)
# fmt: on
