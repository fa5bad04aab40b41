"""t5: a table looked up by bucket of distance: by every pair, by a cached line of buckets, as a zero-copy view, in a decode.

    logit[b, h, i, j] = q_i · k_j + table[bucket(j − i), h]

A bucket is the number of bucket starts at or below the distance. The starts are found once per settings by bisection in
Python's whole numbers, so no logarithm is taken and none is rounded. Only buckets are kept between calls, never numbers of
the table, which change with every step of training.
"""

from collections.abc import Mapping
from functools import lru_cache

import torch
from torch import Tensor, nn

from relpos.impls._attention import DTYPES, attend, relative, visible, working
from relpos.impls._cache import KVCache, Window
from relpos.impls._flex import flexed
from relpos.impls._steps import Past, stepped
from relpos.impls._tables import INIT_STD, distances, line, looked_up, matrix
from relpos.impls._toeplitz import under_line
from relpos.impls.card import implements
from relpos.spec.t5 import T5


@implements("t5", level="contribution", positions="per_row", dtypes=DTYPES, max_position=2**32, memory="B*H*Lq*Lk")
def bias(settings: T5, params: Mapping[str, Tensor], query_positions: Tensor, key_positions: Tensor) -> Tensor:
    """The bias, [H, Lq, Lk], or [B, H, Lq, Lk] for positions [B, L]; params holds `table` [num_buckets, H] or, in
    cross-attention, nothing.
    """
    far = relative(query_positions, key_positions)
    if settings.cross_attention:
        return _nothing(settings, far)
    return looked_up(params["table"], _buckets(settings, far)).to(params["table"].dtype)


@implements("t5", level="contribution", positions="offset", dtypes=DTYPES, max_position=2**32, memory="H*Lq*Lk")
class CachedBias(nn.Module):
    """The bias of contiguous positions, [H, Lq, Lk], from a table of its own; the buckets of a line of distances are kept."""

    def __init__(self, settings: T5) -> None:
        super().__init__()
        self.settings = settings
        shape = (settings.num_buckets, settings.num_heads)
        self.table = None if settings.cross_attention else nn.Parameter(torch.empty(shape))
        self._line = Window(self._kept, dim=0)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the table from a normal distribution of deviation 0.02."""
        if self.table is not None:
            nn.init.normal_(self.table, std=INIT_STD)

    def forward(self, query_length: int, key_length: int, offset: int) -> Tensor:
        if self.table is None:
            return _nothing(self.settings, torch.empty(query_length, key_length))
        span = 1 - query_length - offset, key_length - offset
        rows = self._line(*span, torch.int64, self.table.device)
        return matrix(line(self.table, rows), key_length).to(self.table.dtype)

    def _kept(self, far: Tensor, dtype: torch.dtype, device: torch.device) -> Tensor:
        del dtype, device  # rows are whole numbers, where the distances are
        return _buckets(self.settings, far)


@implements(
    "t5", level="attention", positions="offset", binds=("causal", "scale"), dtypes=DTYPES, max_position=2**32,
    memory="H*Lq + H*Lk + B*H*Lq*D + B*H*Lk*D",
)  # fmt: skip
def toeplitz(
    settings: T5,
    params: Mapping[str, Tensor],
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
    values = line_of(settings, params, q, distances(query_length, key_length, offset, q.device))
    return under_line(values, q, k, v, offset=offset, causal=causal, scale=scale_of(settings, q, scale))


@implements(
    "t5", level="attention", positions="offset", binds=("causal", "scale"), dtypes=DTYPES, max_position=2**32, gradient=False,
    memory="B*H*Lq*Lk + B*H*Lq*D + B*H*Lk*D",
)  # fmt: skip
def flex(
    settings: T5,
    params: Mapping[str, Tensor],
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
    values = line_of(settings, params, q, distances(query_length, key_length, offset, q.device))
    return flexed("t5", values, q, k, v, offset=offset, causal=causal, scale=scale_of(settings, q, scale))


@implements(
    "t5", level="attention", positions="per_row", binds=("mask", "causal", "scale"), dtypes=DTYPES, max_position=2**32,
    memory="B*H*Lq*Lk + B*H*Lq*D + B*H*Lk*D",
)  # fmt: skip
def attention(
    settings: T5,
    params: Mapping[str, Tensor],
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
    """Attention [B, H, Lq, D]; q [B, H, Lq, D], k and v [B, Hkv, Lk, D], positions [L] or [B, L]. Scale None is T5's: 1."""
    rows = None if settings.cross_attention else _buckets(settings, relative(query_positions, key_positions))
    added = None if rows is None else looked_up(params["table"], rows)
    seen = visible(query_positions, key_positions, mask, causal)
    return attend(q, k, v, bias=added, visible=seen, scale=scale_of(settings, q, scale))


@implements("t5", level="attention", dtypes=DTYPES, max_position=2**32)
class Decoder:
    """Causal decoding; keys carry no position, so the cache holds them as they came.

    Buckets of past distances are kept, numbers of the table are not: a step looks up one per key.
    """

    def __init__(self, settings: T5, params: Mapping[str, Tensor]) -> None:
        self.settings, self.params = settings, params
        self._past = Past(lambda far, dtype: _buckets(settings, far))
        self._cache = KVCache("t5")

    @torch.no_grad()
    def step(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Outputs [B, H, n, D] of n new tokens; q [B, H, n, D], k and v [B, Hkv, n, D]."""
        start = self._cache.length
        keys, values = self._cache.append(k, v, q)
        biases = None if self.settings.cross_attention else self._biases
        return stepped(q, keys, values, start, biases, scale=scale_of(self.settings, q, None))

    def _biases(self, first: int, last: int, dtype: torch.dtype, device: torch.device) -> Tensor:
        return line(self.params["table"], self._past(first, last, torch.int64, device)).to(dtype)


def line_of(settings: T5, params: Mapping[str, Tensor], q: Tensor, far: Tensor) -> Tensor:
    """Biases of a row of distances far, key minus query, in the working dtype of q, [H, n]."""
    if settings.cross_attention:
        return q.new_zeros((settings.num_heads, len(far)), dtype=working(q.dtype))
    return line(params["table"], _buckets(settings, far))


def _buckets(settings: T5, far: Tensor) -> Tensor:
    """Rows of the table for distances far, key minus query, int64 of any shape."""
    if settings.sign == "query_minus_key":
        far = -far
    one_way = settings.num_buckets // 2 if settings.bidirectional else settings.num_buckets
    starts = torch.tensor(_starts(one_way, settings.max_distance), device=far.device)
    if not settings.bidirectional:
        return torch.bucketize((-far).clamp(min=0), starts, right=True)
    return torch.bucketize(far.abs(), starts, right=True) + one_way * (far > 0)


@lru_cache(maxsize=64)
def _starts(buckets: int, most: int) -> tuple[int, ...]:
    """Smallest distance of every bucket of one direction but the first, rising; where one is skipped, twice the same."""
    exact = buckets // 2
    wide = buckets - exact
    return (*range(1, exact + 1), *(_root(most**t * exact ** (wide - t), wide, most) for t in range(1, wide)))


def _root(power: int, degree: int, most: int) -> int:
    """The smallest whole number n ≤ most with n^degree ≥ power."""
    low, high = 0, most
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if middle**degree >= power else (middle + 1, high)
    return low


def scale_of(settings: T5, q: Tensor, scale: float | None) -> float:
    """The scale of q·k: T5's own unless given."""
    if scale is not None:
        return scale
    return 1.0 if settings.score_scale == "none" else q.shape[-1] ** -0.5


def _nothing(settings: T5, pairs: Tensor) -> Tensor:
    return torch.zeros((*pairs.shape[:-2], settings.num_heads, *pairs.shape[-2:]), device=pairs.device)
