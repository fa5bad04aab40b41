"""clipped: a table looked up by clipped distance: by every pair, by a cached line of rows, as a zero-copy view, in a decode.

    logit[b, h, i, j] = scale · q_i · k_j + table[clip(i − j, −K, K) + K, h]

Only rows are kept between calls, never numbers of the table, which change with every step of training. A pair without a
bias looks up the row past the end, which reads 0.
"""

import torch
from torch import Tensor, nn

from relpos.impls._attention import DTYPES, attend, default_scale, relative, visible
from relpos.impls._cache import KVCache, Window
from relpos.impls._flex import flexed
from relpos.impls._steps import Past, stepped
from relpos.impls._tables import INIT_STD, distances, line, looked_up, matrix
from relpos.impls._toeplitz import under_line
from relpos.impls.card import implements
from relpos.spec.clipped import Clipped


@implements("clipped", level="contribution", positions="per_row", dtypes=DTYPES, max_position=2**32, memory="B*H*Lq*Lk")
def bias(settings: Clipped, table: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor:
    """The bias, [H, Lq, Lk], or [B, H, Lq, Lk] for positions [B, L]; a shared table broadcasts over heads.

    table   [2K+1, H], or [K+1, H] in one direction; one column when shared
    """
    rows = rows_of(settings, relative(query_positions, key_positions))
    return looked_up(table, rows).to(table.dtype)


@implements("clipped", level="contribution", positions="offset", dtypes=DTYPES, max_position=2**32, memory="H*Lq*Lk")
class CachedBias(nn.Module):
    """The bias of contiguous positions, [H, Lq, Lk], from a table of its own; the rows of a line of distances are kept."""

    def __init__(self, settings: Clipped) -> None:
        super().__init__()
        self.settings = settings
        columns = settings.num_heads if settings.heads == "own" else 1
        self.table = nn.Parameter(torch.empty(_length(settings), columns))
        self._line = Window(self._kept, dim=0)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the table from a normal distribution of deviation 0.02."""
        nn.init.normal_(self.table, std=INIT_STD)

    def forward(self, query_length: int, key_length: int, offset: int) -> Tensor:
        span = 1 - query_length - offset, key_length - offset
        rows = self._line(*span, torch.int64, self.table.device)
        return matrix(line(self.table, rows), key_length).to(self.table.dtype)

    def _kept(self, far: Tensor, dtype: torch.dtype, device: torch.device) -> Tensor:
        del dtype, device  # rows are whole numbers, where the distances are
        return rows_of(self.settings, far)


@implements(
    "clipped", level="attention", positions="offset", binds=("causal", "scale"), dtypes=DTYPES, max_position=2**32,
    memory="H*Lq + H*Lk + B*H*Lq*D + B*H*Lk*D",
)  # fmt: skip
def toeplitz(
    settings: Clipped,
    table: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    query_length: int,
    key_length: int,
    offset: int,
    *,
    causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """Attention [B, H, Lq, D] whose bias is never formed, trained or not: one line per head, by the Toeplitz engine."""
    far = distances(query_length, key_length, offset, q.device)
    values = line(table, rows_of(settings, far))
    return under_line(values, q, k, v, offset=offset, causal=causal, scale=default_scale(q, scale))


@implements(
    "clipped", level="attention", positions="offset", binds=("causal", "scale"), dtypes=DTYPES, max_position=2**32,
    gradient=False, memory="B*H*Lq*Lk + B*H*Lq*D + B*H*Lk*D",
)  # fmt: skip
def flex(
    settings: Clipped,
    table: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    query_length: int,
    key_length: int,
    offset: int,
    *,
    causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """Attention [B, H, Lq, D] through flex_attention, which looks the bias up in its kernel; no backward on CPUs."""
    values = line(table, rows_of(settings, distances(query_length, key_length, offset, q.device)))
    return flexed("clipped", values, q, k, v, offset=offset, causal=causal, scale=default_scale(q, scale))


@implements(
    "clipped", level="attention", positions="per_row", binds=("mask", "causal", "scale"), dtypes=DTYPES, max_position=2**32,
    memory="B*H*Lq*Lk + B*H*Lq*D + B*H*Lk*D",
)  # fmt: skip
def attention(
    settings: Clipped,
    table: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    query_positions: Tensor,
    key_positions: Tensor,
    *,
    mask: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """Attention [B, H, Lq, D]; q [B, H, Lq, D], k and v [B, Hkv, Lk, D], positions [L] or [B, L]."""
    added = looked_up(table, rows_of(settings, relative(query_positions, key_positions)))
    return attend(q, k, v, bias=added, visible=visible(query_positions, key_positions, mask, causal), scale=scale)


@implements("clipped", level="attention", dtypes=DTYPES, max_position=2**32)
class Decoder:
    """Causal decoding; keys carry no position, so the cache holds them as they came.

    Rows of past distances are kept, numbers of the table are not: a step looks up one per key.
    """

    def __init__(self, settings: Clipped, table: Tensor) -> None:
        self.settings, self.table = settings, table
        self._past = Past(lambda far, dtype: rows_of(settings, far))
        self._cache = KVCache("clipped")

    @torch.no_grad()
    def step(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Outputs [B, H, n, D] of n new tokens; q [B, H, n, D], k and v [B, Hkv, n, D]."""
        start = self._cache.length
        keys, values = self._cache.append(k, v, q)
        return stepped(q, keys, values, start, self._biases)

    def _biases(self, first: int, last: int, dtype: torch.dtype, device: torch.device) -> Tensor:
        return line(self.table, self._past(first, last, torch.int64, device)).to(dtype)


def _length(settings: Clipped) -> int:
    return (2 if settings.directions == "both" else 1) * settings.max_distance + 1


def rows_of(settings: Clipped, far: Tensor) -> Tensor:
    """Rows of the table for distances far, key minus query, int64 of any shape; one past the last where there is no bias."""
    K = settings.max_distance
    if settings.directions == "both":
        rows = (far if settings.sign == "key_minus_query" else -far).clamp(-K, K) + K
    else:
        rows = far.abs().clamp(max=K)
    silent = torch.zeros_like(far, dtype=torch.bool)
    if settings.directions == "past":
        silent = far > 0
    if settings.beyond == "zero":
        silent = silent | (far.abs() > K)
    return rows.masked_fill(silent, _length(settings))
