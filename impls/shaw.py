"""shaw: learned vectors of clipped distance on keys and values: by plain gather, by products gathered, and skewed.

    logit[b, h, i, j] = scale · q_i · (k_j + rel_k[r])      out[b, h, i] = Σ_j weight_ij · (v_j + rel_v[r])
    r = clip(j − i, −K, K) + K

`attention` forms the [Lq, Lk, D] vectors. `attention_gather` multiplies q by the 2K+1 rows and gathers numbers. With
contiguous positions `attention_skew` multiplies q by the rows of all distances in order; the score is a view of that.
`streamed` forms no score of all pairs: the ranged engine, since vectors are one beyond K. All take every table and sign. The
relative_key tables refuse a distance beyond `max_distance`.
"""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding

from relpos.impls._attention import DTYPES, contiguous, default_scale, mixed, score, shared_heads, softmax, visible, working
from relpos.impls._cache import KVCache
from relpos.impls._shaw_rows import clipped, refuse_lengths, rows, skewed, unskewed
from relpos.impls._shaw_terms import by_distance, term, values
from relpos.impls.card import implements
from relpos.spec.shaw import Shaw

BINDS = ("mask", "causal", "scale", "num_kv_heads")
INIT_STD = 0.02
SKEWED = "B*H*Lq*Lq + B*H*Lq*Lk + B*H*Lk*Lk + B*H*Lq*D + B*H*Lk*D"
CLAIMS = {"binds": BINDS, "dtypes": DTYPES, "max_position": 2**32}


@implements(
    "shaw",
    level="logits",
    positions="per_row",
    binds=("scale", "num_kv_heads"),
    dtypes=DTYPES,
    max_position=2**32,
    memory="B*H*Lq*Lk + B*Lq*Lk*D + B*H*Lq*D + B*H*Lk*D",
)
def logits(
    settings: Shaw,
    params: Mapping[str, Tensor],
    q: Tensor,
    k: Tensor,
    query_positions: Tensor,
    key_positions: Tensor,
    *,
    scale: float | None = None,
) -> Tensor:
    """The complete score before any mask, [B, H, Lq, Lk]: content and position, scaled."""
    r = rows(settings, query_positions, key_positions)
    return (score(q, k, scale) + _gathered_vectors(settings, params["rel_k"], q, k, r, scale)).to(q.dtype)


@implements(
    "shaw",
    level="attention",
    positions="per_row",
    **CLAIMS,
    double_backward=True,
    memory="B*H*Lq*Lk + B*Lq*Lk*D + B*H*Lq*D + B*H*Lk*D",
)
def attention(
    settings: Shaw,
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
    """Attention [B, H, Lq, D] from a vector per pair; q [B, H, Lq, D], k and v [B, Hkv, Lk, D], positions [L] or [B, L]."""
    r = rows(settings, query_positions, key_positions)

    def spread(weights: Tensor, table: Tensor) -> Tensor:
        return _contracted("bhij,{}ijd->bhid", weights, embedding(r, table))

    term = _gathered_vectors(settings, params["rel_k"], q, k, r, scale)
    seen = visible(query_positions, key_positions, mask, causal)
    return _attended(settings, params, q, k, v, term, spread, seen, scale)


@implements("shaw", level="attention", positions="per_row", **CLAIMS, memory="B*H*Lq*Lk + B*H*Lq*D + B*H*Lk*D")
def attention_gather(
    settings: Shaw,
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
    """Attention [B, H, Lq, D] without a vector per pair: 2K+1 products per query, and weights summed into 2K+1 bins."""
    at = (query_positions, key_positions)
    scores = score(q, k, scale) + term(settings, params, q, k, *at, scale=scale)
    weights = softmax(scores, visible(*at, mask, causal))
    return (mixed(weights, v) + values(settings, params, weights, *at)).to(q.dtype)


@implements("shaw", level="attention", positions="offset", **CLAIMS, memory=SKEWED)
def attention_skew(
    settings: Shaw,
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
    """Attention [B, H, Lq, D] of contiguous positions: bias[i, j] = (q · rel_kᵀ)[i, j − i + Lq − 1], a view of the product."""
    refuse_lengths(settings, query_length, key_length, offset)
    queries, keys = contiguous(query_length, key_length, offset, q.device)
    # One distance more than there are, so that a row of the view is never longer than its stride (Lq = 1).
    order = torch.arange(query_length + key_length, device=q.device)
    r = clipped(settings, order + (1 - query_length - offset))

    def spread(weights: Tensor, table: Tensor) -> Tensor:
        return unskewed(weights) @ embedding(r, table)

    term = skewed(q.to(working(q.dtype)), params["rel_k"], r, key_length)
    if settings.tables == "relative_key_query":
        seen_from_keys = clipped(settings, (key_length - 1 - offset) - order)
        by_key = skewed(k.to(term.dtype), params["rel_k"], seen_from_keys, query_length)
        term = term + shared_heads(by_key.transpose(-1, -2), q.shape[1])
    term = term * default_scale(q, scale)
    return _attended(settings, params, q, k, v, term, spread, visible(queries, keys, mask, causal), scale)


@implements(
    "shaw", level="attention", positions="offset", binds=("causal", "scale", "num_kv_heads"), dtypes=DTYPES, max_position=2**32,
    memory="B*H*Lq*D + B*H*Lk*D + B*H*Lq + B*H*Lk",
)  # fmt: skip
def streamed(
    settings: Shaw,
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
    """Attention [B, H, Lq, D] whose terms are never formed, trained or not.

    By the skewed engine where no distance is clipped and queries alone ask, by the ranged one where a band is all that differs.
    """
    at = contiguous(query_length, key_length, offset, q.device)
    if torch.compiler.is_compiling():  # blocks would fix the lengths
        return attention_gather(settings, params, q, k, v, *at, causal=causal, scale=scale)
    refuse_lengths(settings, query_length, key_length, offset)
    return by_distance(settings, params, (q, k, v), offset, causal=causal, scale=default_scale(q, scale))


@implements("shaw", level="attention", positions="per_row", binds=BINDS, dtypes=DTYPES, max_position=2**32)
class Attention(nn.Module):
    """Attention [B, H, Lq, D] that owns its tables: rel_k [2K+1, D] and, for separate tables, rel_v [2K+1, D]."""

    def __init__(self, settings: Shaw) -> None:
        super().__init__()
        self.settings = settings
        for name in ("rel_k", "rel_v") if settings.tables == "separate" else ("rel_k",):
            self.register_parameter(name, nn.Parameter(torch.empty(2 * settings.max_distance + 1, settings.head_dim)))
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
        return attention_gather(self.settings, params, q, k, v, *at, mask=mask, causal=causal, scale=scale)


@implements("shaw", level="attention", dtypes=DTYPES, max_position=2**32)
class Decoder:
    """Causal decoding; keys carry no position, so the cache holds them as they came."""

    def __init__(self, settings: Shaw, params: Mapping[str, Tensor]) -> None:
        self.settings, self.params = settings, params
        self._cache = KVCache("shaw")

    @torch.no_grad()
    def step(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Outputs [B, H, n, D] of n new tokens; q [B, H, n, D], k and v [B, Hkv, n, D]."""
        start = self._cache.length
        refuse_lengths(self.settings, q.shape[-2], start + q.shape[-2], start)
        keys, values = self._cache.append(k, v, q)
        at = contiguous(q.shape[-2], keys.shape[-2], start, q.device)
        return attention_gather(self.settings, self.params, q, keys, values, *at, causal=True)


def _attended(
    settings: Shaw,
    params: Mapping[str, Tensor],
    q: Tensor,
    k: Tensor,
    v: Tensor,
    term: Tensor,
    spread: Callable[[Tensor, Tensor], Tensor],
    seen: Tensor | None,
    scale: float | None,
) -> Tensor:
    weights = softmax(score(q, k, scale) + term, seen)
    out = mixed(weights, v)
    if not settings.tables.startswith("relative_key"):
        table = params["rel_v"] if settings.tables == "separate" else params["rel_k"]
        out = out + spread(weights, table.to(weights.dtype))
    return out.to(q.dtype)


def _gathered_vectors(settings: Shaw, table: Tensor, q: Tensor, k: Tensor, r: Tensor, scale: float | None) -> Tensor:
    dtype = working(q.dtype)
    vectors = embedding(r, table.to(dtype))
    term = _contracted("bhid,{}ijd->bhij", q.to(dtype), vectors)
    if settings.tables == "relative_key_query":
        term = term + shared_heads(_contracted("bhjd,{}ijd->bhij", k.to(dtype), vectors), q.shape[1])
    return term * default_scale(q, scale)


def _contracted(subscripts: str, x: Tensor, vectors: Tensor) -> Tensor:
    per_row = "b" if vectors.ndim == x.ndim else ""
    return torch.einsum(subscripts.format(per_row), x, vectors).to(x.dtype)
