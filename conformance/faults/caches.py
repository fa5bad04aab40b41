"""Caches that remember too little of what they were filled for, or too much: what only a history of calls can show."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from relpos.conformance.faults.api import Planted

Rows = Callable[[Any, Tensor], Tensor]  # settings, key minus query → rows of a table
HALF = {"layout": "half", "rotary_dim": None}
SYMMETRIC = {"distance": "symmetric", "num_biased_heads": None}
TWO_DTYPES = {"dtypes": ("float32", "bfloat16"), "level": "contribution"}


def _frequencies(width: int, base: float) -> Tensor:
    return base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)


def _turned(x: Tensor, c: Tensor, s: Tensor) -> Tensor:
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * c - b * s, a * s + b * c), dim=-1)


def _table(positions: Tensor, width: int, base: float) -> tuple[Tensor, Tensor]:
    angles = positions[..., None] * _frequencies(width, base)
    return angles.cos(), angles.sin()


def _key(positions: Tensor) -> tuple[int, ...]:
    return tuple(positions.flatten().tolist())


class WithoutDtype(nn.Module):
    """A table kept by its positions, in the dtype of whoever came first."""

    def __init__(self, base: float) -> None:
        super().__init__()
        self.base, self.kept = base, {}

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        if _key(positions) not in self.kept:
            with torch.inference_mode(False):
                self.kept[_key(positions)] = [t.to(x.dtype) for t in _table(positions.clone(), x.shape[-1], self.base)]
        return _turned(x, *(t.to(x.dtype) for t in self.kept[_key(positions)]))


class FilledUnderInference(nn.Module):
    """A table kept by all that it depends on, but born in whatever mode the first call was made."""

    def __init__(self, base: float) -> None:
        super().__init__()
        self.base, self.kept = base, {}

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        key = (_key(positions), x.dtype, x.device)
        if key not in self.kept:
            self.kept[key] = [t.to(x.dtype) for t in _table(positions, x.shape[-1], self.base)]
        return _turned(x, *self.kept[key])


class FilledUnderAutocast(nn.Module):
    """Angles by a product that autocast rounds, kept in float32 for later calls without it."""

    def __init__(self, base: float) -> None:
        super().__init__()
        self.base, self.kept = base, {}

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        key = _key(positions)
        if key not in self.kept:
            with torch.inference_mode(False):
                θ = _frequencies(x.shape[-1], self.base).float()
                self.kept[key] = (positions.clone().float()[..., None] @ θ[None]).float()
        return _turned(x, self.kept[key].cos().to(x.dtype), self.kept[key].sin().to(x.dtype))


class SlicedFromTheEnd(nn.Module):
    """A growing table whose last rows are taken: those of this call only if it reached farther than all before."""

    def __init__(self, base: float) -> None:
        super().__init__()
        self.base, self.longest = base, 0

    def forward(self, x: Tensor, offset: int) -> Tensor:
        self.longest = max(self.longest, offset + x.shape[-2])
        c, s = _table(torch.arange(self.longest)[-x.shape[-2] :], x.shape[-1], self.base)
        return _turned(x, c.to(x.dtype), s.to(x.dtype))


_KEPT: dict[tuple[int, ...], tuple[Tensor, Tensor]] = {}


def without_base(x: Tensor, positions: Tensor, base: float) -> Tensor:
    """One table for the whole process, kept by positions and width whatever the base."""
    key = (*_key(positions), x.shape[-1])
    if key not in _KEPT:
        with torch.inference_mode(False):
            _KEPT[key] = _table(positions.clone(), x.shape[-1], base)
    return _turned(x, *(t.to(x.dtype) for t in _KEPT[key]))


class SharedByAll(nn.Module):
    """A module whose table is the whole process's, whatever base another instance filled it with."""

    def __init__(self, base: float) -> None:
        super().__init__()
        self.base = base

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        return without_base(x, positions, self.base)


class KeepsThePositions(nn.Module):
    """The caller's own positions are kept, to see whether they are the same: written anew in their place, they always are."""

    def __init__(self, settings: Any) -> None:
        super().__init__()
        self.settings, self.at, self.bias = settings, (torch.zeros(0), torch.zeros(0)), torch.zeros(0)

    def forward(self, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        if not all(map(torch.equal, self.at, (query_positions, key_positions))):
            self.at = query_positions, key_positions
            distance = (query_positions[:, None] - key_positions).abs()
            self.bias = -torch.tensor(self.settings.slopes(), dtype=torch.float32)[:, None, None] * distance
        return self.bias.clone()


class SlicedCorner(nn.Module):
    """The largest bias so far is kept, and its top left corner handed out, whatever the offset."""

    def __init__(self, settings: Any) -> None:
        super().__init__()
        self.settings, self.kept = settings, torch.zeros(settings.num_heads, 0, 0)

    def forward(self, query_length: int, key_length: int, offset: int) -> Tensor:
        if query_length > self.kept.shape[1] or key_length > self.kept.shape[2]:
            distance = (torch.arange(offset, offset + query_length)[:, None] - torch.arange(key_length)).abs()
            self.kept = -torch.tensor(self.settings.slopes(), dtype=torch.float32)[:, None, None] * distance
        return self.kept[:, :query_length, :key_length].clone()


def _kept(rows: Rows, *, dropped: bool, graph: bool, always: bool) -> type[nn.Module]:
    """A module that keeps its bias: in train mode too (`always`), until training begins (`dropped`), with its graph."""

    class Kept(nn.Module):
        def __init__(self, settings) -> None:
            super().__init__()
            self.settings, self.kept = settings, {}
            self.table = nn.Parameter(torch.zeros(settings.parameters()["table"]))

        def train(self, mode: bool = True) -> nn.Module:
            if mode and dropped and hasattr(self, "kept"):
                self.kept.clear()
            return super().train(mode)

        def forward(self, query_length: int, key_length: int, offset: int) -> Tensor:
            size = (query_length, key_length, offset, self.table._version if graph else 0, torch.is_grad_enabled())
            far = torch.arange(key_length) - torch.arange(offset, offset + query_length)[:, None]
            if size in self.kept and (always or not self.training):
                return self.kept[size].clone()
            found = self.table[rows(self.settings, far)].permute(2, 0, 1)
            if always or not (self.training or torch.is_grad_enabled()):
                self.kept[size] = found if graph else found.detach()
            return found.clone()

    return Kept


def asked_for_weights(rows: Rows) -> type[nn.Module]:
    """Attention that, once it was asked for its weights as well, takes them for the bias that its layers share."""

    class Asked(nn.Module):
        def __init__(self, settings) -> None:
            super().__init__()
            self.settings, self.slot = settings, None
            self.table = nn.Parameter(torch.zeros(settings.parameters()["table"]))

        def forward(self, q: Tensor, k: Tensor, v: Tensor, query_positions: Tensor, key_positions: Tensor, scale: float,
                    need_weights: bool = False) -> Any:  # fmt: skip
            key = (_key(query_positions), _key(key_positions), q.shape)
            shared = self.table[rows(self.settings, key_positions - query_positions[:, None])].permute(2, 0, 1)
            bias = self.slot[1] if self.slot is not None and self.slot[0] == key else shared
            weights = (scale * q @ k.transpose(-1, -2) + bias.to(q.dtype)).softmax(-1)
            if need_weights:
                self.slot = (key, weights.detach().clone())
            return (weights @ v, weights) if need_weights else weights @ v

    return Asked


# fmt: off
ROPE = (
    Planted("kept-without-dtype", "a table kept by positions, in the first caller's dtype", "L4", WithoutDtype,
        settings=HALF, claims=TWO_DTYPES),
    Planted("kept-without-base", "a table kept by positions, whatever the base", "L4", without_base, settings=HALF),
    Planted("shared-by-all", "a table that all modules share, whatever their base", "L4", SharedByAll, settings=HALF),
    Planted("filled-under-inference", "a table born under inference_mode", "L4", FilledUnderInference, settings=HALF),
    Planted("filled-under-autocast", "angles kept that autocast has rounded", "L4", FilledUnderAutocast, settings=HALF,
        claims=TWO_DTYPES),
    Planted("sliced-from-the-end", "the last rows of a table that has grown", "L4", SlicedFromTheEnd, settings=HALF),
)
ALIBI = (
    Planted("sliced-corner", "the corner of a larger bias, whatever the offset", "L4", SlicedCorner,
        settings=SYMMETRIC),
    Planted("keeps-the-positions", "the caller's tensors of positions kept", "L4", KeepsThePositions, settings=SYMMETRIC),
)
# fmt: on


def of_tables(rows: Rows, settings: Mapping[str, Any]) -> tuple[Planted, ...]:
    """Those of a table of numbers per distance, whose rows, under these settings, are given right."""
    stale = _kept(rows, dropped=False, graph=False, always=False)
    trained = _kept(rows, dropped=True, graph=False, always=False)
    graph = _kept(rows, dropped=False, graph=True, always=True)
    return (
        Planted("kept-in-eval", "a bias of eval mode that outlives training", "L4", stale, settings=settings),
        Planted("kept-while-loading", "a bias that a loaded table does not replace", "L4", trained, settings=settings),
        Planted("kept-with-graph", "a bias kept with the graph of its first backward", "L4", graph, settings=settings),
    )
