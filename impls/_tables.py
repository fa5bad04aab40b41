"""What schemes of learned numbers per distance share: lookups whose gradients add up.

A table [R, H] is looked up head by head, so that a head's numbers lie side by side. The lookup's backward adds: a row used
by several pairs collects the gradients of all of them, in float32 where the table is 16-bit. Row R, one past the last,
reads 0 and learns nothing.
"""

import torch
from torch import Tensor
from torch.nn.functional import pad

from relpos.impls._attention import working

INIT_STD = 0.02


def looked_up(table: Tensor, rows: Tensor) -> Tensor:
    """Numbers of all pairs in the working dtype: table [R, H], rows [..., Lq, Lk] -> [..., H, Lq, Lk]."""
    found = line(table, rows.reshape(-1))
    return found.view(found.shape[0], *rows.shape).movedim(0, -3)


def line(table: Tensor, rows: Tensor) -> Tensor:
    """Numbers of a row of distances in the working dtype: table [R, H], rows [n] -> [H, n]."""
    columns = pad(table.to(working(table.dtype)).transpose(0, 1), (0, 1))
    return columns.index_select(1, rows)


def matrix(values: Tensor, key_length: int) -> Tensor:
    """A line [H, Lq + Lk − 1] over rising distances as the matrix [H, Lq, Lk]; its rows are overlapping pieces of the line.

    PyTorch has no negative strides, so turning the queries over copies: one copy, no index of every pair.
    """
    return values.unfold(-1, key_length, 1).flip(-2)


def distances(query_length: int, key_length: int, offset: int, device: torch.device) -> Tensor:
    """Key minus query for every diagonal of contiguous positions, rising, [Lq + Lk − 1]."""
    return torch.arange(1 - query_length - offset, key_length - offset, device=device)
