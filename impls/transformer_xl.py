"""transformer_xl: sinusoids of the distance, projected; pair by pair, aligned for both signs, or by the published shift.

    logit[b, h, i, j] = scale · ((q_i + u_h) · k_j + (q_i + v_h) · W_h R(i − j))

`attention` takes every variant, any positions and segments, and forms R of every pair. `attention_aligned`, for contiguous
positions, multiplies q by R of all distances in order; the term is a view of that, right before and after the query.
`attention_shift` is the published shift: R of the klen distances from 0 on, right under a causal mask only, which it applies.
`streamed` forms no score of all pairs: the skewed engine.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from relpos.impls._attention import DTYPES, contiguous, default_scale, fused, mixed, score, softmax, visible, working
from relpos.impls._cache import KVCache
from relpos.impls._skew import aligned, skewed
from relpos.impls._skewed import under_products
from relpos.impls._steps import Past
from relpos.impls._xl_terms import asked_by_keys, asks, by_wave, content, over_distances, sees, term, vectors, waves
from relpos.impls.card import implements
from relpos.spec.transformer_xl import TransformerXL

BINDS = ("mask", "causal", "scale", "num_kv_heads")
INIT_STD = 0.02
CLAIMS = {"level": "attention", "dtypes": DTYPES}


@implements("transformer_xl", level="logits", positions="per_row", binds=("scale", "num_kv_heads"), dtypes=DTYPES)
def logits(
    settings: TransformerXL,
    params: Mapping[str, Tensor],
    q: Tensor,
    k: Tensor,
    query_positions: Tensor,
    key_positions: Tensor,
    *,
    scale: float | None = None,
    query_segments: Tensor | None = None,
    key_segments: Tensor | None = None,
) -> Tensor:
    """The complete score before any mask, [B, H, Lq, Lk]; segments, read by "xlnet", are [L] or [B, L]."""
    segments = {"query_segments": query_segments, "key_segments": key_segments}
    added = term(settings, params, q, k, query_positions, key_positions, scale=scale, **segments)
    near, found = sees(settings, query_positions, key_positions), (score(q, k, scale) + added).to(q.dtype)
    # Hidden again, now content and all: what is −∞ has no gradient.
    return found if near is None else found.masked_fill(~near, -torch.inf)


@implements("transformer_xl", positions="per_row", binds=BINDS, **CLAIMS)
def attention(
    settings: TransformerXL,
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
    query_segments: Tensor | None = None,
    key_segments: Tensor | None = None,
) -> Tensor:
    """Attention [B, H, Lq, D]; q [B, H, Lq, D], k and v [B, Hkv, Lk, D], positions and segments [L] or [B, L]."""
    at, segments = (query_positions, key_positions), {"query_segments": query_segments, "key_segments": key_segments}
    added = term(settings, params, q, k, *at, scale=scale, **segments)
    weights = softmax(score(q, k, scale) + added, _seen(settings, *at, mask, causal))
    return mixed(weights, v).to(q.dtype)


@implements("transformer_xl", positions="offset", binds=BINDS, **CLAIMS)
def attention_aligned(
    settings: TransformerXL,
    params: Mapping[str, Tensor],
    q: Tensor,
    k: Tensor,
    v: Tensor,
    query_length: int,
    key_length: int,
    offset: int,
    *,
    mask: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """Attention [B, H, Lq, D] of contiguous positions: the term is a view of q times R, or T, of all distances."""
    seen = _seen(settings, *contiguous(query_length, key_length, offset, q.device), mask, causal)
    return _aligned(settings, params, q, k, v, seen, offset, scale)


@implements(
    "transformer_xl", positions="offset", binds=("causal", "scale", "num_kv_heads"), settings={"memory_length": None}, **CLAIMS,
    memory="B*H*Lq*D + B*H*Lk*D + B*H*Lq + B*H*Lk",
)  # fmt: skip
def streamed(
    settings: TransformerXL,
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
    """Attention [B, H, Lq, D] whose term is never formed, trained or not, by the skewed engine; u goes to the content."""
    if settings.memory_length is not None and settings.hides:
        raise NotImplementedError(
            f"transformer_xl: `streamed` hides nothing, got memory_length = {settings.memory_length}; attention_aligned does."
        )
    dtype, scale = working(q.dtype), default_scale(q, scale)
    δ = offset + query_length - 1 - torch.arange(query_length + key_length - 1, device=q.device)
    # R is projected, once for many queries; a few of them are, which is less.
    few = settings.variant != "learned" and q.shape[2] <= q.shape[3] and not torch.compiler.is_compiling()
    asked = by_wave(params, q) if few else asks(settings, params, q)
    of_distances = waves(settings, δ, dtype).unsqueeze(0) if few else vectors(settings, params, δ, dtype)
    return under_products(asked, of_distances, content(params, q), k, v, offset=offset, causal=causal, scale=scale)


@implements(
    "transformer_xl",
    softmax="causal",
    positions="contiguous",
    corner="bottom-right",
    binds=("mask", "scale", "num_kv_heads"),
    **CLAIMS,
)
def attention_shift(
    settings: TransformerXL,
    params: Mapping[str, Tensor],
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mask: Tensor | None = None,
    scale: float | None = None,
) -> Tensor:
    """Causal attention [B, H, Lq, D] of the last Lq of Lk tokens, those before them memory, by the published shift."""
    n, m = q.shape[-2], k.shape[-2]
    δ = (m - 1) - torch.arange(m, device=q.device)
    found = skewed(over_distances(settings, params, q, δ)) + asked_by_keys(params, k, q.shape[1])
    seen = _seen(settings, *contiguous(n, m, m - n, q.device), mask, causal=True)
    return mixed(softmax(score(q, k, scale) + found * default_scale(q, scale), seen), v).to(q.dtype)


@implements("transformer_xl", positions="per_row", binds=BINDS, **CLAIMS)
class Attention(nn.Module):
    """Attention [B, H, Lq, D] that owns its parameters. The authors share pos_bias_u and pos_bias_v between layers."""

    def __init__(self, settings: TransformerXL) -> None:
        super().__init__()
        self.settings = settings
        for name, shape in settings.parameters().items():
            self.register_parameter(name, nn.Parameter(torch.empty(shape)))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all parameters from a normal distribution of deviation 0.02, as the authors do."""
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=INIT_STD)

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        query_positions: Tensor,
        key_positions: Tensor,
        mask: Tensor | None = None,
        causal: bool = False,
        scale: float | None = None,
    ) -> Tensor:
        params = dict(self.named_parameters())
        at = (query_positions, key_positions)
        return attention(self.settings, params, q, k, v, *at, mask=mask, causal=causal, scale=scale)


@implements("transformer_xl", **CLAIMS)
class Decoder:
    """Causal decoding with memory: what no later query can see is dropped, so that the cache stays as long as the memory.

    Where the settings limit what is seen (`same_length`, `segment_length`), so much is kept; otherwise everything.
    """

    def __init__(self, settings: TransformerXL, params: Mapping[str, Tensor]) -> None:
        self.settings, self.params = settings, params
        self._past = Past(lambda far, dtype: vectors(settings, params, -far, dtype), dim=-2)
        self._first = self._length = 0
        self._cache, self._memory = KVCache("transformer_xl"), None

    @torch.no_grad()
    def step(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Outputs [B, H, n, D] of n new tokens; q [B, H, n, D], k and v [B, Hkv, n, D]."""
        self._cache.check(k, v, q, self._memory)
        start, self._length = self._length, self._length + q.shape[-2]
        if not self.settings.hides:
            return self._attended(q, *self._cache.append(k, v), start)
        if self._memory is not None:
            k, v = (torch.cat(pair, dim=-2) for pair in zip(self._memory, (k, v), strict=True))
        out = self._attended(q, k, v, start)
        drop = max(_oldest(self.settings, self._length) - self._first, 0)
        self._first, self._memory = self._first + drop, (k[..., drop:, :].clone(), v[..., drop:, :].clone())
        return out

    def _attended(self, q: Tensor, k: Tensor, v: Tensor, start: int) -> Tensor:
        settings, params, offset, dtype = self.settings, self.params, start - self._first, working(q.dtype)
        if q.shape[-2] > 1 and settings.hides:
            queries, keys = (torch.arange(first, self._length, device=q.device) for first in (start, self._first))
            return _aligned(settings, params, q, k, v, _seen(settings, queries, keys, None, causal=True), offset, None)
        asked, scale = asks(settings, params, q), default_scale(q, None)
        found = self._past(1 - k.shape[-2], q.shape[-2], dtype, q.device)
        if q.shape[-2] > 1:
            return under_products(asked, found, content(params, q), k, v, offset=offset, causal=True, scale=scale)
        # What a query does not see has been dropped before it.
        return fused(content(params, q), k, v, mask=asked @ found.transpose(-1, -2) * scale)


def _oldest(settings: TransformerXL, position: int) -> int:
    """The first key that a query at `position` or later sees, where not all of them are seen."""
    M, n = settings.memory_length, settings.segment_length
    assert M is not None  # `hides` without it is refused
    return position - M + 1 if n is None else position // n * n - M


def _aligned(
    settings: TransformerXL,
    params: Mapping[str, Tensor],
    q: Tensor,
    k: Tensor,
    v: Tensor,
    seen: Tensor | None,
    offset: int,
    scale: float | None,
) -> Tensor:
    δ = (q.shape[2] - 1 + offset) - torch.arange(q.shape[2] + k.shape[2], device=q.device)
    found = aligned(over_distances(settings, params, q, δ), k.shape[2]) + asked_by_keys(params, k, q.shape[1])
    return mixed(softmax(score(q, k, scale) + found * default_scale(q, scale), seen), v).to(q.dtype)


def _seen(
    settings: TransformerXL, query_positions: Tensor, key_positions: Tensor, mask: Tensor | None, causal: bool
) -> Tensor | None:
    """Who sees whom by mask, causal flag and memory; None: all see all."""
    seen, near = visible(query_positions, key_positions, mask, causal), sees(settings, query_positions, key_positions)
    return near if seen is None else seen if near is None else seen & near
