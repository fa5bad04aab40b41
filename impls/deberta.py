"""deberta: content meets learned vectors of clipped or bucketed distance: products with every row, gathered by pair.

    logit[b, h, i, j] = scale · (q_i · k_j + q_i · pos_key[h, δ(i, j)] + k_j · pos_query[h, δ(i, j)])

`attention` multiplies queries and keys by all rows and gathers numbers; `attention_vectors` gathers a vector per pair and
head; `streamed`, for contiguous positions, forms neither: the ranged engine, since rows are one beyond a distance. There δ is a
line over distances, which `CachedRows` keeps between calls. Rows of distances are whole numbers, exact at any length; the
tables are projected once where `share_att_key` leaves that to do.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from relpos.impls._attention import DTYPES, contiguous, fused, mixed, score, shared_heads, softmax, visible, working
from relpos.impls._blocks import Plan
from relpos.impls._cache import Kept, KVCache, Window
from relpos.impls._deberta_rows import constant_from, rows
from relpos.impls._deberta_terms import by_query, gathered, of_last, own_scale, projected, rows_of_pairs, term, vectors_of_pairs
from relpos.impls._ranged import Ranged
from relpos.impls._streamed import streamed as run_blocks
from relpos.impls.card import implements
from relpos.spec.deberta import DeBERTa

Params = Mapping[str, Tensor]
BINDS = ("mask", "causal", "scale", "num_kv_heads")
INIT_STD = 0.02
CLAIMS = {"binds": BINDS, "dtypes": DTYPES, "max_position": 2**32}
STREAMED = "B*H*Lq*D + B*H*Lk*D + B*H*Lq + B*H*Lk"
GATHERED = "B*H*Lq*Lk + B*H*Lq*D + B*H*Lk*D"  # products with the rows grow with the lengths, not with their product


@implements(
    "deberta", level="logits", positions="per_row", memory=GATHERED, double_backward=True,
    **{**CLAIMS, "binds": ("scale", "num_kv_heads")},
)  # fmt: skip
def logits(
    settings: DeBERTa,
    params: Params,
    q: Tensor,
    k: Tensor,
    query_positions: Tensor,
    key_positions: Tensor,
    *,
    scale: float | None = None,
) -> Tensor:
    """The complete score before any mask, [B, H, Lq, Lk]: content and position, scaled."""
    scale = own_scale(settings, q, scale)
    added = term(settings, params, q, k, query_positions, key_positions, scale=scale)
    return (score(q, k, scale) + added).to(q.dtype)


@implements("deberta", level="attention", positions="per_row", memory=GATHERED, **CLAIMS)
def attention(
    settings: DeBERTa,
    params: Params,
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
    scale = own_scale(settings, q, scale)
    scores = score(q, k, scale) + term(settings, params, q, k, query_positions, key_positions, scale=scale)
    return mixed(softmax(scores, visible(query_positions, key_positions, mask, causal)), v).to(q.dtype)


@implements("deberta", level="attention", positions="per_row", memory="B*H*Lq*Lk*D", **CLAIMS)
def attention_vectors(
    settings: DeBERTa,
    params: Params,
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
    """Attention [B, H, Lq, D] from a vector per pair and head, as the formula reads."""
    scale, dtype = own_scale(settings, q, scale), working(q.dtype)
    c2p, p2c = rows_of_pairs(settings, query_positions, key_positions)
    scores = score(q, k, scale)
    tables = projected(settings, params, dtype)
    if "pos_key" in tables:
        scores = scores + (q.to(dtype).unsqueeze(3) * vectors_of_pairs(tables["pos_key"], c2p)).sum(-1) * scale
    if "pos_query" in tables:
        keys = shared_heads(k, q.shape[1]).to(dtype)
        scores = scores + (keys.unsqueeze(2) * vectors_of_pairs(tables["pos_query"], p2c)).sum(-1) * scale
    return mixed(softmax(scores, visible(query_positions, key_positions, mask, causal)), v).to(q.dtype)


@implements("deberta", level="attention", positions="offset", memory=GATHERED, **CLAIMS)
class CachedRows(nn.Module):
    """Attention [B, H, Lq, D] of contiguous positions; the rows of all distances are kept from call to call."""

    def __init__(self, settings: DeBERTa) -> None:
        super().__init__()
        self.settings = settings
        self._line = Window(lambda distance, _dtype, _device: rows(settings, distance), dim=0)

    def forward(
        self,
        params: Params,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        query_length: int,
        key_length: int,
        offset: int,
        mask: Tensor | None = None,
        causal: bool = False,
        scale: float | None = None,
    ) -> Tensor:
        scale = own_scale(self.settings, q, scale)
        # Distances offset − (Lk − 1) … offset + Lq − 1; row i of δ is the piece of Lk of them up to i + offset, reversed.
        line = self._line(offset - key_length + 1, offset + query_length, torch.int64, q.device)
        c2p = p2c = line.unfold(0, key_length, 1).flip(-1)
        if self.settings.indices == "paper":
            back = self._line(1 - offset - query_length, key_length - offset, torch.int64, q.device)
            p2c = back.unfold(0, key_length, 1).flip(-2)
        scores = score(q, k, scale) + gathered(self.settings, params, q, k, c2p, p2c) * scale
        seen = visible(*contiguous(query_length, key_length, offset, q.device), mask, causal)
        return mixed(softmax(scores, seen), v).to(q.dtype)


@implements(
    "deberta",
    level="attention",
    positions="offset",
    memory=STREAMED,
    **{**CLAIMS, "binds": ("causal", "scale", "num_kv_heads")},
)
def streamed(
    settings: DeBERTa,
    params: Params,
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
    """Attention [B, H, Lq, D] whose terms are never formed beyond the clip or the last bucket, by the ranged engine."""
    at, scale = contiguous(query_length, key_length, offset, q.device), own_scale(settings, q, scale)
    if torch.compiler.is_compiling():  # blocks would fix the lengths
        return attention(settings, params, q, k, v, *at, causal=causal, scale=scale)
    dtype, reach = working(q.dtype), constant_from(settings)
    far = torch.arange(1 - query_length - offset, key_length - offset, device=q.device)
    tables, keys = projected(settings, params, dtype), shared_heads(k, q.shape[1])
    tensors = by_query(q, tables, rows(settings, -far), scale)
    if "pos_query" in tables:
        r = rows(settings, -far if settings.indices == "code" else far)
        tensors = (*tensors, keys.to(dtype) * scale, tables["pos_query"].index_select(1, r))
    plan = Plan(makes=Ranged, offset=offset, causal=causal, scale=scale, reach=(reach, reach))
    return run_blocks(plan, q, keys.to(q.dtype), shared_heads(v, q.shape[1]).to(q.dtype), *tensors)


@implements("deberta", level="attention", positions="per_row", **CLAIMS)
class Attention(nn.Module):
    """Attention [B, H, Lq, D] that owns its tables, pos_key and pos_query, or what they are projected from."""

    def __init__(self, settings: DeBERTa) -> None:
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
        at = (query_positions, key_positions)
        return attention(self.settings, dict(self.named_parameters()), q, k, v, *at, mask=mask, causal=causal, scale=scale)


@implements("deberta", level="attention", dtypes=DTYPES, max_position=2**32)
class Decoder:
    """Causal decoding; keys carry no position, so the cache holds them as they came. Tables are projected at the first step."""

    def __init__(self, settings: DeBERTa, params: Params) -> None:
        self.settings, self.params = settings, params
        self._cache, self._tables = KVCache("deberta"), Kept(lambda dtype: projected(settings, params, dtype))

    @torch.no_grad()
    def step(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Outputs [B, H, n, D] of n new tokens; q [B, H, n, D], k and v [B, Hkv, n, D]."""
        start, n = self._cache.length, q.shape[-2]
        keys, values = self._cache.append(k, v, q)
        if n != 1:
            return streamed(self.settings, self.params, q, keys, values, n, start + n, start, causal=True)
        scale, keys = own_scale(self.settings, q, None), shared_heads(keys, q.shape[1])
        added = of_last(self.settings, self._tables(working(q.dtype)), q, keys, scale)
        return fused(q, keys, values, mask=added, scale=scale)
