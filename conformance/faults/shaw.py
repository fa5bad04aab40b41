"""Faults of Shaw's relative representations: rows, tables, terms, and their gradients."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from relpos.conformance.faults.api import Fault, Planted, Wrong
from relpos.conformance.plan import Inputs
from relpos.spec.shaw import Shaw

SEPARATE = {"tables": "separate", "sign": "published"}


def _with_row(row: Callable[[Shaw, int, int], int]) -> Callable[[Shaw], Wrong]:
    """Another row of the tables for the query at i and the key at j."""

    def wrong(s: Shaw) -> Wrong:
        looking: Any = Wrong(s, row=lambda i, j: row(s, i, j))
        return Wrong(
            looking,
            rows=lambda queries, keys: Shaw.rows(looking, queries, keys),
            logits=lambda *given, **scale: Shaw.logits(looking, *given, **scale),
            values=lambda *given: Shaw.values(looking, *given),
        )

    return wrong


def _narrow_row(s: Shaw, i: int, j: int) -> int:
    """A distance that wraps at 2^15, between positions that do not."""
    return s.row(0, (j - i + 2**15) % 2**16 - 2**15)


def _clip(d: int, most: int) -> int:
    return min(max(d, -most), most)


def _logits(change: Callable[..., np.ndarray]) -> Callable[[Shaw], Wrong]:
    """change(settings, params, q, k, query positions, key positions, scale) in place of the position term."""
    return lambda s: Wrong(s, logits=lambda params, q, k, i, j, *, scale: change(s, params, q, k, i, j, scale))


def _beyond_zero(s: Shaw) -> Wrong:
    """Distances beyond K get the zero vector, as in the Music Transformer."""

    def near(queries, keys):
        return np.array([[abs(j - i) <= s.max_distance for j in keys] for i in queries])

    return Wrong(
        s,
        logits=lambda params, q, k, i, j, *, scale: s.logits(params, q, k, i, j, scale=scale) * near(i, j),
        values=lambda params, weights, i, j: s.values(params, weights * near(i, j), i, j),
    )


def _skewed(s: Shaw, params: dict, q: np.ndarray, k: np.ndarray, queries, keys, scale: float) -> np.ndarray:
    """Above the diagonal, what an unmasked skew leaves there: 0, then the next query's farthest keys."""
    term = s.logits(params, q, k, queries, keys, scale=scale)
    K, Lk, a_K = s.max_distance, len(keys), params["rel_k"]
    for a, i in enumerate(queries):
        for b, j in enumerate(keys):
            if j > i:
                following = a + 1 < len(queries) and j > i + 1
                distance = _clip(j - i - 1 - Lk, K)
                term[:, a, b] = scale * q[:, a + 1] @ a_K[distance + K] if following else 0.0
    return term


def _keys_asked(s: Shaw, params: dict, q: np.ndarray, k: np.ndarray, queries, keys, scale: float) -> np.ndarray:
    term = np.zeros((len(q), len(queries), len(keys)))
    for a, i in enumerate(queries):
        for b, j in enumerate(keys):
            term[:, a, b] = scale * k[:, b] @ params["rel_k"][s.row(i, j)]
    return term


def _keys_asked_as_well(s: Shaw, params: dict, q: np.ndarray, k: np.ndarray, queries, keys, scale: float) -> np.ndarray:
    found = s.logits(params, q, k, queries, keys, scale=scale)
    return found + _keys_asked(s, params, q, k, queries, keys, scale)


def _nothing(s: Shaw, _params: dict, q: np.ndarray, _k: np.ndarray, queries, keys, _scale: float) -> np.ndarray:
    return np.zeros((len(q), len(queries), len(keys)))


def _scaled(power: int):
    return _logits(lambda s, params, q, k, i, j, scale: s.logits(params, q, k, i, j, scale=scale**power))


def _values_reversed(s: Shaw) -> Wrong:
    return Wrong(s, values=lambda params, *given: s.values({**params, "rel_v": params["rel_v"][::-1]}, *given))


def _values_unweighted(s: Shaw) -> Wrong:
    return Wrong(
        s, values=lambda params, weights, *given: s.values(params, np.full_like(weights, 1 / weights.shape[-1]), *given)
    )


def _values_missing(s: Shaw) -> Wrong:
    return Wrong(s, values=lambda params, weights, queries, keys: np.zeros((*weights.shape[:2], s.head_dim)))


def _swapped(i: Inputs) -> Inputs:
    return i.but(params={"rel_k": i.params["rel_v"], "rel_v": i.params["rel_k"]} if "rel_v" in i.params else i.params)


def _rows(query_positions: Tensor, key_positions: Tensor, rel_k: Tensor) -> Tensor:
    K = rel_k.shape[0] // 2
    return (key_positions - query_positions[:, None]).clamp(-K, K) + K


def _score(q: Tensor, k: Tensor, vectors: Tensor) -> Tensor:
    """q_i · (k_j + vector_ij) / √D."""
    return (q @ k.transpose(-1, -2) + torch.einsum("bhid,ijd->bhij", q, vectors)) * q.shape[-1] ** -0.5


class _Assigned(torch.autograd.Function):
    """table[r], whose backward writes where it should add."""

    @staticmethod
    def forward(ctx, table: Tensor, r: Tensor) -> Tensor:
        ctx.save_for_backward(r)
        ctx.shape = table.shape
        return table[r]

    @staticmethod
    def backward(ctx, gradient: Tensor):
        (r,) = ctx.saved_tensors
        found = gradient.new_zeros(ctx.shape)
        found[r.flatten()] = gradient.flatten(0, 1)
        return found, None


def gradient_assigned(q: Tensor, k: Tensor, rel_k: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor:
    """A row used by several pairs keeps the gradient of one of them."""
    return _score(q, k, _Assigned.apply(rel_k, _rows(query_positions, key_positions, rel_k)))


def detached(q: Tensor, k: Tensor, rel_k: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor:
    """The table does not learn."""
    return _score(q, k, rel_k.detach()[_rows(query_positions, key_positions, rel_k)])


def frozen_beside(q: Tensor, k: Tensor, rel_k: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor:
    """Nothing is saved for backward where only the table needs a gradient."""
    with torch.set_grad_enabled(q.requires_grad or k.requires_grad):
        return _score(q, k, rel_k[_rows(query_positions, key_positions, rel_k)])


def rows_reversed(q: Tensor, k: Tensor, rel_k: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor:
    """The table is read at query minus key."""
    return _score(q, k, rel_k[_rows(key_positions, query_positions, rel_k).T])


def square_only(q: Tensor, k: Tensor, rel_k: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor:
    """Vectors for as many queries as keys: right in training, a crash in a cached step."""
    rows = _rows(query_positions, query_positions, rel_k).view(len(key_positions), len(key_positions))
    return _score(q, k, rel_k[rows])


def scaled_in_place(q: Tensor, k: Tensor, rel_k: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor:
    """q is multiplied by the scale where it lies."""
    q *= q.shape[-1] ** -0.5
    return _score(q, k, rel_k[_rows(query_positions, key_positions, rel_k)]) * q.shape[-1] ** 0.5


class KeptByLength(nn.Module):
    """Rows of the table kept by the number of queries and keys, whatever the offset."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[tuple[int, ...], Tensor] = {}

    def forward(self, q: Tensor, k: Tensor, rel_k: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        size = (len(query_positions), len(key_positions), len(rel_k))
        return _score(q, k, rel_k[self.kept.setdefault(size, _rows(query_positions, key_positions, rel_k))])


# fmt: off
FAULTS = (
    Fault("row-late", "rows one too far", "L1", _with_row(lambda s, i, j: min(s.row(i, j) + 1, 2 * s.max_distance))),
    Fault("row-clipped-early", "distances clipped at K − 1", "L1",
        _with_row(lambda s, i, j: _clip(s.row(i, j) - s.max_distance, max(s.max_distance - 1, 0)) + s.max_distance)),
    Fault("row-past-only", "the future taken as the own position", "L11", _with_row(lambda s, i, j: s.row(i, min(i, j)))),
    Fault("row-absolute", "before and after not told apart", "L11", _with_row(lambda s, i, j: s.row(i, i - abs(i - j)))),
    Fault("row-wraps", "rows counted from the own position, negative ones from the end", "L1",
        _with_row(lambda s, i, j: (s.row(i, j) - s.max_distance) % (2 * s.max_distance + 1))),
    Fault("row-of-key", "rows of the key's position, not of the distance", "L2",
        _with_row(lambda s, i, j: min(j, 2 * s.max_distance))),
    Fault("beyond-zero", "no vector beyond the clip", "L1", _beyond_zero, settings=SEPARATE),
    Fault("no-key-term", "no position term in the logits", "L11", _logits(_nothing)),
    Fault("no-value-term", "no position term in the values", "L1", _values_missing, levels=("attention",), settings=SEPARATE),
    Fault("values-reversed", "the value table read backwards", "L1", _values_reversed, levels=("attention",),
        settings=SEPARATE),
    Fault("values-unweighted", "an average of the value vectors", "L1", _values_unweighted, levels=("attention",),
        settings=SEPARATE),
    Fault("tables-swapped", "keys and values with each other's table", "L1", given=_swapped, levels=("attention",),
        settings=SEPARATE),
    Fault("position-unscaled", "the position term without scale", "L29", _scaled(0)),
    Fault("position-scaled-twice", "the position term scaled twice", "L1", _scaled(2)),
    Fault("keys-asked", "the key's content in place of the query's", "L1", _logits(_keys_asked), settings=SEPARATE),
    Fault("keys-asked-as-well", "the key's content asked as well as the query's", "L1", _logits(_keys_asked_as_well),
        settings=SEPARATE),
    Fault("int16-distances", "distances that wrap at 2^15", "L19", _with_row(_narrow_row), cases=("B144",)),
    Fault("clip-lopsided", "a clip of K before and K − 1 after", "L1",
        _with_row(lambda s, i, j: min(s.row(i, j), max(2 * s.max_distance - 1, 0)))),
    Fault("skewed", "a skew's rubbish above the diagonal", "L11", _logits(_skewed), settings=SEPARATE),
    Planted("gradient-assigned", "a table gradient that is written, not added", "L20", gradient_assigned, cases=("B134",),
        settings=SEPARATE),
    Planted("detached", "a table that gets no gradient", "L20", detached, settings=SEPARATE),
    Planted("frozen-beside", "no table gradient while q and k are frozen", "L20", frozen_beside, cases=("B133",),
        settings=SEPARATE),
    Planted("scaled-in-place", "q scaled in place", "L4", scaled_in_place, settings=SEPARATE),
    Planted("reversed", "query minus key", "L11", rows_reversed, settings=SEPARATE),
    Planted("square-only", "a crash where there are more keys than queries", "L3", square_only, cases=("B038",),
        settings=SEPARATE),
    Planted("kept-by-length", "rows kept by lengths, whatever the offset", "L4", KeptByLength, settings=SEPARATE),
)
# fmt: on
