"""swin: a table looked up by offset, for any tokens, for whole windows with a kept index, and in windowed attention.

    logit[b, h, i, j] = scale · q_i · k_j + table[row(i − j), h]

Only rows are kept between calls, never numbers of the table, which change with every step of training. They are computed
where they are first asked for, so that a module built on the meta device, cast or copied has no index to lose.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from relpos.impls._attention import DTYPES, attend, default_scale
from relpos.impls._panels import under_table
from relpos.impls._tables import INIT_STD
from relpos.impls._windows import Index, by_key, grid, length, looked_up, nowhere, refuse_tokens, resized, rows
from relpos.impls.card import implements
from relpos.spec.swin import Swin


@implements("swin", level="contribution", positions="per_row", dtypes=DTYPES, max_position=2**30, memory="B*H*Lq*Lk")
def bias(settings: Swin, table: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor:
    """The bias, [H, Lq, Lk], or [B, H, Lq, Lk] for positions [B, L, n].

    table            [(2W_1 − 1)(2W_2 − 1) …, H]
    query_positions, key_positions   [L, n] or [B, L, n]; a token at `NOWHERE` has bias 0
    """
    return looked_up(table, _rows(settings, query_positions, key_positions)).to(table.dtype)


@implements("swin", level="contribution", dtypes=DTYPES, memory="H*Lq*Lk")
class WindowBias(nn.Module):
    """The bias of a whole window or, asked for a smaller `grid`, of a part of it, [H, N, N], from a table of its own."""

    def __init__(self, settings: Swin) -> None:
        super().__init__()
        self.settings = settings
        self.table = nn.Parameter(torch.empty(length(settings.window_size), settings.num_heads))
        self._kept = Index()
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the table from a normal distribution of deviation 0.02, as the authors do."""
        nn.init.normal_(self.table, std=INIT_STD)

    def forward(self, grid: Sequence[int]) -> Tensor:
        row = self._kept(self._index, tuple(grid), self.table.device)
        return looked_up(self.table, row).to(self.table.dtype)

    def _index(self, shape: tuple[int, ...], device: torch.device) -> Tensor:
        at = grid(shape, device=device)
        return _rows(self.settings, at, at)


@implements(
    "swin", level="attention", positions="per_row", binds=("mask", "scale"), dtypes=DTYPES, max_position=2**30,
    memory="B*H*Lq*Lk + B*H*Lq*D + B*H*Lk*D",
)  # fmt: skip
def attention(
    settings: Swin,
    table: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    query_positions: Tensor,
    key_positions: Tensor,
    *,
    mask: Tensor | None = None,
    scale: float | None = None,
) -> Tensor:
    """Attention [B, H, Lq, D], one window per sample; positions [L, n] or [B, L, n], a mask of regions: `same_region`."""
    added = looked_up(table, _rows(settings, query_positions, key_positions))
    return attend(q, k, v, bias=added, visible=mask, scale=scale)


@implements("swin", level="attention", binds=("mask", "scale"), dtypes=DTYPES, memory="B*H*Lq*Lk + B*H*Lq*D + B*H*Lk*D")
class WindowAttention(nn.Module):
    """Attention inside whole windows, one per sample, under a bias of its own; `mask` hides other regions."""

    def __init__(self, settings: Swin) -> None:
        super().__init__()
        self.bias = WindowBias(settings)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, *, mask: Tensor | None = None, scale: float | None = None) -> Tensor:
        added = self.bias(self.bias.settings.window_size)
        return attend(q, k, v, bias=added, visible=mask, scale=scale)


@implements("swin", level="attention", binds=("scale",), dtypes=DTYPES, memory="B*H*Lq*D + B*H*Lk*D")
def panels(settings: Swin, table: Tensor, q: Tensor, k: Tensor, v: Tensor, *, scale: float | None = None) -> Tensor:
    """Attention [B, H, N, D] over all of a window, whose bias is never formed, trained or not, by the panel engine.

    q [B, H, N, D], k and v [B, Hkv, N, D]; many small windows are so many samples.
    """
    refuse_tokens("swin", settings.window_size, 0, q, k)
    if torch.compiler.is_compiling():  # blocks would fix the lengths
        at = grid(settings.window_size, device=q.device)
        return attention(settings, table, q, k, v, at, at, scale=scale)
    offsets, _ = by_key(table, settings.window_size, settings.sign)
    return under_table(offsets, None, q, k, v, window=settings.window_size, scale=default_scale(q, scale))


@implements("swin")
def resize(table: Tensor, source_window: Sequence[int], window_size: Sequence[int]) -> Tensor:
    """The table for another window: cubic interpolation over offsets, as the authors load another window."""
    return resized(table, source_window, window_size)


def same_region(segments: Tensor) -> Tensor:
    """Who may see whom in shifted windows, boolean [B, 1, N, N]; segments [B, N] number the regions of every window."""
    return (segments.unsqueeze(-1) == segments.unsqueeze(-2)).unsqueeze(1)


def _rows(settings: Swin, query_positions: Tensor, key_positions: Tensor) -> Tensor:
    """Rows of the table; one past the last without a position, two past it beyond the window."""
    last = length(settings.window_size)
    row, inside = rows(settings.window_size, query_positions, key_positions, settings.sign)
    without = nowhere(query_positions).unsqueeze(-1) | nowhere(key_positions).unsqueeze(-2)
    return row.masked_fill(~inside, last + 1).masked_fill(without, last)
