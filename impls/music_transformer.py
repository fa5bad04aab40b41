"""music_transformer: a learned vector per distance and head: products gathered per pair, in one view, or by the published skew.

    logit[b, h, i, j] = scale · q_i · (k_j + rel_k[h, r])      r = j − i + M − 1, no vector where that is no row

`attention` multiplies q by the table and gathers numbers; it takes every variant and any positions. `attention_aligned`, for
contiguous positions, multiplies q by the vectors of all distances in order; the term is a view of that. `attention_skew` is
the published pad, reshape and slice: square, masked, right under a causal mask only, which it applies. `streamed` forms no
score of all pairs: the skewed engine.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from relpos.impls._attention import DTYPES, contiguous, default_scale, mixed, score, softmax, visible, working
from relpos.impls._cache import KVCache
from relpos.impls._music_terms import heard, rows, sees, term, values
from relpos.impls._skew import aligned, skewed, spread, unskewed
from relpos.impls._skewed import under_products
from relpos.impls.card import implements
from relpos.spec.music_transformer import MusicTransformer

BINDS = ("mask", "causal", "scale", "num_kv_heads")
INIT_STD = 0.02
CLAIMS = {"level": "attention", "dtypes": DTYPES, "max_position": 2**32}


@implements(
    "music_transformer",
    level="logits",
    positions="per_row",
    binds=("scale", "num_kv_heads"),
    dtypes=DTYPES,
    max_position=2**32,
)
def logits(
    settings: MusicTransformer,
    params: Mapping[str, Tensor],
    q: Tensor,
    k: Tensor,
    query_positions: Tensor,
    key_positions: Tensor,
    *,
    scale: float | None = None,
) -> Tensor:
    """The complete score before any mask, [B, H, Lq, Lk]: content and position, scaled."""
    at = (query_positions, key_positions)
    near, found = sees(settings, *at), (score(q, k, scale) + term(settings, params, q, *at, scale=scale)).to(q.dtype)
    # Hidden again, now content and all: what is −∞ has no gradient.
    return found if near is None else found.masked_fill(~near, -torch.inf)


@implements("music_transformer", positions="per_row", binds=BINDS, **CLAIMS)
def attention(
    settings: MusicTransformer,
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
    """Attention [B, H, Lq, D]; q [B, H, Lq, D], k and v [B, Hkv, Lk, D], positions [L] or [B, L]."""
    at = (query_positions, key_positions)
    added = term(settings, params, q, *at, scale=scale)
    weights = softmax(score(q, k, scale) + added, _seen(settings, *at, mask, causal))
    return (mixed(weights, v) + values(settings, params, weights, *at)).to(q.dtype)


@implements("music_transformer", positions="offset", binds=BINDS, **CLAIMS)
def attention_aligned(
    settings: MusicTransformer,
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
    """Attention [B, H, Lq, D] of contiguous positions: the term is a view of q times the vectors of all distances."""
    at = contiguous(query_length, key_length, offset, q.device)
    order = torch.arange(query_length + key_length, device=q.device)
    vectors = _vectors(params, rows(settings, order + (1 - query_length - offset)), working(q.dtype))
    added = aligned((q.to(vectors["rel_k"].dtype) @ vectors["rel_k"].transpose(-1, -2)), key_length)
    added = added.to(working(q.dtype)) * default_scale(q, scale)
    weights = softmax(score(q, k, scale) + added, _seen(settings, *at, mask, causal))
    out = mixed(weights, v)
    if "rel_v" in vectors:
        out = out + spread(heard(settings, weights, at[0])) @ vectors["rel_v"]
    return out.to(q.dtype)


@implements(
    "music_transformer", positions="offset", binds=("causal", "scale", "num_kv_heads"), settings={"value_term": "none"},
    memory="B*H*Lq*D + B*H*Lk*D + B*H*Lq + B*H*Lk", **CLAIMS,
)  # fmt: skip
def streamed(
    settings: MusicTransformer,
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
    """Attention [B, H, Lq, D] whose term is never formed, by the skewed engine; no value term, no variant "local"."""
    if settings.variant == "local" or settings.value_term != "none":
        raise NotImplementedError(
            'music_transformer: `streamed` has no variant "local" and no `value_term`, '
            f"got {settings.variant!r} and {settings.value_term!r}; attention_aligned has both."
        )
    dtype, scale = working(q.dtype), default_scale(q, scale)
    far = torch.arange(1 - query_length - offset, key_length - offset, device=q.device)
    vectors = _vectors(params, rows(settings, far), dtype)["rel_k"]
    vectors = vectors if vectors.ndim == 3 else vectors.unsqueeze(0)
    return under_products(q.to(dtype), vectors, q, k, v, offset=offset, causal=causal, scale=scale)


@implements(
    "music_transformer",
    softmax="causal",
    positions="contiguous",
    binds=("mask", "scale", "num_kv_heads"),
    settings={"variant": "masked"},
    **CLAIMS,
)
def attention_skew(
    settings: MusicTransformer,
    params: Mapping[str, Tensor],
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mask: Tensor | None = None,
    scale: float | None = None,
) -> Tensor:
    """Causal attention [B, H, L, D] by the published skew, of L tokens that attend to themselves."""
    dtype, L = working(q.dtype), q.shape[-2]
    added = skewed((q.to(dtype) @ _last(params["rel_k"], L).to(dtype).transpose(-1, -2)).to(dtype))
    at = contiguous(L, L, 0, q.device)
    weights = softmax(score(q, k, scale) + added * default_scale(q, scale), visible(*at, mask, causal=True))
    out = mixed(weights, v)
    if settings.value_term == "every":
        out = out + unskewed(weights) @ _last(params["rel_v"], L).to(dtype)
    return out.to(q.dtype)


@implements("music_transformer", positions="per_row", binds=BINDS, **CLAIMS)
class Attention(nn.Module):
    """Attention [B, H, Lq, D] that owns its tables, rel_k and, with a value term, rel_v."""

    def __init__(self, settings: MusicTransformer) -> None:
        super().__init__()
        self.settings = settings
        for name, shape in settings.parameters().items():
            self.register_parameter(name, nn.Parameter(torch.empty(shape)))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the tables from a normal distribution of deviation 0.02."""
        for table in self.parameters():
            nn.init.normal_(table, std=INIT_STD)

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


@implements("music_transformer", **CLAIMS)
class Decoder:
    """Causal decoding; keys carry no position, so the cache holds them as they came."""

    def __init__(self, settings: MusicTransformer, params: Mapping[str, Tensor]) -> None:
        self.settings, self.params = settings, params
        self._cache = KVCache("music_transformer")

    @torch.no_grad()
    def step(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Outputs [B, H, n, D] of n new tokens; q [B, H, n, D], k and v [B, Hkv, n, D]."""
        start = self._cache.length
        keys, values = self._cache.append(k, v, q)
        at = contiguous(q.shape[-2], keys.shape[-2], start, q.device)
        return attention(self.settings, self.params, q, keys, values, *at, causal=True)


def _seen(
    settings: MusicTransformer, query_positions: Tensor, key_positions: Tensor, mask: Tensor | None, causal: bool
) -> Tensor | None:
    """Who sees whom by mask, causal flag and block; None: all see all."""
    seen, near = visible(query_positions, key_positions, mask, causal), sees(settings, query_positions, key_positions)
    return near if seen is None else seen if near is None else seen & near


def _vectors(params: Mapping[str, Tensor], r: Tensor, dtype: torch.dtype) -> Mapping[str, Tensor]:
    """Each table's rows r, [H, n, width] or [n, width]; 0 one past the last."""
    return {name: pad(table.to(dtype), (0, 0, 0, 1)).index_select(-2, r) for name, table in params.items()}


def _last(table: Tensor, length: int) -> Tensor:
    """The last `length` rows of a table, zeros before its first where it is shorter."""
    rows = table.shape[-2]
    return table[..., rows - length :, :] if rows >= length else pad(table, (0, 0, length - rows, 0))
