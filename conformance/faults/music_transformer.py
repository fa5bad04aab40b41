"""Faults of the Music Transformer: which row, which end of the table, what a skew leaves, and gradients of the tables."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from relpos.conformance.faults.api import Fault, Planted, Wrong
from relpos.conformance.plan import Inputs
from relpos.spec.music_transformer import MusicTransformer

MASKED, UNMASKED, LOCAL = ({"variant": variant} for variant in ("masked", "unmasked", "local"))
VALUES = {**MASKED, "value_term": "every"}
PLAIN = {**MASKED, "per_head": True, "value_term": "none", "block_length": None, "value_dim": None}


def _with(**change: Callable[..., Any]) -> Callable[[MusicTransformer], Wrong]:
    """Other methods, each given the settings first, in the definition that stays as it is."""

    def wrong(s: MusicTransformer) -> Wrong:
        replaced = {name: lambda *at, method=method: method(s, *at) for name, method in change.items()}
        looking: Any = Wrong(s, **replaced)
        return Wrong(
            looking,
            logits=lambda *given, **scale: MusicTransformer.logits(looking, *given, **scale),
            values=lambda *given: MusicTransformer.values(looking, *given),
        )

    return wrong


def _boundary(s: MusicTransformer, i: int, j: int) -> int:
    most = s.max_distance - 1
    return min(max(j - i, -most), most if s.variant == "unmasked" else 0) + most


def _from_the_front(s: MusicTransformer, i: int, j: int) -> int | None:
    r = s.row(i, j)
    return None if r is None else s.parameters()["rel_k"][-2] - 1 - r


def _late(s: MusicTransformer, i: int, j: int) -> int | None:
    return s.row(i, j + 1)


def _quarter_blocks(s: MusicTransformer, i: int, j: int) -> bool:
    return MusicTransformer.sees(replace(s, block_length=None), i, j)


def _skewed(s: MusicTransformer) -> Wrong:
    """Above the diagonal, 0 and then the next query's farthest keys."""

    def logits(params: dict, q: np.ndarray, k: np.ndarray, queries, keys, *, scale: float) -> np.ndarray:
        term, positions = s.logits(params, q, k, queries, keys, scale=scale), list(queries)
        tables = params["rel_k"] if s.per_head else [params["rel_k"]] * len(q)
        for a, i in enumerate(positions):
            for b, j in enumerate(keys):
                if j > i:
                    r = s.row(0, j - i - 1 - len(keys)) if a + 1 < len(positions) and j > i + 1 else None
                    term[:, a, b] = 0.0 if r is None else [scale * x[a + 1] @ E[r] for x, E in zip(q, tables, strict=True)]
        return term

    return Wrong(s, logits=logits)


def _scaled(power: int) -> Callable[[MusicTransformer], Wrong]:
    return lambda s: Wrong(s, logits=lambda *given, scale: s.logits(*given, scale=scale**power))


def _first_table(i: Inputs) -> Inputs:
    """The first head's rows for all heads."""
    return i.but(params={n: np.repeat(x[:1], len(x), axis=0) if x.ndim == 3 else x for n, x in i.params.items()})


def _no_values(s: MusicTransformer) -> Wrong:
    return Wrong(s, values=lambda params, weights, *at: 0 * s.values(params, weights, *at))


def _keys_table(s: MusicTransformer) -> Wrong:
    return Wrong(s, values=lambda params, *given: s.values({**params, "rel_v": params["rel_k"]}, *given))


def _rows(rel_k: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor:
    """Rows of a table with one row of zeros put before it, 0 for distances without a vector."""
    M = rel_k.shape[-2]
    r = key_positions - query_positions[:, None] + M
    return torch.where((r >= 1) & (r <= M), r, 0)


def _score(q: Tensor, k: Tensor, rel_k: Tensor, r: Tensor) -> Tensor:
    vectors = nn.functional.pad(rel_k, (0, 0, 1, 0))[:, r]
    return (q @ k.transpose(-1, -2) + torch.einsum("bhid,hijd->bhij", q, vectors)) * q.shape[-1] ** -0.5


def detached(q: Tensor, k: Tensor, rel_k: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor:
    """The table is a tensor that nobody trains."""
    return _score(q, k, rel_k.detach(), _rows(rel_k, query_positions, key_positions))


def last_table(q: Tensor, k: Tensor, rel_k: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor:
    """Only the last head's table learns: the others are copies of values."""
    mixed = torch.cat((rel_k[:-1].detach(), rel_k[-1:]))
    return _score(q, k, mixed, _rows(rel_k, query_positions, key_positions))


def scaled_in_place(q: Tensor, k: Tensor, rel_k: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor:
    """q is multiplied by the scale where it lies."""
    q *= q.shape[-1] ** -0.5
    return _score(q, k, rel_k, _rows(rel_k, query_positions, key_positions)) * q.shape[-1] ** 0.5


class KeptByLength(nn.Module):
    """Rows kept by the number of queries and keys, whatever the offset."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[tuple[int, ...], Tensor] = {}

    def forward(self, q: Tensor, k: Tensor, rel_k: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        size = (len(query_positions), len(key_positions), rel_k.shape[-2])
        return _score(q, k, rel_k, self.kept.setdefault(size, _rows(rel_k, query_positions, key_positions)))


def _shifted(q: Tensor, k: Tensor, v: Tensor, rel_k: Tensor, drop: slice) -> Tensor:
    """Causal attention by a skew that drops some row of the padded product."""
    L, M = q.shape[-2], rel_k.shape[-2]
    used = rel_k[:, M - L :] if M >= L else nn.functional.pad(rel_k, (0, 0, L - M, 0))
    padded = nn.functional.pad(q @ used.transpose(-1, -2), (1, 0))
    term = padded.reshape(*padded.shape[:2], L + 1, L)[:, :, drop]
    score = (q @ k.transpose(-1, -2) + term) * q.shape[-1] ** -0.5
    hidden = torch.ones(L, L, dtype=torch.bool).triu(1)
    return score.masked_fill(hidden, -torch.inf).softmax(-1) @ v


def last_row_dropped(q: Tensor, k: Tensor, v: Tensor, rel_k: Tensor) -> Tensor:
    """The skew slices away the last row and not the first."""
    return _shifted(q, k, v, rel_k, slice(None, -1))


CAUSAL = {"softmax": "causal", "level": "attention", "positions": "contiguous"}

# fmt: off
FAULTS = (
    Fault("row-late", "rows one too far", "L1", _with(row=_late)),
    Fault("row-from-front", "row m taken for distance m", "L1", _with(row=_from_the_front), settings=MASKED),
    Fault("row-reversed", "query minus key looked up", "L11", _with(row=lambda s, i, j: s.row(j, i))),
    Fault("row-absolute", "before and after not told apart", "L11", _with(row=lambda s, i, j: s.row(i, i - abs(i - j)))),
    Fault("row-past-only", "the future taken as the own position", "L11", _with(row=lambda s, i, j: s.row(i, min(i, j)))),
    Fault("row-of-key", "rows of the key's position, not of the distance", "L2",
        _with(row=lambda s, i, j: min(j, s.parameters()["rel_k"][-2] - 1)), settings=MASKED),
    Fault("beyond-boundary", "the outermost row beyond the table, as Shaw's", "L1", _with(row=_boundary)),
    Fault("skewed", "what a skew leaves above the diagonal", "L2", _skewed, levels=("logits",),
        settings={**MASKED, "max_distance": 16}, cases=("B043",)),
    Fault("skewed-unmasked", "a causal skew in unmasked use", "L11", _skewed, settings=UNMASKED, cases=("B043",)),
    Fault("first-table", "the first head's table for all", "L1", given=_first_table, settings={**MASKED, "per_head": True}),
    Fault("position-unscaled", "the position term without scale", "L29", _scaled(0)),
    Fault("position-scaled-twice", "the position term scaled twice", "L1", _scaled(2)),
    Fault("blocks-ignored", "every key seen, whatever its block", "L1", _with(sees=lambda s, i, j: True), settings=LOCAL),
    Fault("own-block", "the block before not seen", "L1", _with(sees=lambda s, i, j: s.block(i) == s.block(j)), settings=LOCAL),
    Fault("window", "a window of a block's length, not blocks", "L1",
        _with(sees=lambda s, i, j: j - i > -(s.block_length or -(-s.max_distance // 4))), settings=LOCAL),
    Fault("block-length-ignored", "blocks of a quarter of the table, whatever is said", "L16", _with(sees=_quarter_blocks),
        settings=LOCAL),
    Fault("no-value-term", "no position term in the values", "L1", _no_values, levels=("attention",), settings=VALUES),
    Fault("values-of-keys", "the keys' table for the values", "L1", _keys_table, levels=("attention",), settings=VALUES),
    Planted("detached", "a table that nobody trains", "L20", detached, settings=PLAIN, cases=("B039",)),
    Planted("last-table", "the last head's table alone trained", "L20", last_table, settings=PLAIN),
    Planted("scaled-in-place", "q scaled in place", "L4", scaled_in_place, settings=PLAIN),
    Planted("kept-by-length", "rows kept by lengths, whatever the offset", "L4", KeptByLength, settings=PLAIN),
    Planted("last-row-dropped", "a skew that drops the last row", "L1", last_row_dropped, settings=PLAIN, cases=("B042",),
        claims=CAUSAL),
)
# fmt: on
