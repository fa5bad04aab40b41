"""Faults of positions, masks, scale and axes: what can go wrong around any scheme."""

from dataclasses import replace
from typing import Any

import numpy as np

from relpos.conformance.expected import scale_of, visible
from relpos.conformance.faults.api import Fault
from relpos.conformance.faults.pieces import again, counted_on, unpadded
from relpos.conformance.plan import Inputs
from relpos.conformance.precision import rounded
from relpos.spec.coordinates import NOWHERE
from relpos.spec.positions import Explicit, Positions, Range

ALL = ("contribution", "logits", "attention")
FORMS = ("none", "embedding", "rotation", "bias", "logits")

# Where a fault shows, by form. Without a position term the causal mask alone reads positions.
EVERYWHERE = {**dict.fromkeys(FORMS, ALL), "none": ("attention",)}
PLACED = {**EVERYWHERE, "embedding": ("logits", "attention")}  # an embedding alone knows of no keys
PLACED_QUERIES = {form: where for form, where in EVERYWHERE.items() if form != "none"}  # a causal mask alone sees no more keys
ABSOLUTE = {"embedding": ALL, "rotation": ("contribution",)}  # what moves all positions alike shows nowhere else
PAIRS = {"bias": ALL, "logits": ALL}  # forms that see query and key at once
WHOLE = {form: where for form, where in EVERYWHERE.items() if form not in ABSOLUTE}  # no angle means anything at 2^31
SCORES = dict.fromkeys(FORMS, ("logits", "attention"))
OUTPUTS = dict.fromkeys(FORMS, ("attention",))
SHARED = {form: ("attention",) for form in FORMS if form != "embedding"}
ALIKE = {form: SCORES[form] for form in FORMS if form != "bias"}
SLOPED = {"bias": SCORES["bias"]}
TABLE = 512  # rows of a table that is never enlarged
# Where positions have several axes nothing is cached, causal or counted by index, and a window ends beside its last token.
ONE_AXIS = {
    "int16-positions", "int32-positions", "row-offset-wraps", "shard-contiguous", "shard-again", "shard-unpadded",
    "packed-counted-on",
    "offset-lost", "offset-doubled", "query-one-late", "lone-step", "all-last", "second-piece", "told-nothing",
    "causal-ignored", "causal-strict", "causal-late", "causal-reversed", "top-left", "bottom-right", "mask-or-causal",
}  # fmt: skip


def common(cls: Any) -> tuple[Fault, ...]:
    """The faults of this file that can be seen in a scheme, at the levels where they can."""
    left_out = ONE_AXIS if hasattr(cls, "axes") else set()
    # Its powers overflow before 2^15, and two documents in a row have no one context.
    left_out = left_out | {"int16-positions", "packed-counted-on"} if hasattr(cls, "farthest") else left_out
    left_out = left_out | {fault.name for _, fault in SCALES} if hasattr(cls, "content") else left_out  # it has no scale
    found = [(where, fault) for where, fault in ENTRIES if cls.form in where and fault.name not in left_out]
    return tuple(replace(fault, levels=where[cls.form]) for where, fault in found)


def _at(positions: Positions, change) -> Explicit:
    before = positions.array()
    return Explicit(np.where(before == NOWHERE, before, change(before)), axes=positions.axes)


def _queries(change):
    return lambda i: i.but(query_positions=_at(i.query_positions, change))


def _both(change):
    return lambda i: i.but(query_positions=_at(i.query_positions, change), key_positions=_at(i.key_positions, change))


def _bfloat16(p: np.ndarray) -> np.ndarray:
    return rounded(p, "bfloat16").astype(np.int64)


def _from_zero(i: Inputs) -> Inputs:
    return i.but(query_positions=Range(0, len(i.query_positions)))


def _told_nothing(i: Inputs) -> Inputs:
    Lq, Lk = len(i.query_positions), len(i.key_positions)
    return i.but(query_positions=Range(Lk - Lq, Lq), key_positions=Range(0, Lk))


def _lone_step(i: Inputs) -> Inputs:
    if len(i.query_positions) > 1:
        return i
    return i.but(key_positions=_at(i.key_positions, lambda p: np.broadcast_to(i.query_positions.array(), p.shape)))


def _all_last(i: Inputs) -> Inputs:
    if len(i.query_positions) >= len(i.key_positions):
        return i
    last = i.key_positions.array()[..., -1:]
    return i.but(query_positions=_at(i.query_positions, lambda p: np.broadcast_to(last, p.shape)))


def _second_piece(i: Inputs) -> Inputs:
    p = i.key_positions.array().copy()
    half = p.shape[-1] // 2
    p[..., half:] -= p[..., half : half + 1] - p[..., :1]
    return i.but(key_positions=Explicit(p))


def _wrapped_rows(i: Inputs) -> Inputs:
    """Row p begins at number p · Lk, kept in 32 bits."""
    Lk = max(len(i.key_positions), 1)
    return i.but(query_positions=_at(i.query_positions, lambda p: p * Lk % 2**32 // Lk))


def _first_rows(i: Inputs) -> Inputs:
    return i.but(query_positions=i.query_positions.row(0), key_positions=i.key_positions.row(0))


def _keep(i: Inputs) -> np.ndarray:
    shape = (len(i.q), 1, i.q.shape[2], i.k.shape[2])
    return np.ones(shape, dtype=bool) if i.mask is None else np.broadcast_to(i.mask, shape)


def _past(i: Inputs, allowed) -> Inputs:
    """The causal mask replaced: allowed(key position, query position)."""
    if not i.causal:
        return i
    rows = [(i.query_positions.row(b).array()[:, None], i.key_positions.row(b).array()) for b in range(len(i.q))]
    return i.but(causal=False, mask=_keep(i) & np.stack([allowed(keys, queries) for queries, keys in rows])[:, None])


def _corner(i: Inputs, start: int) -> Inputs:
    """The causal mask by index: query a sees keys 0 … a + start."""
    keep = _keep(i)
    seen = np.tri(keep.shape[2], keep.shape[3], start, dtype=bool)
    return i.but(causal=False, mask=keep & seen) if i.causal else i


def _bottom_right(i: Inputs) -> Inputs:
    return _corner(i, len(i.key_positions) - len(i.query_positions))


def _masked(change):
    return lambda i: i if i.mask is None else i.but(mask=change(i.mask))


def _first_key_open(mask: np.ndarray) -> np.ndarray:
    opened = np.array(mask)
    opened[..., 0] = True
    return opened


def _full_rows(i: Inputs) -> Inputs:
    seen = visible(i)
    return i.but(causal=False, mask=seen | ~seen.any(axis=-1, keepdims=True))


def _grouped(i: Inputs) -> Inputs:
    order = [h % i.k.shape[1] for h in range(i.q.shape[1])]
    return i.but(k=i.k[:, order], v=i.v[:, order])


def _first(x: np.ndarray, axis: int) -> np.ndarray:
    return np.repeat(np.take(x, [0], axis=axis), x.shape[axis], axis=axis)


# fmt: off
POSITIONS = (
    (EVERYWHERE, Fault("offset-lost", "queries counted from 0 whatever is cached", "L3", given=_from_zero,
        cases=("B007", "B096", "B097", "B099"))),
    (EVERYWHERE, Fault("offset-doubled", "the offset added twice", "L3", given=_queries(lambda p: p + p[..., :1]))),
    (EVERYWHERE, Fault("query-one-late", "every query one position too late", "L1", given=_queries(lambda p: p + 1),
        cases=("B015",))),
    (ABSOLUTE, Fault("from-one", "positions counted from 1", "L1", given=_both(lambda p: p + 1))),
    (PAIRS, Fault("lone-step", "distance 0 to every key in a step of one", "L3", given=_lone_step,
        cases=("B018", "B035"))),
    (PAIRS, Fault("all-last", "every query of a cached step counted as the last", "L3", given=_all_last)),
    (PLACED, Fault("second-piece", "keys of a second cache piece counted anew", "L3", given=_second_piece, cases=("B101",))),
    (EVERYWHERE, Fault("told-nothing", "the given positions ignored", "L1", given=_told_nothing,
        cases=("B104", "B106", "B107"))),
    (PLACED, Fault("first-rows", "the first sample's positions for all", "L1", given=_first_rows,
        claims={"positions": "per_row"})),
    (EVERYWHERE, Fault("bfloat16-positions", "positions kept in bfloat16", "L1", given=_both(_bfloat16), cases=("B109",))),
    (EVERYWHERE, Fault("int16-positions", "positions that wrap at 2^15", "L19", given=_both(lambda p: p.astype(np.int16)),
        cases=("B144",))),
    (WHOLE, Fault("int32-positions", "positions that wrap at 2^31", "L19", given=_both(lambda p: p.astype(np.int32)),
        claims={"max_position": 2**33})),
    (PAIRS, Fault("row-offset-wraps", "rows whose first number lies past 2^32 read from the front", "L19",
        given=_wrapped_rows, cases=("B142",), claims={"max_position": 2**33})),
    (EVERYWHERE, Fault("shard-contiguous", "a shard's positions counted on from its first", "L30",
        given=_queries(lambda p: p[..., :1] + np.arange(p.shape[-1])))),
    (EVERYWHERE, Fault("shard-again", "the second half of a shard at the positions of its first", "L30",
        given=_queries(again), cases=("B149",))),
    (EVERYWHERE, Fault("shard-unpadded", "the second half of a shard counted without the padding before it", "L30",
        given=_queries(unpadded), cases=("B151",))),
    (PLACED_QUERIES, Fault("packed-counted-on", "the positions of a second packed document counted on from the first", "L30",
        given=_queries(counted_on))),
    (EVERYWHERE, Fault("short-table", "positions past a table's end taken as its last", "L1",
        given=_both(lambda p: np.minimum(p, TABLE - 1)))),
)

MASKS = (
    (OUTPUTS, Fault("causal-ignored", "the causal flag ignored", "L7", given=lambda i: i.but(causal=False))),
    (OUTPUTS, Fault("causal-strict", "a query that does not see its own position", "L7", given=lambda i: _past(i, np.less))),
    (OUTPUTS, Fault("causal-late", "one future key visible", "L7", given=lambda i: _past(i, lambda j, p: j <= p + 1))),
    (OUTPUTS, Fault("causal-reversed", "the past hidden, the future seen", "L7", given=lambda i: _past(i, np.greater_equal))),
    (OUTPUTS, Fault("top-left", "the causal mask tied to the top left", "L7", given=lambda i: _corner(i, 0),
        cases=("B146", "B148"))),
    (OUTPUTS, Fault("bottom-right", "the causal mask tied to the bottom right", "L7", given=_bottom_right,
        cases=("B146", "B148"))),
    (OUTPUTS, Fault("mask-or-causal", "the mask in place of the causal one", "L7",
        given=lambda i: i.but(causal=i.causal and i.mask is None))),
    (OUTPUTS, Fault("mask-ignored", "the mask ignored", "L7", given=lambda i: i.but(mask=None))),
    (OUTPUTS, Fault("mask-inverted", "the mask read the wrong way round", "L7", given=_masked(np.logical_not))),
    (OUTPUTS, Fault("first-key-open", "the first key open to all, padding or not", "L5", given=_masked(_first_key_open))),
    (OUTPUTS, Fault("mask-first-query", "the first query's mask for all", "L7", given=_masked(lambda m: _first(m, 2)))),
    (OUTPUTS, Fault("mask-first-sample", "the first sample's mask for all", "L7", given=_masked(lambda m: _first(m, 0)))),
    (OUTPUTS, Fault("empty-row-full", "a query without keys attending to all", "L8", given=_full_rows, cases=("B135",))),
)

SCALES = (
    (SCORES, Fault("scale-twice", "the scale applied twice", "L29", given=lambda i: i.but(scale=scale_of(i) ** 2))),
    (SCORES, Fault("scale-missing", "no scale", "L29", given=lambda i: i.but(scale=1.0))),
    (SCORES, Fault("scale-root", "the square root of the scale", "L29", given=lambda i: i.but(scale=scale_of(i) ** 0.5))),
    (SCORES, Fault("scale-ignored", "the default scale whatever is given", "L29", given=lambda i: i.but(scale=None),
        cases=("B122",))),
)

AXES = (
    (SCORES, Fault("first-sample-keys", "the first sample's keys for all", "L21", given=lambda i: i.but(k=_first(i.k, 0)))),
    (OUTPUTS, Fault("first-sample-values", "the first sample's values for all", "L21",
        given=lambda i: i.but(v=_first(i.v, 0)))),
    (ALIKE, Fault("first-head-keys", "the first head's keys for all", "L21", given=lambda i: i.but(k=_first(i.k, 1)))),
    # Heads with slopes of their own are not alike, so reordering them tells nothing.
    (SLOPED, Fault("first-head-keys", "the first head's keys for all", "L1", given=lambda i: i.but(k=_first(i.k, 1)))),
    (SHARED, Fault("groups-alternate", "query head h reading key head h mod Hkv", "L1", given=_grouped)),
)
# fmt: on

ENTRIES = POSITIONS + MASKS + SCALES + AXES
