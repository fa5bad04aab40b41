"""beit: swin's table over a grid of patches with rows for a class token, for any tokens, for whole grids, and in attention.

    logit[b, h, i, j] = scale · q_i · k_j + table[row(i, j), h]

Only rows are kept between calls, never numbers of the table, which change with every step of training.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from relpos.impls._attention import DTYPES, attend, default_scale
from relpos.impls._panels import under_table
from relpos.impls._tables import INIT_STD
from relpos.impls._windows import Index, by_key, grid, length, looked_up, nowhere, refuse_tokens, resized, rows
from relpos.impls.card import implements
from relpos.spec.beit import BEiT

CLASS_ROWS = 3


@implements("beit", level="contribution", positions="per_row", dtypes=DTYPES, max_position=2**30, memory="B*H*Lq*Lk")
def bias(settings: BEiT, table: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor:
    """The bias, [H, Lq, Lk], or [B, H, Lq, Lk] for positions [B, L, n].

    table            [(2W_1 − 1)(2W_2 − 1) … + 3, H]
    query_positions, key_positions   [L, n] or [B, L, n]; the class token is at `NOWHERE`
    """
    return looked_up(table, _rows(settings, query_positions, key_positions)).to(table.dtype)


@implements("beit", level="contribution", dtypes=DTYPES, memory="H*Lq*Lk")
class GridBias(nn.Module):
    """The bias of the class token and all patches, or of a smaller `grid` of them, [H, 1 + N, 1 + N], from its own table."""

    def __init__(self, settings: BEiT) -> None:
        super().__init__()
        self.settings = settings
        self.table = nn.Parameter(torch.empty(length(settings.window_size) + CLASS_ROWS, settings.num_heads))
        self._kept = Index()
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the table from a normal distribution of deviation 0.02; the authors begin at 0."""
        nn.init.normal_(self.table, std=INIT_STD)

    def forward(self, grid: Sequence[int]) -> Tensor:
        row = self._kept(self._index, tuple(grid), self.table.device)
        return looked_up(self.table, row).to(self.table.dtype)

    def _index(self, shape: tuple[int, ...], device: torch.device) -> Tensor:
        at = grid(shape, special=1, device=device)
        return _rows(self.settings, at, at)


@implements(
    "beit", level="attention", positions="per_row", binds=("mask", "scale"), dtypes=DTYPES, max_position=2**30,
    memory="B*H*Lq*Lk + B*H*Lq*D + B*H*Lk*D",
)  # fmt: skip
def attention(
    settings: BEiT,
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
    """Attention [B, H, Lq, D]; q [B, H, Lq, D], k and v [B, Hkv, Lk, D], positions [L, n] or [B, L, n]."""
    added = looked_up(table, _rows(settings, query_positions, key_positions))
    return attend(q, k, v, bias=added, visible=mask, scale=scale)


@implements("beit", level="attention", binds=("scale",), dtypes=DTYPES, memory="B*H*Lq*D + B*H*Lk*D")
def panels(settings: BEiT, table: Tensor, q: Tensor, k: Tensor, v: Tensor, *, scale: float | None = None) -> Tensor:
    """Attention [B, H, 1 + N, D] of the class token and all patches, whose bias is never formed, by the panel engine.

    q [B, H, 1 + N, D], k and v [B, Hkv, 1 + N, D]
    """
    refuse_tokens("beit", settings.window_size, 1, q, k)
    if torch.compiler.is_compiling():  # blocks would fix the lengths
        at = grid(settings.window_size, special=1, device=q.device)
        return attention(settings, table, q, k, v, at, at, scale=scale)
    offsets, special = by_key(table, settings.window_size, settings.sign)
    return under_table(offsets, special, q, k, v, window=settings.window_size, scale=default_scale(q, scale))


@implements("beit")
def resize(table: Tensor, source_window: Sequence[int], window_size: Sequence[int]) -> Tensor:
    """The table for another grid of patches: cubic interpolation over offsets, rows of the class token as they are."""
    return resized(table, source_window, window_size)


def _rows(settings: BEiT, query_positions: Tensor, key_positions: Tensor) -> Tensor:
    """Rows of the table; two past the last beyond the grid."""
    offsets = length(settings.window_size)
    row, inside = rows(settings.window_size, query_positions, key_positions, settings.sign)
    row = row.masked_fill(~inside, offsets + CLASS_ROWS + 1)
    query, key = nowhere(query_positions).unsqueeze(-1), nowhere(key_positions).unsqueeze(-2)
    return row.masked_fill(query, offsets).masked_fill(key, offsets + 1).masked_fill(query & key, offsets + 2)
