"""Faults of length scaling: thresholds, bases, ramps, magnitudes, and what is kept from one length for another."""

from collections.abc import Callable
from dataclasses import replace
from math import log, pi
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from relpos.conformance.faults.api import Fault, Planted, Wrong
from relpos.conformance.faults.turning import series, turning
from relpos.conformance.plan import Inputs
from relpos.spec.positions import Explicit, in_one_context
from relpos.spec.rope import RoPE

DYNAMIC = {"scaling": "dynamic", "factor": 2.0, "max_position": 4, "partial": "leading"}
YARN = {"scaling": "yarn", "factor": 4.0, "original_max_position": 512, "ramp": "code", "truncate": True}
FINAL = {**YARN, "attention_factor": 0.9, "mscale": None, "mscale_all_dim": None}
OWN = {**FINAL, "attention_factor": None}
RATIO = {**YARN, "factor": 40.0, "mscale": 1.0, "mscale_all_dim": 1.0, "attention_factor": None}
LLAMA3 = {"scaling": "llama3", "factor": 8.0, "original_max_position": 128}
LINEAR, NTK = {"scaling": "linear", "factor": 4.0}, {"scaling": "ntk", "factor": 2.0}
PARTIAL = {"head_dim": 8, "rotary_dim": 4, "partial": "leading"}
HALF = {"layout": "half", "rotary_dim": None, **DYNAMIC}


def _base(s: RoPE, base: float) -> list[float]:
    return series(base, s.width() // 2, max(s.width(), 1))


def _plain(s: RoPE) -> np.ndarray:
    return np.array(_base(s, s.base))


def _own(s: RoPE) -> float:
    return 0.1 * log(s.factor or 1) + 1


def _longer(change: Callable[[RoPE, int], int]) -> Callable[[RoPE], Wrong]:
    """Another length taken for that of the context."""
    return turning(lambda s, n: s.frequencies(change(s, n or 0)))


def _mixed(weight: Callable[[RoPE, np.ndarray], Any]) -> Callable[[RoPE], Wrong]:
    """Another share of every frequency kept."""

    def frequencies(s: RoPE, n: int | None) -> np.ndarray:
        θ = _plain(s)
        γ = np.clip(weight(s, θ), 0, 1)
        return γ * θ + (1 - γ) * θ / s.factor

    return turning(frequencies)


def _share(s: RoPE, θ: np.ndarray) -> np.ndarray:
    """The share that the rule keeps, read off the right frequencies."""
    return (s.frequencies() - θ / s.factor) / (θ - θ / s.factor)


def _by_wavelength(s: Any, θ: np.ndarray) -> np.ndarray:
    λ, L = 2 * pi / θ, s.original_max_position
    return (L / 1.0 - λ) / (L / 1.0 - L / 4.0)


def _whole_head(s: RoPE) -> Wrong:
    untouched = slice(s.width(), None)

    def rotate(x, positions, role):
        turned = s.rotate(x, positions, role)
        turned[..., untouched] *= _own(s)
        return turned

    return Wrong(s, rotate=rotate)


def _longest(i: Inputs) -> Inputs:
    """All samples in the context of the longest."""
    queries, keys = in_one_context(i.query_positions, i.key_positions, i.plan.batch)
    most = max(queries.row(b).context() for b in range(i.plan.batch))
    return i.but(query_positions=queries.in_context(most), key_positions=keys.in_context(most))


def _length_of_x(i: Inputs) -> Inputs:
    count = lambda p: Explicit(p.array(), context_length=len(p))  # noqa: E731
    return i.but(query_positions=count(i.query_positions), key_positions=count(i.key_positions))


def _enlarged(base: float, factor: float, max_position: int, r: int, n: int) -> float:
    return base * (factor * max(n, max_position) / max_position - (factor - 1)) ** (r / (r - 2))


def _half(x: Tensor, positions: Tensor, base: float) -> Tensor:
    """Columns paired as halves, turned."""
    r = x.shape[-1]
    angles = positions[..., None] * base ** (-torch.arange(0, r, 2, dtype=torch.float64) / r)
    c, s = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * c - b * s, a * s + b * c), dim=-1)


class StaysEnlarged(nn.Module):
    """The base of the longest context so far, for shorter ones too."""

    def __init__(self, base: float, factor: float, max_position: int) -> None:
        super().__init__()
        self.rule, self.longest = (base, factor, max_position), 0

    def forward(self, x: Tensor, offset: int, sequence_length: int) -> Tensor:
        self.longest = max(self.longest, sequence_length)
        at = torch.arange(offset, offset + x.shape[-2])
        return _half(x, at, _enlarged(*self.rule, x.shape[-1], self.longest))


class KeepsTurnedKeys:
    """A decoder that turns keys once, by the base of the length there was when they came."""

    def __init__(self, base: float, factor: float, max_position: int) -> None:
        self.rule = (base, factor, max_position)
        self.kept: list[tuple[Tensor, Tensor]] = []

    def step(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        start, n = sum(k.shape[2] for k, _ in self.kept), q.shape[2]
        base, new = _enlarged(*self.rule, q.shape[-1], start + n), torch.arange(start, start + n)
        self.kept.append((_half(k, new, base), v))
        keys, values = (torch.cat(pieces, dim=2) for pieces in zip(*self.kept, strict=True))
        score = _half(q, new, base) @ keys.transpose(-1, -2) * q.shape[-1] ** -0.5
        return score.masked_fill(torch.arange(start + n) > new[:, None], -torch.inf).softmax(-1) @ values


class CountsThePast:
    """A decoder that turns all keys anew, in a step of one token by the length there was before it."""

    def __init__(self, base: float, factor: float, max_position: int) -> None:
        self.rule = (base, factor, max_position)
        self.kept: list[tuple[Tensor, Tensor]] = []

    def step(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        self.kept.append((k, v))
        keys, values = (torch.cat(pieces, dim=2) for pieces in zip(*self.kept, strict=True))
        there = torch.arange(keys.shape[2])
        new = there[-q.shape[2] :]
        base = _enlarged(*self.rule, q.shape[-1], len(there) - (q.shape[2] == 1))
        score = _half(q, new, base) @ _half(keys, there, base).transpose(-1, -2) * q.shape[-1] ** -0.5
        return score.masked_fill(there > new[:, None], -torch.inf).softmax(-1) @ values


# fmt: off
FAULTS = (
    Fault("scaled-too-early", "scaling from one token before its threshold", "L17", _longer(lambda s, n: n + 1),
        cases=("B123",), settings=DYNAMIC),
    Fault("scaled-too-late", "a context counted one token short", "L17", _longer(lambda s, n: n - 1), settings=DYNAMIC),
    Fault("scaled-within", "the base for the whole reach within the trained length too", "L17",
        _longer(lambda s, n: max(n, 2 * (s.max_position or 0))), cases=("B113", "B115"), settings=DYNAMIC),
    Fault("never-scaled", "the base of the trained length however long the context", "L17", _longer(lambda s, n: 0),
        settings=DYNAMIC),
    Fault("dynamic-as-static", "the base enlarged by the factor at every length", "L17",
        turning(lambda s, n: _base(s, s.base * s.factor ** (s.width() / (s.width() - 2)))), settings=DYNAMIC),
    Fault("dynamic-as-linear", "positions divided where the base should grow", "L17",
        turning(lambda s, n: _plain(s) / s.factor), settings=DYNAMIC),
    Fault("dynamic-without-subtraction", "a base that jumps at the threshold, f − 1 not taken off", "L17",
        turning(lambda s, n: _base(s, s.base * max(s.factor * (n or 0) / s.max_position, 1) ** (s.width() / (s.width() - 2)))),
        settings=DYNAMIC),
    Fault("length-of-x", "the number of rows taken for the length of the context", "L3", given=_length_of_x,
        levels=("contribution",), settings=DYNAMIC),
    Fault("longest-sample", "all samples scaled for the longest", "L1", given=_longest, cases=("B127",), settings=DYNAMIC,
        claims={"positions": "per_row"}),
    Fault("linear-times", "frequencies multiplied by the factor", "L17", turning(lambda s, n: _plain(s) * s.factor),
        settings=LINEAR),
    Fault("linear-on-base", "the base divided in place of positions", "L17",
        turning(lambda s, n: _base(s, s.base / s.factor)), settings=LINEAR),
    Fault("ntk-without-power", "the base multiplied by the factor alone", "L17",
        turning(lambda s, n: _base(s, s.base * s.factor)), settings=NTK),
    Fault("ntk-of-head", "the head's width in r/(r − 2) of a partial rotation", "L17",
        turning(lambda s, n: _base(s, s.base * s.factor ** (s.head_dim / (s.head_dim - 2)))), settings={**NTK, **PARTIAL}),
    Fault("scaling-ignored", "no scaling whatever is set", "L17", turning(lambda s, n: _plain(s)), settings=NTK),
    Fault("ramp-reversed", "slow pairs kept and fast ones scaled", "L17", _mixed(lambda s, θ: 1 - _share(s, θ)), settings=YARN),
    Fault("ramp-of-the-paper", "a ramp linear in turns where the code's is meant", "L17", lambda s: replace(s, ramp="paper"),
        settings=YARN),
    Fault("ramp-of-the-code", "a ramp linear in m where the paper's is meant", "L17", lambda s: replace(s, ramp="code"),
        settings={**YARN, "ramp": "paper"}),
    Fault("ramp-not-rounded", "a ramp whose ends are not whole pairs", "L17", lambda s: replace(s, truncate=False),
        settings=YARN),
    Fault("magnitude-missing", "cosine and sine not multiplied", "L17", turning(gains=lambda s, p, role: 1.0), settings=OWN),
    Fault("magnitude-squared", "cosine and sine multiplied twice", "L17",
        turning(gains=lambda s, p, role: s.gains(p, role) ** 2), settings=OWN),
    Fault("magnitude-on-queries", "queries multiplied and keys not", "L17",
        turning(gains=lambda s, p, role: s.gains(p, role) if role == "query" else 1.0), settings=OWN),
    Fault("final-magnitude-again", "a final magnitude multiplied by the rule's own", "L17",
        turning(gains=lambda s, p, role: s.gains(p, role) * _own(s)), cases=("B117",), settings=FINAL),
    Fault("final-magnitude-dropped", "the rule's own magnitude where one is given", "L17",
        turning(gains=lambda s, p, role: _own(s)), cases=("B118",), settings=FINAL),
    Fault("ratio-as-single", "0.1 ln f + 1 where mscale and mscale_all_dim give a ratio", "L17",
        turning(gains=lambda s, p, role: _own(s)), cases=("B121",), settings=RATIO),
    Fault("magnitude-of-head", "columns that are not turned multiplied as well", "L14", _whole_head,
        settings={**OWN, **PARTIAL, "ramp": "code"}),
    Fault("bands-exchanged", "fast pairs scaled and slow ones kept", "L17", _mixed(lambda s, θ: 1 - _share(s, θ)),
        settings=LLAMA3),
    Fault("blend-of-wavelengths", "a blend linear in the wavelength, not in turns", "L17", _mixed(_by_wavelength),
        settings=LLAMA3),
    Fault("hard-coded-band", "Meta's 8192 tokens whatever is set", "L17",
        lambda s: replace(s, original_max_position=8192), settings=LLAMA3),
    Planted("stays-enlarged", "a base that stays enlarged after one long call", "L4", StaysEnlarged, cases=("B111",),
        settings=HALF, claims={"level": "contribution"}),
    Planted("counts-the-past", "the length before a step of one token taken for that after it", "L3", CountsThePast,
        cases=("B112",), settings={**HALF, "max_position": 7}),
    Planted("keeps-turned-keys", "keys that keep the base of a shorter context", "L3", KeepsTurnedKeys, cases=("B112",),
        settings=HALF),
)
# fmt: on
