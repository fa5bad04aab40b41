"""The two position terms of DeBERTa: what is multiplied with what, projected once, and gathered by pair."""

from collections.abc import Mapping

import torch
from torch import Tensor

from relpos.impls._attention import relative, shared_heads, working
from relpos.impls._deberta_rows import constant_from, rows
from relpos.spec.deberta import DeBERTa

Params = Mapping[str, Tensor]


def term(
    settings: DeBERTa,
    params: Params,
    q: Tensor,
    k: Tensor,
    query_positions: Tensor,
    key_positions: Tensor,
    *,
    scale: float | None = None,
) -> Tensor:
    """What is added to scale · q · k, [B, H, Lq, Lk] in the working dtype."""
    c2p, p2c = rows_of_pairs(settings, query_positions, key_positions)
    return gathered(settings, params, q, k, c2p, p2c) * own_scale(settings, q, scale)


def own_scale(settings: DeBERTa, q: Tensor, scale: float | None) -> float:
    """1/√(D · (1 + number of position terms)) unless given."""
    return (q.shape[-1] * (3 if settings.terms == "both" else 2)) ** -0.5 if scale is None else scale


def projected(settings: DeBERTa, params: Params, dtype: torch.dtype) -> dict[str, Tensor]:
    """pos_key and pos_query, those there are, [H, 2K, D]."""
    if not settings.share_att_key:
        return {name: params[name].to(dtype) for name in ("pos_key", "pos_query") if name in params}
    P, found = params["rel_embeddings"].to(dtype), {}
    for side in (side for side in ("key", "query") if f"w_{side}" in params):
        table = torch.nn.functional.linear(P, params[f"w_{side}"].to(dtype), params[f"b_{side}"].to(dtype)).to(dtype)
        found[f"pos_{side}"] = table.unflatten(-1, (settings.num_heads, settings.head_dim)).transpose(0, 1)
    return found


def by_query(q: Tensor, tables: dict[str, Tensor], r: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """What queries ask, scaled, and the vectors of rows r; zeros of one column where only keys are asked."""
    dtype = working(q.dtype)
    if "pos_key" in tables:
        return q.to(dtype) * scale, tables["pos_key"].index_select(1, r)
    return q.new_zeros((*q.shape[:3], 1), dtype=dtype), q.new_zeros((1, len(r), 1), dtype=dtype)


def of_last(settings: DeBERTa, tables: dict[str, Tensor], q: Tensor, keys: Tensor, scale: float) -> Tensor:
    """What is added for one query, the last token, q [B, H, 1, D] and keys [B, H, n, D] -> [B, H, 1, n].

    All keys beyond the clip, or the last bucket, meet one vector; only those before it have vectors of their own.
    """
    n, dtype = keys.shape[2], working(q.dtype)
    far = max(n - constant_from(settings), 0)  # keys so far before the query
    before = torch.arange(n - far - 1, -1, -1, device=q.device)
    parts: list[tuple[Tensor, Tensor]] = []
    if "pos_key" in tables:
        found = (q.to(dtype) * scale) @ tables["pos_key"].transpose(-1, -2)
        of_far = found.index_select(-1, rows(settings, before[:1] + 1)).expand(-1, -1, -1, far)
        parts.append((of_far, found.index_select(-1, rows(settings, before))))
    if "pos_query" in tables:
        back, sign = tables["pos_query"], 1 if settings.indices == "code" else -1
        beyond, near = (back.index_select(1, rows(settings, sign * δ)) * scale for δ in (before[:1] + 1, before))
        of_far = (keys[:, :, :far].to(dtype) @ beyond.transpose(-1, -2)).transpose(-1, -2)
        parts.append((of_far, (keys[:, :, far:].to(dtype) * near).sum(-1).unsqueeze(-2)))
    whole = [torch.cat(part, dim=-1) for part in parts]
    return whole[0] if len(whole) == 1 else whole[0] + whole[1]


def rows_of_pairs(settings: DeBERTa, query_positions: Tensor, key_positions: Tensor) -> tuple[Tensor, Tensor]:
    """Rows of pos_key and of pos_query for all pairs, [Lq, Lk] or [B, Lq, Lk]."""
    after = relative(query_positions, key_positions)
    before = rows(settings, -after)
    return before, before if settings.indices == "code" else rows(settings, after)


def gathered(settings: DeBERTa, params: Params, q: Tensor, k: Tensor, c2p: Tensor, p2c: Tensor) -> Tensor:
    """Products with every row of the tables, gathered by pair, [B, H, Lq, Lk]."""
    dtype, found = working(q.dtype), []
    tables = projected(settings, params, dtype)
    if "pos_key" in tables:
        by_query = (q.to(dtype) @ tables["pos_key"].transpose(-1, -2)).to(dtype)
        found.append(by_query.gather(-1, _per_head(c2p).expand(*q.shape[:2], -1, -1)))
    if "pos_query" in tables:
        keys = shared_heads(k, q.shape[1]).to(dtype)
        by_key = (keys @ tables["pos_query"].transpose(-1, -2)).to(dtype)
        found.append(by_key.gather(-1, _per_head(p2c).transpose(-1, -2).expand(*keys.shape[:2], -1, -1)).transpose(-1, -2))
    return found[0] if len(found) == 1 else found[0] + found[1]


def vectors_of_pairs(table: Tensor, pairs: Tensor) -> Tensor:
    """Rows of a table [H, 2K, D] by pair, [H, Lq, Lk, D], or [B, H, Lq, Lk, D] for pairs [B, Lq, Lk]."""
    found = table.index_select(1, pairs.reshape(-1)).unflatten(1, pairs.shape)
    return found.movedim(0, -4)


def _per_head(pairs: Tensor) -> Tensor:
    return pairs[None, None] if pairs.ndim == 2 else pairs.unsqueeze(1)
