"""Faults of a learned table of positions: which row is read, what happens beyond the last, and how the table learns."""

from collections.abc import Callable
from math import sqrt

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import embedding

from relpos.conformance.faults.api import Fault, Planted, Wrong
from relpos.conformance.plan import Inputs
from relpos.spec.learned import Learned


def _reading(row: Callable[[Learned, int], int]) -> Callable[[Learned], Wrong]:
    """Another row for position p."""
    return lambda s: Wrong(s, encode=lambda params, positions: params["table"][[row(s, p) for p in positions]])


def _last(s: Learned) -> int:
    return s.first_row + s.max_position - 1


def _counted_within(s: Learned) -> Wrong:
    """Vectors by the index within the call, whatever the positions."""
    return Wrong(s, encode=lambda params, positions: params["table"][s.first_row : s.first_row + len(positions)])


def _zero_beyond(s: Learned) -> Wrong:
    def encode(params, positions):
        rows = [s.row_of(p) if 0 <= p < s.max_position else None for p in positions]
        return np.stack([np.zeros(s.embed_dim) if r is None else params["table"][r] for r in rows])

    return Wrong(s, encode=encode)


def _table(change: Callable[[Learned, np.ndarray], np.ndarray]) -> Callable[[Inputs], Inputs]:
    return lambda i: i.but(params={"table": change(i.settings, i.params["table"])})


def _without(*names: str) -> Callable[[Inputs], Inputs]:
    """Some of queries, keys and values without their position."""

    def given(i: Inputs) -> Inputs:
        at = {"q": i.query_positions, "k": i.key_positions, "v": i.key_positions}
        e = {n: np.stack([i.settings.encode(i.params, at[n].row(b)) for b in range(len(i.q))]) for n in names}
        return i.but(**{n: getattr(i, n) - e[n][:, None] for n in names})

    return given


def renormalised(settings: Learned, table: Tensor, positions: Tensor) -> Tensor:
    """nn.Embedding(max_norm=1): rows that are read are shortened in the table itself."""
    return embedding(positions + settings.first_row, table, max_norm=1.0)


def added_in_place(settings: Learned, x: Tensor, table: Tensor) -> Tensor:
    """x += e."""
    x += table[settings.first_row : settings.first_row + x.shape[1]]
    return x


def along_batch(settings: Learned, x: Tensor, table: Tensor) -> Tensor:
    """Positions run along the samples."""
    return x + table[settings.first_row : settings.first_row + x.shape[0], None]


class _Assigned(torch.autograd.Function):
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
        found[rows] = gradient
        return found, None


def _attended(q: Tensor, k: Tensor, v: Tensor, queries: Tensor, keys: Tensor) -> Tensor:
    q, k, v = q + queries, k + keys, v + keys
    return torch.softmax(q @ k.transpose(-1, -2) / sqrt(q.shape[-1]), dim=-1) @ v


def assigned(settings: Learned, table, q, k, v, query_positions, key_positions) -> Tensor:
    """A row that several tokens read keeps the gradient of one of them."""
    first = settings.first_row
    at = (_Assigned.apply(table, positions + first) for positions in (query_positions, key_positions))
    return _attended(q, k, v, *at)


def detached(settings: Learned, table, q, k, v, query_positions, key_positions) -> Tensor:
    """The table does not learn."""
    return _attended(q, k, v, *(table.detach()[p + settings.first_row] for p in (query_positions, key_positions)))


def keys_only_learn(settings: Learned, table, q, k, v, query_positions, key_positions) -> Tensor:
    """What queries add is cut off from the table."""
    return _attended(q, k, v, table.detach()[query_positions + settings.first_row], table[key_positions + settings.first_row])


class KeptByLength(nn.Module):
    """Vectors kept by their number, whatever the offset, and while the table is trained."""

    def __init__(self, settings: Learned) -> None:
        super().__init__()
        self.settings, self.kept = settings, {}
        self.table = nn.Parameter(torch.zeros(settings.parameters()["table"]))

    def forward(self, query_length: int, offset: int) -> Tensor:
        if query_length not in self.kept:
            start = self.settings.first_row + offset
            self.kept[query_length] = self.table[start : start + query_length].detach()
        return self.kept[query_length].clone()


HAS_FIRST = {"first_row": 2}
SCORES = ("logits", "attention")
# fmt: off
FAULTS: tuple[Fault | Planted, ...] = (
    Fault("row-late", "every position with its neighbour's row", "L1", _reading(lambda s, p: min(s.row_of(p) + 1, _last(s)))),
    Fault("first-row-ignored", "position 0 reading row 0 whatever is set", "L1", _reading(lambda s, p: p), settings=HAS_FIRST),
    Fault("first-row-early", "padding_idx in place of padding_idx + 1", "L1", _reading(lambda s, p: p + s.first_row - 1),
        settings=HAS_FIRST),
    Fault("clamped", "positions beyond the table taken as its last", "L26",
        _reading(lambda s, p: s.row_of(min(p, s.max_position - 1)))),
    Fault("wrapped", "positions counted round the table", "L26", _reading(lambda s, p: s.row_of(p % s.max_position))),
    Fault("zero-beyond", "zeros for positions that have no vector", "L26", _zero_beyond),
    Fault("counted-within", "vectors by the index within a call, not by position", "L3", _counted_within, cases=("B107",)),
    Fault("table-reversed", "the table read backwards", "L1", given=_table(lambda s, t: t[::-1])),
    Fault("grown", "vectors multiplied by √D", "L1", given=_table(lambda s, t: t * sqrt(s.embed_dim)),
        settings={"embed_dim": 8}),
    Fault("values-alone", "values without their position", "L1", given=_without("v"), levels=("attention",)),
    Fault("queries-alone", "keys and values without their position", "L1", given=_without("k", "v"), levels=SCORES),
    Planted("renormalised", "a table that reading changes", "L4", renormalised),
    Planted("kept-by-length", "vectors kept by their number, whatever the offset", "L4", KeptByLength, cases=("B095",)),
    Planted("added-in-place", "the input changed in place", "L4", added_in_place),
    Planted("along-batch", "positions along the samples", "L21", along_batch),
    Planted("gradient-assigned", "a table gradient that is written, not added", "L20", assigned, cases=("B134",)),
    Planted("detached", "a table that gets no gradient", "L20", detached),
    Planted("keys-only-learn", "no gradient from what queries add", "L20", keys_only_learn),
)
# fmt: on
