"""Faults of the clipped table: its rows, and the code of a popular article, whose mask and positions go wrong around it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from relpos.conformance.faults import caches
from relpos.conformance.faults.api import Fault, Planted, Wrong
from relpos.conformance.faults.tables import of_tables, read
from relpos.conformance.plan import Inputs
from relpos.spec.clipped import Clipped

BOTH = {"directions": "both", "beyond": "repeat", "sign": "query_minus_key"}
WIDE = {**BOTH, "max_distance": 2}
ARTICLE: dict[str, Any] = {**WIDE, "heads": "own"}
ATTENTION = ("attention",)


def _with_row(row: Callable[[Clipped, int, int], int | None]) -> Callable[[Clipped], Wrong]:
    """Another row for the query at i and the key at j."""

    def wrong(s: Clipped) -> Wrong:
        looking: Any = Wrong(s, row=lambda i, j: row(s, i, j))
        return Wrong(looking, bias=lambda *given: Clipped.bias(looking, *given))

    return wrong


def _last(s: Clipped) -> int:
    return s.parameters()["table"][0] - 1


def _late(s: Clipped, i: int, j: int) -> int | None:
    r = s.row(i, j)
    return None if r is None else min(r + 1, _last(s))


def _early(s: Clipped, i: int, j: int) -> int:
    K = s.max_distance
    return min(max(i - j, 1 - K), K - 1) + K


def _wrapped(s: Clipped, i: int, j: int) -> int:
    """Rows counted from the query's own position, negative ones from the end of the table."""
    r = s.row(i, j)
    assert r is not None  # every distance has a row here
    return (r - s.max_distance) % (2 * s.max_distance + 1)


def _unclipped(s: Clipped, i: int, j: int) -> int:
    """Distances that run around the table."""
    return (i - j + s.max_distance) % (2 * s.max_distance + 1)


def _absolute(s: Clipped, i: int, j: int) -> int | None:
    return s.row(i, i - abs(i - j))


def _along_heads(i: Inputs) -> Inputs:
    """A mask [B, Lq, Lk] meets scores [B, H, Lq, Lk]: its samples stand where the heads are."""
    if i.mask is None:
        return i
    B, H = i.q.shape[:2]
    rows = np.resize(np.arange(B), H)  # as many samples as heads, or it would crash
    return i.but(mask=np.broadcast_to(i.mask[rows, 0][None], (B, H, *i.mask.shape[2:])).copy())


def rows(s: Clipped, far: Tensor) -> Tensor:
    """Right rows of pairs that have one, for faults of another kind."""
    d = far if s.sign == "key_minus_query" else -far
    return d.clamp(-s.max_distance, s.max_distance) + s.max_distance


def _exchanged(s: Clipped, far: Tensor) -> Tensor:
    return rows(s, -far)


def _scores(settings: Clipped, table: Tensor, q: Tensor, k: Tensor) -> Tensor:
    """As printed: queries and keys both count from 0, whatever is cached."""
    far = torch.arange(k.shape[2]) - torch.arange(q.shape[2])[:, None]
    return q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5 + table[rows(settings, far)].permute(2, 0, 1)


def article_mask_numbers(settings, table: Tensor, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """`mask == 0` hides: an additive mask, 0 where visible, is read the wrong way round."""
    scores = _scores(settings, table, q, k).masked_fill(mask == 0, float("-inf"))
    return torch.nan_to_num(scores.softmax(-1)) @ v


def article_empty_rows(settings, table: Tensor, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """A query without keys is NaN."""
    return _scores(settings, table, q, k).masked_fill(mask == 0, float("-inf")).softmax(-1) @ v


def article_clamped(settings, table: Tensor, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """Scores clamped to ±10 after they were masked, which lifts the mask."""
    return _scores(settings, table, q, k).masked_fill(mask == 0, float("-inf")).clamp(-10, 10).softmax(-1) @ v


def article_positions(settings, table: Tensor, q: Tensor, k: Tensor, offset: int) -> Tensor:
    """There is no way to say where the queries lie, so nobody listens."""
    del offset
    return _scores(settings, table, q, k)


# fmt: off
FAULTS = (
    Fault("row-late", "rows one too far", "L12", _with_row(_late), settings=WIDE),
    Fault("row-clipped-early", "distances clipped at K − 1", "L12", _with_row(_early), settings=WIDE),
    Fault("row-wraps", "rows counted from the own position, negative ones from the end", "L12", _with_row(_wrapped),
        settings=WIDE),
    Fault("row-unclipped", "distances that run around the table", "L12", _with_row(_unclipped), settings=WIDE),
    Fault("row-absolute", "before and after not told apart", "L11", _with_row(_absolute), settings=WIDE),
    Fault("row-past-only", "the future taken as the own position", "L11", _with_row(lambda s, i, j: s.row(i, min(i, j))),
        settings=WIDE),
    Fault("row-of-key", "rows of the key's position, not of the distance", "L2", _with_row(lambda s, i, j: min(j, _last(s))),
        settings=WIDE),
    Fault("row-doubled", "the rows of twice the distance", "L12", _with_row(lambda s, i, j: s.row(2 * i, 2 * j)),
        settings=WIDE),
    Fault("beyond-wraps", "the opposite end beyond the clip", "L12",
        _with_row(lambda s, i, j: s.row(i, j) if abs(i - j) <= s.max_distance else s.row(j, i)), settings=WIDE),
    Fault("article-mask-along-heads", "the samples of a mask taken for heads", "L1", given=_along_heads, levels=ATTENTION,
        settings=ARTICLE),
    Planted("article-mask-numbers", "an additive mask read the wrong way round", "L7", article_mask_numbers,
        settings=ARTICLE, claims={"mask": "additive", "corner": "top-left"}),
    Planted("article-empty-rows", "NaN where a query has no keys", "L8", article_empty_rows, settings=ARTICLE,
        claims={"corner": "top-left"}),
    Planted("article-clamped", "scores clamped after the mask", "L7", article_clamped, settings=ARTICLE,
        claims={"corner": "top-left"}),
    Planted("article-positions", "queries counted from 0", "L3", article_positions, settings=ARTICLE, alike=("offset-lost",)),
    Planted("exchanged", "key minus query", "L11", read(_exchanged, lambda table, r: table[r]), settings=ARTICLE,
        alike=("table-reversed",)),
    *of_tables(rows, ARTICLE),
    *caches.of_tables(rows, ARTICLE),
)
# fmt: on
