"""Faults of the sinusoid: frequencies, columns, and tables that are kept too long."""

from collections.abc import Callable
from dataclasses import replace
from math import cos, pi, sin, sqrt

import numpy as np
import torch
from torch import Tensor, nn

from relpos.conformance.faults.api import Fault, Planted, Wrong
from relpos.conformance.plan import Inputs
from relpos.spec.positions import Positions, Range
from relpos.spec.sinusoidal import Sinusoidal

CAPACITY = 16  # rows of a table that is handed out


def _encoded(s: Sinusoidal, positions: Positions, sines: np.ndarray, cosines: np.ndarray) -> np.ndarray:
    e = np.zeros((len(positions), s.embed_dim))
    for a, p in enumerate(positions):
        for m, (sine, cosine) in enumerate(s.columns()):
            e[a, sine] = sin(p * sines[m])
            if cosine < s.embed_dim:
                e[a, cosine] = cos(p * cosines[m])
    return e


def _waves(sines: Callable[[Sinusoidal, np.ndarray], np.ndarray], cosines=None) -> Callable[[Sinusoidal], Wrong]:
    """Other frequencies, from the settings and the right ones; the same for sines and cosines unless told."""

    def wrong(s: Sinusoidal) -> Wrong:
        θ = s.frequencies()
        first = sines(s, θ)
        second = first if cosines is None else cosines(s, θ)
        faster = np.maximum(np.abs(first), np.abs(second))
        return Wrong(s, frequencies=lambda: faster, encode=lambda positions: _encoded(s, positions, first, second))

    return wrong


def _powers(base: float, exponents: Callable[[int, int], float]) -> Callable[[Sinusoidal, np.ndarray], np.ndarray]:
    return lambda s, θ: np.array([base ** -exponents(m, s.embed_dim) for m in range(len(θ))])


def _changed(change: Callable[[Sinusoidal, np.ndarray], np.ndarray]) -> Callable[[Sinusoidal], Wrong]:
    """The right vectors, changed afterwards."""
    return lambda s: Wrong(s, encode=lambda positions: change(s, s.encode(positions)))


def _cosine_first(s: Sinusoidal, e: np.ndarray) -> np.ndarray:
    out = e.copy()
    for sine, cosine in s.columns():
        if cosine < s.embed_dim:
            out[:, sine], out[:, cosine] = e[:, cosine], e[:, sine]
    return out


def _odd_column_zero(s: Sinusoidal, e: np.ndarray) -> np.ndarray:
    e[:, -1] = 0.0
    return e


def _per_length(s: Sinusoidal) -> Wrong:
    """The base is the number of positions, as where it was taken for a length."""
    return Wrong(s, encode=lambda positions: replace(s, base=float(len(positions) + 1)).encode(positions))


def _values_alone(i: Inputs) -> Inputs:
    e = np.stack([i.settings.encode(i.key_positions.row(b)) for b in range(len(i.v))])
    return i.but(v=i.v - e[:, None])


def _rows(settings: Sinusoidal, start: int, length: int) -> Tensor:
    return torch.tensor(settings.encode(Range(start, length)), dtype=torch.float32)


def even_only(embed_dim, positions):
    """Sines and cosines written into halves of one size."""
    angles = positions[:, None] * 10000.0 ** (-torch.arange(0, embed_dim, 2) / embed_dim)
    e = torch.zeros(len(positions), embed_dim)
    e[:, 0::2], e[:, 1::2] = angles.sin(), angles.cos()
    return e


class KeptByLength(nn.Module):
    """Vectors kept by their number, whatever the offset."""

    def __init__(self, settings: Sinusoidal) -> None:
        super().__init__()
        self.settings, self.kept = settings, {}

    def forward(self, query_length: int, offset: int) -> Tensor:
        if query_length not in self.kept:
            self.kept[query_length] = _rows(self.settings, offset, query_length)
        return self.kept[query_length].clone()


class Aliased(nn.Module):
    """A slice of the table, not a copy of it."""

    def __init__(self, settings: Sinusoidal) -> None:
        super().__init__()
        self.table = _rows(settings, 0, CAPACITY)

    def forward(self, query_length: int) -> Tensor:
        return self.table[:query_length]


class FrequenciesCast(nn.Module):
    """Frequencies in a buffer, which a cast of the model rounds for good."""

    frequencies: Tensor

    def __init__(self, settings: Sinusoidal) -> None:
        super().__init__()
        self.settings = settings
        self.register_buffer("frequencies", torch.tensor(settings.frequencies(), dtype=torch.float32))

    def forward(self, positions: Tensor) -> Tensor:
        angles = positions[:, None] * self.frequencies
        return torch.stack([angles.sin(), angles.cos()], -1).flatten(-2)


def added_in_place(settings: Sinusoidal, x: Tensor) -> Tensor:
    """x += e."""
    x += _rows(settings, 0, x.shape[1])
    return x


def detached(settings: Sinusoidal, x: Tensor) -> Tensor:
    """The gradient of x is cut."""
    return x.detach() + _rows(settings, 0, x.shape[1])


def along_batch(settings: Sinusoidal, x: Tensor) -> Tensor:
    """Positions run along the samples, as where the batch is thought to come second."""
    return x + _rows(settings, 0, x.shape[0])[:, None]


INTERLEAVED = {"layout": "interleaved", "base": 10000.0}

# fmt: off
FAULTS = (
    Fault("per-column", "a frequency of its own for every column", "L2",
        _waves(lambda s, θ: θ, lambda s, θ: θ * s.base ** (-1 / s.embed_dim))),
    Fault("index-of-column", "the column's index where the pair's belongs", "L2",
        _waves(lambda s, θ: θ**2, lambda s, θ: θ**2 * s.base ** (-2 / s.embed_dim)), cases=("B076",)),
    Fault("base-1000", "base 1000 and odd exponents on cosines", "L15",
        _waves(_powers(1000.0, lambda m, D: 2 * m / D), _powers(1000.0, lambda m, D: (2 * m + 1) / D)), cases=("B077",),
        settings=INTERLEAVED),
    Fault("base-ignored", "base 10000 whatever is set", "L15", lambda s: replace(s, base=10000.0), settings={"base": 100.0}),
    Fault("exponent-half", "the exponent m/D", "L15", _waves(_powers(10000.0, lambda m, D: m / D)), settings=INTERLEAVED),
    Fault("exponent-to-the-end", "the exponent 2m/(D − 2)", "L15",
        _waves(_powers(10000.0, lambda m, D: 2 * m / max(D - 2, 1))), settings=INTERLEAVED),
    Fault("pair-from-one", "pairs counted from 1", "L15", _waves(_powers(10000.0, lambda m, D: 2 * (m + 1) / D)),
        settings=INTERLEAVED),
    Fault("full-turns", "frequencies in turns, not radians", "L15", _waves(lambda s, θ: 2 * pi * θ)),
    Fault("bases-of-length", "frequencies that depend on the number of positions", "L15", _per_length),
    Fault("cosine-first", "cosine before sine", "L15", _changed(_cosine_first)),
    Fault("backwards", "positions counted backwards", "L15", _waves(lambda s, θ: -θ)),
    Fault("grown", "vectors multiplied by √D", "L1", _changed(lambda s, e: e * sqrt(s.embed_dim)), settings={"embed_dim": 8}),
    Fault("odd-column-zero", "zeros in the last column of an odd width", "L1", _changed(_odd_column_zero), cases=("B075",),
        settings={"embed_dim": 5, **INTERLEAVED}),
    Fault("values-alone", "values without their position", "L1", given=_values_alone, levels=("attention",)),
    Planted("odd-width", "a crash at an odd width", "L26", even_only, cases=("B075",)),
    Planted("kept-by-length", "vectors kept by their number, whatever the offset", "L4", KeptByLength, cases=("B095",)),
    Planted("aliased", "its table handed out", "L4", Aliased, claims={"max_length": CAPACITY}),
    Planted("frequencies-cast", "frequencies that are cast with the model", "L23", FrequenciesCast,
        settings={"embed_dim": 8, **INTERLEAVED}),
    Planted("added-in-place", "the input changed in place", "L4", added_in_place),
    Planted("detached", "no gradient for the input", "L20", detached),
    Planted("along-batch", "positions along the samples", "L21", along_batch),
)
# fmt: on
