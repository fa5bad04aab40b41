"""What schemes of a window on several axes share: rows of a table for every pair of tokens, with and without positions.

Positions are [L, n] or [B, L, n]; a token whose coordinates are all `NOWHERE` has none. A pair farther apart than the window
has no row: it reads NaN, which nobody overlooks, without a look at any value.
"""

from collections.abc import Callable, Sequence
from math import prod

import torch
from torch import Tensor
from torch.nn.functional import interpolate, pad

from relpos.impls._attention import working
from relpos.spec.coordinates import NOWHERE


def length(window_size: Sequence[int]) -> int:
    """Offsets of a window, and rows of its table."""
    return prod(2 * W - 1 for W in window_size)


def rows(window_size: Sequence[int], query_positions: Tensor, key_positions: Tensor, sign: str) -> tuple[Tensor, Tensor]:
    """Row of query minus key (or the other way), int64 [..., Lq, Lk], and whether the pair lies within the window."""
    apart = query_positions.unsqueeze(-2) - key_positions.unsqueeze(-3)
    apart = apart if sign == "query_minus_key" else -apart
    row, inside = torch.zeros_like(apart[..., 0]), torch.ones_like(apart[..., 0], dtype=torch.bool)
    for axis, W in enumerate(window_size):
        d = apart[..., axis]
        row, inside = row * (2 * W - 1) + d + (W - 1), inside & (d.abs() < W)
    return row, inside


class Index:
    """Rows kept by the shape of the grid; replaced, never written to, and never part of a state dict."""

    def __init__(self) -> None:
        self._for: tuple[tuple[int, ...], torch.device] | None = None
        self._rows = torch.empty(0)

    def __call__(
        self, compute: Callable[[tuple[int, ...], torch.device], Tensor], shape: tuple[int, ...], device: torch.device
    ) -> Tensor:
        if torch.compiler.is_compiling():
            return compute(shape, device)
        if self._for != (shape, device):
            with torch.inference_mode(False):
                self._rows = compute(shape, device)
            self._for = (shape, device)
        return self._rows


def nowhere(positions: Tensor) -> Tensor:
    """Tokens without a position, boolean [..., L]."""
    return (positions == NOWHERE).all(dim=-1)


def grid(shape: Sequence[int], special: int = 0, device: torch.device | None = None) -> Tensor:
    """All positions of a grid, the last axis running fastest, after tokens that have none, [L, n]."""
    axes = [torch.arange(n, device=device) for n in shape]
    places = torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1).flatten(0, -2)
    return torch.cat([places.new_full((special, len(shape)), NOWHERE), places])


def looked_up(table: Tensor, row: Tensor) -> Tensor:
    """Numbers of all pairs in the working dtype: table [R, H], rows [..., Lq, Lk] -> [..., H, Lq, Lk].

    Row R reads 0 and row R + 1 NaN; neither learns.
    """
    columns = table.to(working(table.dtype)).transpose(0, 1)
    columns = pad(pad(columns, (0, 1)), (0, 1), value=torch.nan)
    found = columns.index_select(1, row.reshape(-1))
    return found.view(found.shape[0], *row.shape).movedim(0, -3)


def by_key(table: Tensor, window_size: Sequence[int], sign: str) -> tuple[Tensor, Tensor]:
    """The table as [H, 2·W_1 − 1, …] by key minus query, rising on every axis, and the rows behind it as [H, special]."""
    columns, offsets = table.to(working(table.dtype)).transpose(0, 1), length(window_size)
    found = columns[:, :offsets].unflatten(1, [2 * W - 1 for W in window_size])
    found = found.flip(tuple(range(1, found.ndim))) if sign == "query_minus_key" else found
    return found, columns[:, offsets:]


def refuse_tokens(scheme: str, window_size: Sequence[int], special: int, q: Tensor, k: Tensor) -> None:
    """ValueError unless there are as many queries and keys as the window has tokens."""
    tokens = prod(window_size) + special
    if (q.shape[2], k.shape[2]) != (tokens, tokens):
        raise ValueError(
            f"{scheme}: `q` and `k` must have {tokens} tokens for `window_size` {tuple(window_size)}, got {q.shape[2]} and "
            f"{k.shape[2]}; for a part of the window use `attention`, which takes positions."
        )


def resized(table: Tensor, source_window: Sequence[int], window_size: Sequence[int]) -> Tensor:
    """A table [(2W_1 − 1)(2W_2 − 1) + special, H] for another window, by cubic interpolation; special rows as they are.

    Offsets keep their order and the middle stays in the middle; sides need not be equal.
    """
    if len(source_window) != 2 or len(window_size) != 2:
        raise NotImplementedError(f"`window_size` must have two axes to be resized, got {source_window} and {window_size}.")
    offsets, special = table[: length(source_window)], table[length(source_window) :]
    image = offsets.to(working(table.dtype)).T.unflatten(-1, [2 * W - 1 for W in source_window])
    image = interpolate(image[None], size=[2 * W - 1 for W in window_size], mode="bicubic", align_corners=False)[0]
    return torch.cat([image.flatten(1).T.to(table.dtype), special])
