"""Faults of Transformer-XL's attention: terms, distances, waves, memory, the shift, and gradients."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from relpos.conformance.faults.api import Fault, Planted, Wrong
from relpos.conformance.faults.transformer_xl_memory import MEMORY
from relpos.conformance.plan import Inputs
from relpos.spec.positions import Range
from relpos.spec.transformer_xl import TransformerXL

NO_LIMIT = {"memory_length": None, "segment_length": None, "same_length": False}
XL, LEARNED, BOTH_WAYS, XLNET = ({"variant": v, **NO_LIMIT} for v in ("transformer_xl", "learned", "bidirectional", "xlnet"))
CLAMPED = {"clamp_len": 2, **NO_LIMIT}
PLAIN = {**XL, "clamp_len": None, "d_model": None}
SAME = {"same_length": True, "memory_length": 2, "segment_length": None}
SEGMENTS = {"same_length": False, "memory_length": 2, "segment_length": 2}
WIDE, CAPACITY = {"d_model": 6, **XL}, 16


def _with(**change: Callable[..., Any]) -> Callable[[TransformerXL], Wrong]:
    """Other methods, each given the settings first, in the definition that stays as it is."""

    def wrong(s: TransformerXL) -> Wrong:
        looking: Any = Wrong(s, **{name: lambda *at, method=method: method(s, *at) for name, method in change.items()})
        return Wrong(looking, logits=lambda *given, **scale: TransformerXL.logits(looking, *given, **scale))

    return wrong


def _params(change: Callable[[dict], dict]) -> Callable[[Inputs], Inputs]:
    return lambda i: i.but(params={**i.params, **change(i.params)})


def _nil(name: str) -> Callable[[Inputs], Inputs]:
    return _params(lambda p: {name: 0 * p[name]} if name in p else {})


def _swapped(p: dict) -> dict:
    return {"pos_bias_u": p["pos_bias_v"], "pos_bias_v": p["pos_bias_u"]} if "pos_bias_v" in p else {}


def _first_head(p: dict) -> dict:
    H, D = p["pos_bias_u"].shape
    return {"w_pos": np.tile(p["w_pos"][:D], (H, 1))} if "w_pos" in p else {}


def _heads_last(p: dict) -> dict:
    """Rows of w_pos read as [D, H] and not as [H, D]."""
    H, D = p["pos_bias_u"].shape
    return {"w_pos": p["w_pos"].reshape(D, H, -1).swapaxes(0, 1).reshape(H * D, -1)} if "w_pos" in p else {}


def _position(change: Callable[..., np.ndarray]) -> Callable[[TransformerXL], Wrong]:
    """change(logits, params, q, k, …, scale) in place of the position term; logits is the right one."""
    return lambda s: Wrong(s, logits=lambda *given, scale: change(s.logits, *given, scale=scale))


def _without_content(logits, params, q, k, *at, scale):
    """A number per distance, the same for every query and key."""
    return logits(params, 0 * q, 0 * k, *at, scale=scale)


def _keys_unscaled(logits, params, q, k, *at, scale):
    """u · k_j is scaled, what R is asked is not."""
    asked = logits({**params, "pos_bias_u": 0 * params["pos_bias_u"]}, q, k, *at, scale=1.0)
    return asked + logits({n: x * (n == "pos_bias_u") for n, x in params.items()}, q, k, *at, scale=scale)


def _scaled(power: int) -> Callable[[TransformerXL], Wrong]:
    return _position(lambda logits, *given, scale: logits(*given, scale=scale**power))


def _shifted(s: TransformerXL) -> Wrong:
    """Above the diagonal, 0 and then the next query's farthest keys."""

    def logits(params: dict, q: np.ndarray, k: np.ndarray, queries, keys, *, scale: float) -> np.ndarray:
        term, positions = s.logits(params, q, k, queries, keys, scale=scale), list(queries)
        W = params["w_pos"].reshape(*params["pos_bias_u"].shape, -1)
        for a, i in enumerate(positions):
            for b, j in enumerate(keys):
                if j > i:
                    term[:, a, b] = scale * (params["pos_bias_u"] * k[:, b]).sum(-1)
                if j > i + 1 and a + 1 < len(positions):
                    R = s.encoding(s.distance(len(keys), j - i - 1))
                    term[:, a, b] += scale * ((q[:, a + 1] + params["pos_bias_v"]) * (W @ R)).sum(-1)
        return term

    return Wrong(s, logits=logits)


def _waves(s: TransformerXL, δ: int, width: int) -> np.ndarray:
    """R with the frequencies of another width."""
    θ = 10000.0 ** (-2 * np.arange(s.width() // 2) / width)
    return s.waves(np.sin(δ * θ), np.cos(δ * θ))


def _other_order(s: TransformerXL, δ: int) -> np.ndarray:
    """Columns woven where they stand in halves, and the other way round."""
    other = "bidirectional" if s.variant != "bidirectional" else "transformer_xl"
    return replace(s, variant=other, clamp_len=None).encoding(δ)


def _cut_at_the_wrong_end(s: TransformerXL, i: int, j: int) -> int:
    return s.distance(i, j) + CAPACITY


def _crashing(s: TransformerXL, δ: int) -> np.ndarray:
    if s.variant == "xlnet":
        raise KeyError(s.variant)
    return s.encoding(δ)


def _memory_of_queries(i: Inputs) -> Inputs:
    """As many keys before the queries as there are queries."""
    n = len(i.query_positions)
    return i.but(query_positions=Range(n, n)) if len(i.key_positions) > n else i


def _score(q: Tensor, k: Tensor, params: tuple[Tensor, Tensor, Tensor], δ: Tensor) -> Tensor:
    u, v, w_pos = params
    θ = 10000.0 ** (-torch.arange(0, w_pos.shape[1], 2) / w_pos.shape[1])
    R = torch.cat(((δ[..., None] * θ).sin(), (δ[..., None] * θ).cos()), dim=-1)
    asked = (q + v[:, None]) @ w_pos.unflatten(0, u.shape)
    return ((q + u[:, None]) @ k.transpose(-1, -2) + torch.einsum("bhie,ije->bhij", asked, R)) * q.shape[-1] ** -0.5


def detached(q, k, pos_bias_u, pos_bias_v, w_pos, query_positions, key_positions) -> Tensor:
    """u and v are tensors that nobody trains."""
    params = (pos_bias_u.detach(), pos_bias_v.detach(), w_pos)
    return _score(q, k, params, query_positions[:, None] - key_positions)


def added_in_place(q, k, pos_bias_u, pos_bias_v, w_pos, query_positions, key_positions) -> Tensor:
    """u is added to q where it lies."""
    with torch.no_grad():
        q += pos_bias_u[:, None]
    params = (0 * pos_bias_u, pos_bias_v - pos_bias_u, w_pos)
    return _score(q, k, params, query_positions[:, None] - key_positions)


class KeptByLength(nn.Module):
    """Distances kept by the number of queries and keys, whatever the offset."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[tuple[int, int], Tensor] = {}

    def forward(self, q, k, pos_bias_u, pos_bias_v, w_pos, query_positions, key_positions) -> Tensor:
        size = (len(query_positions), len(key_positions))
        δ = self.kept.setdefault(size, query_positions[:, None] - key_positions)
        return _score(q, k, (pos_bias_u, pos_bias_v, w_pos), δ)


def last_row_dropped(q, k, v, pos_bias_u, pos_bias_v, w_pos) -> Tensor:
    """The shift slices away the last row and not the first."""
    n, m = q.shape[-2], k.shape[-2]
    falling = (m - 1 - torch.arange(m)).expand(n, m)
    raw = _score(q, 0 * k, (pos_bias_u, pos_bias_v, w_pos), falling)
    moved = nn.functional.pad(raw, (1, 0)).reshape(*raw.shape[:2], m + 1, n)[:, :, :-1].reshape(raw.shape)
    score = (q + pos_bias_u[:, None]) @ k.transpose(-1, -2) * q.shape[-1] ** -0.5 + moved
    hidden = torch.ones(n, m, dtype=torch.bool).triu(m - n + 1)
    return score.masked_fill(hidden, -torch.inf).softmax(-1) @ v


def _memory(change: Callable[[TransformerXL], dict]) -> Callable[[TransformerXL], Wrong]:
    return _with(sees=lambda s, i, j: TransformerXL.sees(replace(s, **change(s)), i, j))


CAUSAL = {"softmax": "causal", "level": "attention", "positions": "contiguous", "corner": "bottom-right"}

# fmt: off
FAULTS = (
    Fault("no-u", "no u · k", "L1", given=_nil("pos_bias_u")),
    Fault("no-v", "no v · W R", "L1", given=_nil("pos_bias_v"), settings=XL),
    Fault("u-v-swapped", "u and v exchanged", "L1", given=_params(_swapped), settings=XL),
    Fault("scalar", "a number per distance that no content enters", "L1", _position(_without_content)),
    Fault("position-unscaled", "the position term without scale", "L29", _scaled(0)),
    Fault("waves-unscaled", "what the waves are asked without scale", "L1", _position(_keys_unscaled)),
    Fault("position-scaled-twice", "the position term scaled twice", "L1", _scaled(2)),
    Fault("sign-reversed", "key minus query in the waves", "L11", _with(distance=lambda s, i, j: s.distance(j, i)),
        settings=XL),
    Fault("distance-absolute", "before and after not told apart", "L11",
        _with(distance=lambda s, i, j: s.distance(max(i, j), min(i, j))), settings=BOTH_WAYS),
    Fault("past-only", "the future taken as the own position", "L11", _with(distance=lambda s, i, j: s.distance(i, min(i, j))),
        settings=BOTH_WAYS),
    Fault("waves-of-key", "waves of the key's position, not of the distance", "L2", _with(distance=lambda s, i, j: j),
        settings=XL, cases=("B052",)),
    Fault("one-late", "distances one too large", "L1", _with(distance=lambda s, i, j: s.distance(i + 1, j)), settings=XL),
    Fault("wrong-end", "distances from the far end of a longer table", "L1", _with(distance=_cut_at_the_wrong_end), settings=XL,
        cases=("B045",)),
    Fault("memory-of-queries", "the numbers of queries and of remembered keys exchanged", "L3", given=_memory_of_queries,
        cases=("B048",)),
    Fault("order", "sines and cosines woven, or in halves, the wrong way", "L1", _with(encoding=_other_order), settings=XL),
    Fault("cosines-first", "cosines before sines", "L1", _with(encoding=lambda s, δ: np.roll(s.encoding(δ), s.width() // 2)),
        settings=XL),
    Fault("width-of-head", "frequencies of the head's width", "L1", _with(encoding=lambda s, δ: _waves(s, δ, s.head_dim)),
        settings=WIDE),
    Fault("clamp-ignored", "no clamp", "L16", _with(distance=lambda s, i, j: i - j), settings=XL),
    Fault("clamp-both", "a clamp on both sides", "L1", _with(distance=lambda s, i, j: max(s.distance(i, j), -s.clamp_len)),
        settings={**CLAMPED, "variant": "transformer_xl"}),
    Fault("clamp-past", "a clamp of the past alone", "L1", _with(distance=lambda s, i, j: min(i - j, s.clamp_len)),
        settings={**CLAMPED, "variant": "xlnet"}),
    Fault("same-length-ignored", "same_length without effect", "L16", _with(sees=lambda s, i, j: True),
        settings={"memory_length": 2, "segment_length": None}),
    Fault("same-length-more", "one key more for every query", "L1",
        _memory(lambda s: {"memory_length": (s.memory_length or 0) + 1}), settings=SAME),
    Fault("memory-short", "a memory that begins one too late", "L1",
        _memory(lambda s: {"memory_length": (s.memory_length or 1) - 1}), settings=SEGMENTS, cases=("B053",)),
    Fault("memory-sliding", "a memory of every query, not of its segment", "L1",
        _with(sees=lambda s, i, j: j >= i - s.memory_length), settings=SEGMENTS),
    Fault("first-head", "the first head's W for all", "L1", given=_params(_first_head), settings=XL),
    Fault("heads-last", "rows of W read as [D, H]", "L1", given=_params(_heads_last), settings=XL),
    Fault("shifted", "what the shift leaves after the query", "L2", _shifted, levels=("logits",), settings=BOTH_WAYS,
        cases=("B043",)),
    Fault("shifted-output", "the shift without a causal mask", "L11", _shifted, levels=("attention",), settings=BOTH_WAYS,
        cases=("B043",)),
    Fault("xlnet-crashes", "an option that crashes", "L26", _with(encoding=_crashing), cases=("B050",)),
    Fault("row-from-front", "row r of the learned table taken for distance r", "L1",
        _with(row=lambda s, i, j: None if j > i else min(i - j, s.max_distance - 1)), settings=LEARNED),
    Fault("row-none-beyond", "no row beyond the learned table", "L1",
        _with(row=lambda s, i, j: s.row(i, j) if i - j < s.max_distance else None), settings=LEARNED),
    Fault("no-r-bias", "no number beside the learned rows", "L1", given=_nil("r_bias"), settings=LEARNED),
    Planted("detached", "u and v that nobody trains", "L20", detached, settings=PLAIN),
    Planted("added-in-place", "u added to q in place", "L4", added_in_place, settings=PLAIN),
    Planted("kept-by-length", "distances kept by lengths, whatever the offset", "L4", KeptByLength, settings=PLAIN),
    Planted("last-row-dropped", "a shift that drops the last row", "L1", last_row_dropped, settings=PLAIN, cases=("B042",),
        claims=CAUSAL),
    *MEMORY,
)
# fmt: on
