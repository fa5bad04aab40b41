"""alibi: a fixed slope per head times distance, as a dense bias, from a cached line, as a zero-copy view, and in a decode.

    logit[b, h, i, j] = scale · q_i · k_j − m_h · |i − j|

Slopes are those of the next power of two, odd places first, then even ones, cut off at H ("press"). Distances are
subtracted in int64 and only then rounded: positions of 2^32 cost nothing.
"""

import torch
from torch import Tensor, nn

from relpos.impls._attention import DTYPES, attend, default_scale, relative, visible, working
from relpos.impls._cache import KVCache, Window
from relpos.impls._flex import flexed
from relpos.impls._slopes import coordinate_of, line_of, penalty_of, slopes_of
from relpos.impls._steps import Past, stepped
from relpos.impls._tables import distances
from relpos.impls._toeplitz import under_line
from relpos.impls.card import implements
from relpos.spec.alibi import ALiBi


@implements(
    "alibi",
    level="contribution",
    positions="per_row",
    binds=("dtype", "device"),
    dtypes=DTYPES,
    max_position=2**32,
    memory="B*H*Lq*Lk",
)
def bias(
    settings: ALiBi,
    query_positions: Tensor,
    key_positions: Tensor,
    *,
    dtype: torch.dtype = torch.float32,
    device: torch.device | None = None,
) -> Tensor:
    """The bias, [H, Lq, Lk], or [B, H, Lq, Lk] for positions [B, L]; under "key_only" it broadcasts over queries."""
    device = query_positions.device if device is None else torch.device(device)
    at = coordinate_of(settings, query_positions.to(device), key_positions.to(device))
    return penalty_of(settings, at, slopes_of(settings, working(dtype), device)).to(dtype)


@implements("alibi", level="contribution", positions="per_row", dtypes=("float32",), max_position=2**32, memory="B*H*Lq*Lk")
class Bias(nn.Module):
    """The bias in float32, [H, Lq, Lk] or [B, H, Lq, Lk], whatever the module was cast to."""

    slopes: Tensor

    def __init__(self, settings: ALiBi) -> None:
        super().__init__()
        self.settings = settings
        self.register_buffer("slopes", slopes_of(settings, torch.float32), persistent=False)

    def _apply(self, fn, recurse: bool = True):
        super()._apply(fn, recurse)
        # .half() would round the slopes for good and to_empty() leave rubbish: only the new device is taken over.
        self.slopes = slopes_of(self.settings, torch.float32, self.slopes.device)
        return self

    def forward(self, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        return penalty_of(self.settings, coordinate_of(self.settings, query_positions, key_positions), self.slopes)


@implements("alibi", level="contribution", positions="offset", binds=("dtype", "device"), dtypes=DTYPES, max_position=2**32)
class CachedBias(nn.Module):
    """The bias of contiguous positions, [H, Lq, Lk]: one value per distance is kept, and the matrix copied out of it."""

    def __init__(self, settings: ALiBi) -> None:
        super().__init__()
        self.settings = settings
        self._line = Window(self._values, dim=1)

    def forward(
        self,
        query_length: int,
        key_length: int,
        offset: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | None = None,
    ) -> Tensor:
        device = torch.device("cpu" if device is None else device)
        if self.settings.distance == "key_only":
            return self._line(0, key_length, dtype, device).unsqueeze(1).clone()
        line = self._line(1 - query_length - offset, key_length - offset, dtype, device)
        return line.unfold(-1, key_length, 1).flip(-2)  # flip copies: nothing handed out shares memory with the line

    def _values(self, positions: Tensor, dtype: torch.dtype, device: torch.device) -> Tensor:
        return line_of(self.settings, positions, working(dtype)).to(dtype)


@implements("alibi", level="contribution", positions="per_row", dtypes=("float32",), max_position=2**32)
def shard(settings: ALiBi, head_indices: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor:
    """The bias of some heads, [h, Lq, Lk] or [B, h, Lq, Lk]: what one rank of a tensor-parallel model needs.

    head_indices   [h], places of its heads among all num_heads: slopes depend on how many there are in all
    """
    slopes = slopes_of(settings, torch.float32, query_positions.device)[head_indices]
    return penalty_of(settings, coordinate_of(settings, query_positions, key_positions), slopes, head_indices)


@implements(
    "alibi",
    level="attention",
    positions="offset",
    binds=("causal", "scale", "num_kv_heads"),
    dtypes=DTYPES,
    max_position=2**32,
    memory="H*Lq + H*Lk + B*H*Lq*D + B*H*Lk*D",
)
def toeplitz(
    settings: ALiBi,
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
    """Attention [B, H, Lq, D] whose bias is never formed: one line per head, by the Toeplitz engine."""
    line = _whole(settings, distances(query_length, key_length, offset, q.device), q, scale)
    return under_line(line, q, k, v, offset=offset, causal=causal, scale=default_scale(q, scale))


@implements(
    "alibi", level="attention", positions="offset", binds=("causal", "scale", "num_kv_heads"), dtypes=DTYPES,
    max_position=2**32, gradient=False, memory="B*H*Lq*Lk + B*H*Lq*D + B*H*Lk*D",
)  # fmt: skip
def flex(
    settings: ALiBi,
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
    line = _whole(settings, distances(query_length, key_length, offset, q.device), q, scale)
    return flexed("alibi", line, q, k, v, offset=offset, causal=causal, scale=default_scale(q, scale))


@implements(
    "alibi",
    level="attention",
    positions="per_row",
    binds=("mask", "causal", "scale", "num_kv_heads"),
    dtypes=DTYPES,
    max_position=2**32,
    double_backward=True,
    memory="B*H*Lq*Lk + B*H*Lq*D + B*H*Lk*D",
)
def attention(
    settings: ALiBi,
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
    """Attention [B, H, Lq, D]; q [B, H, Lq, D], k and v [B, Hkv, Lk, D], positions [L] or [B, L].

    "key_only" is taken as m·(j − i): the softmax cannot tell, and large positions cancel before they are rounded.
    """
    added = penalty_of(settings, relative(query_positions, key_positions), slopes_of(settings, working(q.dtype), q.device))
    seen = visible(query_positions, key_positions, mask, causal)
    if settings.distance == "half_half":  # a row whose keys are all at −inf is an empty row too
        heard = (added > -torch.inf) if added.ndim > 3 else (added > -torch.inf).unsqueeze(0)
        seen = heard if seen is None else seen & heard
    return attend(q, k, v, bias=added * _bias_scale(settings, q, scale), visible=seen, scale=scale)


@implements("alibi", level="attention", dtypes=DTYPES, max_position=2**32)
class Decoder:
    """Causal decoding; keys carry no position, so the cache holds them as they came. A step costs a slice of a kept line."""

    def __init__(self, settings: ALiBi) -> None:
        self.settings = settings
        self._past = Past(lambda far, dtype: line_of(settings, far, dtype))
        self._cache = KVCache("alibi")
        self._bias_scale = 1.0

    @torch.no_grad()
    def step(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Outputs [B, H, n, D] of n new tokens; q [B, H, n, D], k and v [B, Hkv, n, D]."""
        self._bias_scale = _bias_scale(self.settings, q, None)
        start = self._cache.length
        keys, values = self._cache.append(k, v, q)
        return stepped(q, keys, values, start, self._biases)

    def _biases(self, first: int, last: int, dtype: torch.dtype, device: torch.device) -> Tensor:
        line = self._past(first, last, dtype, device)
        return line * self._bias_scale if self.settings.scale_bias else line


def _whole(settings: ALiBi, far: Tensor, q: Tensor, scale: float | None) -> Tensor:
    """The line that is added to scores, [H, n]."""
    return line_of(settings, far, working(q.dtype)) * _bias_scale(settings, q, scale)


def _bias_scale(settings: ALiBi, q: Tensor, scale: float | None) -> float:
    return default_scale(q, scale) if settings.scale_bias else 1.0
