"""Faults of any table over a window: how its rows are counted, kept and given gradients, and how it is resized."""

from collections.abc import Callable, Mapping
from math import isqrt, prod
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from relpos.conformance.faults.api import Fault, Planted, Wrong
from relpos.conformance.faults.tables import Assigned
from relpos.conformance.plan import Inputs
from relpos.spec.positions import Explicit, Grid

Row = Callable[[tuple[int, int], tuple[int, int]], int]  # offset, query minus key, and window → row
FLAT = {"window_size": (2, 3), "sign": "query_minus_key"}
SQUARE = {"window_size": (3, 3), "sign": "query_minus_key"}


def counted(row: Row) -> Callable[[Any], Any]:
    """Rows counted in another way; a negative one wraps around, one past the offsets comes out of the table as well."""

    def wrong(s: Any) -> Wrong:
        def other(i, j):
            if i is None or j is None:
                return s.row(i, j)
            return row((i[0] - j[0], i[1] - j[1]), s.window_size) % s.parameters()["table"][0]

        return reading(s, other)

    return wrong


def reading(s: Any, row: Callable[[Any, Any], Any]) -> Wrong:
    """A definition that reads the rows of another function of two positions."""
    rows: Any = Wrong(s, row=row)
    return Wrong(rows, bias=lambda *given: type(s).bias(rows, *given))


def _table(change: Callable[[np.ndarray], np.ndarray]) -> Callable[[Inputs], Inputs]:
    return lambda i: i.but(params={name: change(value) for name, value in i.params.items()})


def _rows(settings: Any, query_positions: Tensor, key_positions: Tensor) -> Tensor:
    """Right rows, for faults of another kind."""
    at = (Explicit(p.numpy(), axes=settings.axes) for p in (query_positions, key_positions))
    return torch.from_numpy(settings.rows(*at))


def read(lookup: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    """A bias whose table is looked up in some way."""

    def bias(settings, table: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        return lookup(table, _rows(settings, query_positions, key_positions)).permute(2, 0, 1)

    return bias


def _coarse(dtype: torch.dtype) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda table, rows: table[rows.to(dtype).long().clamp(max=len(table) - 1)]


def module(lookup: Callable[[nn.Module, tuple[int, ...]], Tensor]) -> type[nn.Module]:
    """A module that owns a table and is asked for a grid."""

    class Window(nn.Module):
        def __init__(self, settings) -> None:
            super().__init__()
            self.settings, self.kept = settings, {}
            self.table = nn.Parameter(torch.zeros(settings.parameters()["table"]))

        def forward(self, grid) -> Tensor:
            return lookup(self, tuple(grid)).permute(2, 0, 1)

    return Window


def _own_rows(settings: Any, shape: tuple[int, ...]) -> Tensor:
    at = Grid(shape, getattr(settings, "special", 0))
    return torch.from_numpy(settings.rows(at, at))


def _gathered_kept(m: Any, shape: tuple[int, ...]) -> Tensor:
    if shape not in m.kept:
        m.kept[shape] = m.table[_own_rows(m.settings, shape)].detach()
    return m.kept[shape].clone()


def _of_this_grid(m: Any, shape: tuple[int, ...]) -> Tensor:
    """The index of the window that is run, into the table of the one that was trained."""
    running = type(m.settings)(**{**vars(m.settings), "window_size": shape})
    return m.table[_own_rows(running, shape)]


def _of_the_training_grid(m: Any, shape: tuple[int, ...]) -> Tensor:
    del shape
    return m.table[_own_rows(m.settings, m.settings.window_size)]


class IndexOutsideState(nn.Module):
    """Rows in a buffer that is not saved: built on the meta device, they hold anything after loading."""

    index: Tensor

    def __init__(self, settings) -> None:
        super().__init__()
        self.window, self.special = settings.window_size, getattr(settings, "special", 0)
        self.table = nn.Parameter(torch.zeros(settings.parameters()["table"]))
        rows = _own_rows(settings, settings.window_size)
        self.register_buffer("index", rows.to(torch.empty(0).device), persistent=False)

    def forward(self, grid) -> Tensor:
        """The grid it was built for, or the same rows and columns of a smaller one."""
        kept = torch.tensor(list(np.ndindex(*self.window))) < torch.tensor(tuple(grid))
        there = torch.cat([torch.ones(self.special, dtype=torch.bool), kept.all(-1)])
        return self.table[self.index[there][:, there]].permute(2, 0, 1)


# ---- resizing


def _image(table: Tensor, window: tuple[int, int], target: tuple[int, int], mode: str = "bicubic") -> Tensor:
    """[rows, H] as an image of these sides, resized, as rows again."""
    image = table.T.reshape(1, -1, *(2 * W - 1 for W in window))
    return interpolate(image, size=[2 * W - 1 for W in target], mode=mode).flatten(2)[0].T


def _split(table: Tensor, window) -> tuple[Tensor, Tensor]:
    offsets = prod(2 * W - 1 for W in window)
    return table[:offsets], table[offsets:]


def square(table: Tensor, source_window, window_size) -> Tensor:
    """The side is the root of the number of rows."""
    offsets, special = _split(table, source_window)
    side = isqrt(len(offsets))
    image = offsets.T.reshape(1, -1, side, side)
    return torch.cat([interpolate(image, size=[2 * W - 1 for W in window_size], mode="bicubic").flatten(2)[0].T, special])


def width_first(table: Tensor, source_window, window_size) -> Tensor:
    offsets, special = _split(table, source_window)
    return torch.cat([_image(offsets, source_window[::-1], window_size), special])


def heads_as_rows(table: Tensor, source_window, window_size) -> Tensor:
    """Reshaped where it should be transposed."""
    offsets, special = _split(table, source_window)
    return torch.cat([_image(offsets.reshape(offsets.shape[::-1]).T, source_window, window_size), special])


def cut(table: Tensor, source_window, window_size) -> Tensor:
    """The first rows and columns are taken over, whatever offset they stand for; the rest is 0."""
    offsets, special = _split(table, source_window)
    sides, there = [[2 * W - 1 for W in window] for window in (source_window, window_size)]
    image, found = offsets.reshape(*sides, -1), table.new_zeros(*there, table.shape[1])
    a, b = map(min, sides, there)
    found[:a, :b] = image[:a, :b]
    return torch.cat([found.flatten(0, 1), special])


def off_centre(table: Tensor, source_window, window_size) -> Tensor:
    """The nearest number towards the first, so that the middle moves."""
    offsets, special = _split(table, source_window)
    return torch.cat([_image(offsets, source_window, window_size, "nearest"), special])


def of_windows(settings: Mapping[str, Any]) -> tuple[Fault | Planted, ...]:
    """The faults of this file for a scheme whose table begins with the offsets of a window."""
    # fmt: off
    return (
        Fault("multiplier-height", "the height of the window where its width belongs", "L13",
            counted(lambda d, W: (d[0] + W[0] - 1) * (2 * W[0] - 1) + d[1] + W[1] - 1), settings=FLAT),
        Fault("multiplier-small", "a multiplier one too small", "L13",
            counted(lambda d, W: (d[0] + W[0] - 1) * (2 * W[1] - 2) + d[1] + W[1] - 1), settings=FLAT),
        Fault("axes-exchanged", "columns counted before rows", "L13",
            counted(lambda d, W: (d[1] + W[1] - 1) * (2 * W[0] - 1) + d[0] + W[0] - 1), cases=("B089",), settings=FLAT),
        Fault("diagram-index", "dy · 2M − 1 + dx, as a diagram has it, negative rows wrapping", "L13",
            counted(lambda d, W: d[0] * 2 * W[1] - 1 + d[1]), settings=SQUARE),
        Fault("diagram-parentheses", "dy · (2M − 1) + dx, without the offsets of its axes", "L13",
            counted(lambda d, W: d[0] * (2 * W[1] - 1) + d[1]), settings=SQUARE),
        Fault("direction-ignored", "the absolute offset on both axes", "L13",
            counted(lambda d, W: (abs(d[0]) + W[0] - 1) * (2 * W[1] - 1) + abs(d[1]) + W[1] - 1), settings=FLAT),
        Fault("row-direction-ignored", "the absolute offset along the first axis", "L13",
            counted(lambda d, W: (abs(d[0]) + W[0] - 1) * (2 * W[1] - 1) + d[1] + W[1] - 1), settings=FLAT),
        Fault("key-minus-query", "key minus query", "L13",
            counted(lambda d, W: (W[0] - 1 - d[0]) * (2 * W[1] - 1) + W[1] - 1 - d[1]), settings=FLAT),
        Fault("table-turned", "a table laid out [heads, rows]", "L1", given=_table(lambda t: t.reshape(t.shape[::-1]).T)),
        Fault("first-head", "the first head's numbers for all", "L1",
            given=_table(lambda t: np.repeat(t[:, :1], t.shape[1], 1))),
        Fault("heads-shifted", "every head with its neighbour's numbers", "L1", given=_table(lambda t: np.roll(t, 1, axis=1))),
        Planted("rows-in-bfloat16", "rows that are kept in bfloat16", "L13", read(_coarse(torch.bfloat16)), ("B068",)),
        Planted("rows-in-half", "rows that are kept in float16", "L13", read(_coarse(torch.float16))),
        Planted("rows-in-float", "rows that are no whole numbers, a crash", "L13", read(lambda table, r: table[r.float()]),
            ("B068",)),
        Planted("index-outside-state", "rows in a buffer that is not saved", "L23", IndexOutsideState, ("B066",), settings),
        Planted("detached", "a table that gets no gradient", "L20", read(lambda table, r: table.detach()[r]), (), settings),
        Planted("gradient-assigned", "a table gradient that is written, not added", "L20", read(Assigned.apply), ("B134",),
            settings),
        Planted("gathered-kept", "numbers of the table kept while it is trained", "L4", module(_gathered_kept), (), settings),
        Planted("rows-of-this-grid", "a smaller grid that counts rows in its own way", "L13", module(_of_this_grid), ("B072",),
            settings),
        Planted("grid-fixed", "the training grid whatever grid is asked for", "L13", module(_of_the_training_grid), ("B074",),
            settings),
        Planted("resized-as-square", "the side taken as the root of the number of rows", "L31", square),
        Planted("resized-width-first", "height and width exchanged in resizing", "L31", width_first),
        Planted("resized-across-heads", "a table reshaped, not transposed, before resizing", "L31", heads_as_rows),
        Planted("resized-by-cutting", "the first rows and columns, whatever offset they stand for", "L31", cut, ("B072",)),
        Planted("resized-off-centre", "resizing that moves the middle", "L31", off_centre),
    )
    # fmt: on
