"""Faults of xpos: roles, powers, the middle of the context, and keys kept from a shorter one."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from relpos.conformance.faults.api import Fault, Planted, Wrong
from relpos.conformance.faults.turning import series, turning
from relpos.conformance.plan import Inputs
from relpos.spec.positions import Positions
from relpos.spec.xpos import GAMMA, XPos

Powers = Callable[[XPos, Positions, str], np.ndarray]


def _powers(change: Powers) -> Callable[[XPos], Wrong]:
    """Other powers of the same ζ."""
    return turning(gains=lambda s, positions, role: s.decays() ** change(s, positions, role)[:, None])


def _decays(change: Callable[[XPos, np.ndarray], np.ndarray]) -> Callable[[XPos], Wrong]:
    """Other ζ: change(settings, m)."""
    pairs = lambda s: np.arange(s.width() // 2)  # noqa: E731
    return turning(gains=lambda s, at, role: np.abs(change(s, pairs(s))) ** s.powers(at, role)[:, None])


def _own_centre(s: XPos) -> Wrong:
    """Every side centred on its own rows."""
    alone = lambda p: p.in_context(len(p))  # noqa: E731
    return Wrong(s, rotate=lambda x, positions, role: s.rotate(x, alone(positions), role))


def _every_column(s: XPos) -> Wrong:
    def rotate(x, positions, role):
        found = s.rotate(x, positions, role)
        found[..., s.width() :] *= s.gains(positions, role)[:, :1]
        return found

    return Wrong(s, rotate=rotate)


def _values_too(i: Inputs) -> Inputs:
    return i.but(v=np.stack([i.settings.rotate(i.v[b], i.key_positions.row(b), "key") for b in range(len(i.v))]))


def _stretched(x: Tensor, positions: Tensor, context: int, sign: int, scale_base: float, base: float) -> Tensor:
    """The right rotation of x [..., L, D], centre rounded up."""
    r = x.shape[-1]
    columns = torch.arange(0, r, 2, dtype=torch.float64)
    angles = positions[:, None] * base ** (-columns / r)
    power = sign * (positions - (context + 1) // 2) / scale_base
    gain = ((columns + GAMMA * r) / ((1 + GAMMA) * r)) ** power[:, None]
    c, s = (angles.cos() * gain).to(x.dtype), (angles.sin() * gain).to(x.dtype)
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * c - b * s, a * s + b * c), dim=-1).flatten(-2)


class KeepsStretchedKeys:
    """A decoder that stretches keys once, around the middle of the context there was."""

    def __init__(self, scale_base: float, base: float) -> None:
        self.rule, self.kept = (scale_base, base), []

    def step(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        start, n = sum(k.shape[2] for k, _ in self.kept), q.shape[2]
        new, context = torch.arange(start, start + n), start + n
        self.kept.append((_stretched(k, new, context, -1, *self.rule), v))
        keys, values = (torch.cat(pieces, dim=2) for pieces in zip(*self.kept, strict=True))
        queries = _stretched(q, new, context, 1, *self.rule)
        score = queries @ keys.transpose(-1, -2) * q.shape[-1] ** -0.5
        return score.masked_fill(torch.arange(start + n) > new[:, None], -torch.inf).softmax(-1) @ values


def detached(x: Tensor, positions: Tensor, role: str, sequence_length: int, scale_base: float, base: float) -> Tensor:
    """The gradient is cut."""
    return _stretched(x.detach(), positions, sequence_length, 1 if role == "query" else -1, scale_base, base)


PARTIAL = {"head_dim": 8, "rotary_dim": 4}
PLAIN = {"rotary_dim": None, "centre": "ceil"}
SHORT = {"scale_base": 16.0}

# fmt: off
FAULTS = (
    Fault("role-ignored", "keys stretched like queries", "L2", _powers(lambda s, p, role: s.powers(p, "query")),
        settings=SHORT),
    Fault("roles-exchanged", "queries shrinking and keys growing", "L14", _powers(lambda s, p, role: -s.powers(p, role)),
        settings=SHORT),
    Fault("no-decay", "turned and not stretched", "L14", turning(gains=lambda s, p, role: 1.0), settings=SHORT),
    Fault("scale-base-ignored", "512 whatever scale base is set", "L14", lambda s: replace(s, scale_base=512.0),
        settings=SHORT),
    Fault("whole-powers", "a power divided without a remainder", "L14",
        _powers(lambda s, p, role: np.floor(s.powers(p, role))), settings=SHORT),
    Fault("power-of-index", "powers of the pair's index without γ", "L14",
        _decays(lambda s, m: (2 * m + 1) / s.width()), settings=SHORT),
    Fault("decays-of-head", "the head's width in ζ of a partial rotation", "L14",
        _decays(lambda s, m: (2 * m + GAMMA * s.head_dim) / ((1 + GAMMA) * s.head_dim)), settings={**SHORT, **PARTIAL}),
    Fault("every-column-stretched", "columns that are not turned stretched as well", "L14", _every_column,
        settings={**SHORT, **PARTIAL}),
    Fault("own-centre", "queries and keys each around the middle of their own rows", "L3", _own_centre,
        settings=SHORT),
    Fault("centre-rounded-up", "the middle rounded up", "L14", lambda s: replace(s, centre="ceil"),
        levels=("contribution",), settings={**SHORT, "centre": "floor"}),
    Fault("centre-forgotten", "powers counted from position 0", "L14",
        _powers(lambda s, p, role: (1 if role == "query" else -1) * p.array() / s.scale_base), levels=("contribution",),
        settings=SHORT),
    Fault("backwards", "turning the other way", "L11", turning(angle=lambda p, θ: -p * θ)),
    Fault("halves", "the columns of a pair half a head apart", "L14",
        turning(pairs=lambda s: [(m, m + s.width() // 2) for m in range(s.width() // 2)])),
    Fault("pair-from-one", "pairs counted from 1", "L15",
        turning(lambda s, n: series(s.base, s.width() // 2, max(s.width(), 1), 1))),
    Fault("base-ignored", "base 10000 whatever is set", "L15", lambda s: replace(s, base=10000.0), settings={"base": 100.0}),
    Fault("values-too", "values turned as well", "L1", given=_values_too, levels=("attention",)),
    Planted("keeps-stretched-keys", "keys stretched around the middle of a shorter context", "L3", KeepsStretchedKeys,
        cases=("B112",), settings={**PLAIN, **SHORT}),
    Planted("detached", "no gradient for the input", "L20", detached, settings=PLAIN),
)
# fmt: on
