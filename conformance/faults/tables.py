"""Faults of any table of numbers per distance: how it is read, kept between calls, and given gradients."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from relpos.conformance.faults.api import Fault, Planted
from relpos.conformance.plan import Inputs

SPAN = 64  # the farthest distance in a line of rows
Rows = Callable[[Any, Tensor], Tensor]  # settings, key minus query → rows


def _table(change: Callable[[np.ndarray], np.ndarray]) -> Callable[[Inputs], Inputs]:
    return lambda i: i.but(params={name: change(value) for name, value in i.params.items()})


def _turned(table: np.ndarray) -> np.ndarray:
    """A table stored as [heads, rows], read as [rows, heads]."""
    return table.reshape(table.shape[::-1]).T


class Assigned(torch.autograd.Function):
    """table[rows], whose backward writes where it should add."""

    @staticmethod
    def forward(ctx, table: Tensor, rows: Tensor) -> Tensor:
        ctx.save_for_backward(rows)
        ctx.shape = table.shape
        return table[rows]

    @staticmethod
    def backward(ctx, gradient: Tensor):
        (rows,) = ctx.saved_tensors
        found = gradient.new_zeros(ctx.shape)
        found[rows.flatten()] = gradient.flatten(0, -2)
        return found, None


def _far(query_positions: Tensor, key_positions: Tensor) -> Tensor:
    return key_positions - query_positions[:, None]


def _contiguous(query_length: int, key_length: int, offset: int) -> Tensor:
    return _far(torch.arange(offset, offset + query_length), torch.arange(key_length))


def read(rows: Rows, lookup: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    """A bias whose table is looked up in some way."""

    def bias(settings, table: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        return lookup(table, rows(settings, _far(query_positions, key_positions))).permute(2, 0, 1)

    return bias


def kept(rows: Rows, *, numbers: bool) -> type[nn.Module]:
    """A module that keeps rows by lengths whatever the offset, or numbers of a table that has since been trained."""

    class Kept(nn.Module):
        def __init__(self, settings) -> None:
            super().__init__()
            self.settings, self.kept = settings, {}
            self.table = nn.Parameter(torch.zeros(settings.parameters()["table"]))

        def forward(self, query_length: int, key_length: int, offset: int) -> Tensor:
            size = (query_length, key_length, offset) if numbers else (query_length, key_length)
            if size not in self.kept:
                r = rows(self.settings, _contiguous(query_length, key_length, offset))
                self.kept[size] = self.table[r].detach() if numbers else r
            found = self.kept[size].clone()
            return (found if numbers else self.table[found]).permute(2, 0, 1)

    return Kept


def index_outside_state(rows: Rows) -> type[nn.Module]:
    """A module whose rows are a buffer that is not saved: built on the meta device, they hold anything after loading."""

    class Indexed(nn.Module):
        rows: Tensor

        def __init__(self, settings) -> None:
            super().__init__()
            line = rows(settings, torch.arange(-SPAN, SPAN + 1)[None])[0]
            self.register_buffer("rows", line, persistent=False)
            self.table = nn.Parameter(torch.zeros(settings.parameters()["table"]))

        def forward(self, query_length: int, key_length: int) -> Tensor:
            return self.table[self.rows[SPAN + _contiguous(query_length, key_length, 0)]].permute(2, 0, 1)

    return Indexed


def silent_in_step(rows: Rows) -> Callable[..., Tensor]:
    """Once there is a cache, the path without a bias is taken."""

    def bias(settings, table: Tensor, query_length: int, key_length: int, offset: int) -> Tensor:
        found = table[rows(settings, _contiguous(query_length, key_length, offset))].permute(2, 0, 1)
        return found * 0 if query_length == 1 else found

    return bias


def learns_beside(rows: Rows) -> Callable[..., Tensor]:
    """Nothing is saved for backward where only the table needs a gradient."""

    def logits(settings, table: Tensor, q: Tensor, k: Tensor, query_positions: Tensor, key_positions: Tensor, scale) -> Tensor:
        with torch.set_grad_enabled(q.requires_grad or k.requires_grad):
            bias = table[rows(settings, _far(query_positions, key_positions))].permute(2, 0, 1)
            return scale * q @ k.transpose(-1, -2) + bias

    return logits


def of_tables(rows: Rows, settings: Mapping[str, Any]) -> tuple[Fault | Planted, ...]:
    """The faults of this file for a scheme whose rows, under these settings, are given right."""
    planted = (
        ("gathered-kept", "numbers of the table kept while it is trained", "L4", kept(rows, numbers=True), ()),
        ("kept-by-length", "rows kept by lengths, whatever the offset", "L4", kept(rows, numbers=False), ()),
        ("index-outside-state", "rows in a buffer that is not saved", "L23", index_outside_state(rows), ("B066",)),
        ("silent-in-step", "no bias in a step of one", "L3", silent_in_step(rows), ("B029",)),
        ("detached", "a table that gets no gradient", "L20", read(rows, lambda table, r: table.detach()[r]), ()),
        ("gradient-assigned", "a table gradient that is written, not added", "L20", read(rows, Assigned.apply), ("B134",)),
        ("learns-beside", "no table gradient while q and k are frozen", "L20", learns_beside(rows), ("B133",)),
    )
    return (
        Fault("table-reversed", "the table read backwards", "L12", given=_table(lambda t: t[::-1]), settings=settings),
        Fault("table-turned", "a table laid out [heads, rows]", "L1", given=_table(_turned)),
        Fault("first-head", "the first head's numbers for all", "L1",
            given=_table(lambda t: np.repeat(t[:, :1], t.shape[1], 1))),
        Fault("subtracted", "the bias taken off the score", "L1", given=_table(lambda t: -t), settings=settings),
        Fault("heads-shifted", "every head with its neighbour's numbers", "L1", given=_table(lambda t: np.roll(t, 1, axis=1))),
        *(Planted(name, says, law, target, cases, settings) for name, says, law, target, cases in planted),
    )  # fmt: skip
