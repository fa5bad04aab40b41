"""Hypothesis strategies for plans: sizes lean to pairwise distinct, positions stay within what was claimed.

Everything is built, nothing is filtered, so that shrinking reaches the smallest failing input. Bulk data come from a drawn
seed through a NumPy Generator and never from a global one.
"""

from dataclasses import fields
from typing import Any

from hypothesis import strategies as st

from relpos.conformance import grids
from relpos.conformance.asks import TENSORS
from relpos.conformance.placing import farthest, first_order, flat, within_reach
from relpos.conformance.plan import Plan
from relpos.conformance.settings import SIZES, bundles, choices, legal, smallest
from relpos.conformance.subject import Subject

MAX_HEADS, MAX_QUERIES, MAX_KEYS, MAX_PAIRS = 5, 6, 8, 4
SMALL_TABLE = 3
CONTENTS = ("normal", "one_hot", "normal", "tiny", "normal", "zeros")  # ordinary content shows most


@st.composite
def plans(draw: st.DrawFn, subject: Subject, **wish: Any) -> Plan:
    """A plan for this subject.

    Wishes: `min_queries`, `min_keys`, `contents`, `causal` (None: drawn where it is asked for), `masks`, `far` (positions up
    to the claimed maximum), `dtypes`, `listed` (positions out of order and per sample), `scales`, `min_batch`, `small` (few
    cells, where each costs).
    """
    sizes = _sizes(draw, subject, wish)
    settings = _settings(draw, subject, sizes, wish)
    settings, sizes = _consistent(subject, settings, sizes)
    causal = wish.get("causal")
    if causal is None:
        causal = draw(st.booleans()) if "causal" in subject.asks else False
    causal = causal or (subject.level == "attention" and subject.card.softmax == "causal")
    where = (grids.drawn if subject.on_grid else _positions)(draw, subject, settings, sizes, wish)
    plan = Plan(
        settings=settings,
        **{**sizes, **where},
        content=draw(st.sampled_from(wish.get("contents", CONTENTS))),
        seed=draw(st.integers(0, 2**16)),
        dtype=draw(st.sampled_from(wish.get("dtypes", subject.dtypes))),
        causal=causal or subject.kind == "decoder",
        mask=_mask(draw, subject, wish),
        scale=draw(st.sampled_from((None, 0.5, 1.0))) if "scale" in subject.asks and wish.get("scales", True) else None,
    )
    return first_order(subject, within_reach(subject, _in_context(draw, subject, plan)))


def _sizes(draw: st.DrawFn, subject: Subject, wish: dict[str, Any]) -> dict[str, Any]:
    """Sizes of all axes. What makes them distinct is drawn first and shrinks away first."""
    fixed = subject.fixed
    distinct = draw(st.integers(0, 3)) > 0
    batch = draw(st.integers(wish.get("min_batch", 1), 2 if wish.get("small") else 3))
    heads = fixed.get("num_heads") or draw(st.integers(1, 3 if wish.get("small") else MAX_HEADS))
    queries = _length(draw, subject, wish.get("min_queries", 1), 3 if wish.get("small") else MAX_QUERIES)
    if subject.positions == "arbitrary":
        keys = _length(draw, subject, wish.get("min_keys", 1), 4 if wish.get("small") else MAX_KEYS)
    else:
        keys = queries + draw(st.integers(max(wish.get("min_keys", 1) - queries, 0), 2 if wish.get("small") else MAX_KEYS - 1))
    width = _width(draw, subject, wish)
    longest = subject.card.max_length or MAX_KEYS + MAX_QUERIES + MAX_HEADS
    if distinct and not wish.get("small"):
        batch, heads, queries, keys = _spread(subject, batch, heads, queries, keys, width, longest)
    queries, keys = min(queries, longest), min(keys, longest)
    if subject.one_length or subject.kind == "decoder":
        queries = keys = max(queries, keys) if subject.positions == "arbitrary" else queries
        queries = keys = max(queries, wish.get("min_keys", 1))
    elif subject.positions != "arbitrary":
        queries, keys = min(queries, keys), max(queries, keys)
    grouped = draw(st.booleans()) if takes_groups(subject) else False
    divisors = [n for n in range(1, heads + 1) if heads % n == 0]
    if not TENSORS & subject.asks and subject.card.positions != "per_row":
        batch = 1  # nothing that it sees has samples
    return {
        "batch": batch,
        "heads": heads,
        "kv_heads": draw(st.sampled_from(divisors)) if grouped else None,
        "query_length": queries,
        "key_length": keys,
        "head_dim": width,
    }


def _length(draw: st.DrawFn, subject: Subject, least: int, most: int) -> int:
    return draw(st.integers(least, max(least, min(most, subject.card.max_length or most))))


def takes_groups(subject: Subject) -> bool:
    """Whether several query heads may share a key head."""
    said = "num_kv_heads" in subject.asks or "num_kv_heads" in subject.card.binds
    return said and {"k", "v"} <= subject.asks and subject.form != "embedding"


def _width(draw: st.DrawFn, subject: Subject, wish: dict[str, Any]) -> int:
    for name in ("head_dim", "embed_dim"):
        if name in subject.fixed:
            return subject.fixed[name]
    least = max([2, *(v for n, v in subject.fixed.items() if n == "rotary_dim" and v)])
    even = max(least + least % 2, 2 * draw(st.integers(1, 2 if wish.get("small") else MAX_PAIRS)))
    even += 0 if legal(subject.cls, _base(subject, heads=2, width=even)) else 2
    odd_is_legal = legal(subject.cls, _base(subject, heads=2, width=even + 1))
    return even + 1 if odd_is_legal and draw(st.integers(0, 4)) == 1 else even


def _spread(subject: Subject, batch: int, heads: int, queries: int, keys: int, width: int, longest: int) -> tuple[int, ...]:
    """Raise sizes until they differ pairwise; faults hide where two axes are equally long."""
    taken = {width}
    found = []
    for name, size in (("heads", heads), ("keys", keys), ("queries", queries), ("batch", batch)):
        pinned = name == "heads" and "num_heads" in subject.fixed
        while size in taken and not pinned and (name not in ("keys", "queries") or size < longest):
            size += 1
        taken.add(size)
        found.append(size)
    heads, keys, queries, batch = found
    return batch, heads, queries, keys


def _base(subject: Subject, *, heads: int, width: int) -> dict[str, Any]:
    names = {f.name for f in fields(subject.cls)}
    sized = {"num_heads": heads, "head_dim": width, "embed_dim": width}
    values = {**smallest(subject.cls), **{n: v for n, v in sized.items() if n in names}}
    return {**values, **subject.fixed}


def _settings(draw: st.DrawFn, subject: Subject, sizes: dict[str, Any], wish: dict[str, Any]) -> dict[str, Any]:
    values = _base(subject, heads=sizes["heads"], width=sizes["head_dim"])
    options = {**choices(subject.cls), **getattr(subject.cls, "draws", {})}
    defaults = {f.name: f.default for f in fields(subject.cls)}
    if (grouped := bundles(subject.cls, subject.free, values)) and draw(st.booleans()):
        values = draw(st.sampled_from(grouped))
    for name in subject.free:
        if name in SIZES or name not in options:
            continue
        first = (defaults[name],) if defaults[name] in options[name] else ()
        candidates = first + tuple(v for v in options[name] if v not in first)
        if wish.get("small"):
            candidates = _small(candidates)
        value = draw(st.sampled_from(candidates))
        if legal(subject.cls, {**values, name: value}):
            values[name] = value
    for name, most in _widths(subject, sizes).items():
        value = draw(st.sampled_from((None, *range(0, most + 1))))
        if legal(subject.cls, {**values, name: value}):
            values[name] = value
    return values


def _small(candidates: tuple[Any, ...]) -> tuple[Any, ...]:
    """Sizes of small tables only: each cell of a table costs. Where none is small, the smallest."""
    sizes = [v for v in candidates if type(v) is int]
    most = max(SMALL_TABLE, min(sizes, default=0))
    return tuple(v for v in candidates if type(v) is not int or v <= most)


def _widths(subject: Subject, sizes: dict[str, Any]) -> dict[str, int]:
    """Settings that select a part of an axis: `None` for all of it, or any number up to its size."""
    parts = {"rotary_dim": sizes["head_dim"], "num_biased_heads": sizes["heads"]}
    return {name: most for name, most in parts.items() if name in subject.free}


def _consistent(subject: Subject, settings: dict[str, Any], sizes: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    if not legal(subject.cls, settings):
        settings = {**settings, **{n: None for n in ("rotary_dim", "num_biased_heads") if n in subject.free}}
    if not legal(subject.cls, settings) and "num_heads" in settings and "num_heads" not in subject.fixed:
        sizes = {**sizes, "heads": sizes["heads"] + sizes["heads"] % 2, "kv_heads": None}
        settings = {**settings, "num_heads": sizes["heads"]}
    return settings, sizes


def _positions(draw: st.DrawFn, subject: Subject, settings: Any, sizes: dict[str, Any], wish: dict[str, Any]) -> dict[str, Any]:
    Lq, Lk, mode = sizes["query_length"], sizes["key_length"], subject.positions
    if subject.kind == "decoder" or (subject.one_length and mode == "contiguous"):
        return {}
    if mode == "contiguous":
        return {"offset": Lk - Lq if subject.card.corner == "bottom-right" else 0}
    if mode == "offset":
        alone = subject.level == "contribution" and subject.form in ("rotation", "embedding")
        if alone:
            return {"offset": draw(_starts(subject, wish))}
        return {"offset": max(Lk - Lq - draw(st.integers(0, 2)), 0)}
    kinds = ("decode", "shifted", "listed", "rows") if wish.get("listed", True) else ("decode", "shifted")
    kind = draw(st.sampled_from(kinds if subject.card.positions == "per_row" else kinds[:3]))
    start = draw(_starts(subject, wish)) if kind != "decode" else 0
    if kind == "listed":
        near = st.integers(start, start + 2 * MAX_KEYS)
        keys = draw(st.lists(near, min_size=Lk, max_size=Lk))
        queries = keys if subject.one_length else draw(st.lists(near, min_size=Lq, max_size=Lq))
        return {"query_positions": tuple(queries), "key_positions": tuple(keys)}
    if kind == "rows":
        # Left padding and caches of unequal length: every sample starts somewhere else, its queries at their own distance.
        starts = [start + draw(st.integers(0, 3)) for _ in range(sizes["batch"])]
        aheads = [0 if subject.one_length else draw(st.integers(0, Lk)) for _ in starts]
        return {
            "query_positions": tuple(tuple(range(s + a, s + a + Lq)) for s, a in zip(starts, aheads, strict=True)),
            "key_positions": tuple(tuple(range(s, s + Lk)) for s in starts),
        }
    first_query = start + (max(Lk - Lq, 0) if kind == "decode" else draw(st.integers(0, Lk)))
    first_query = start if subject.one_length else first_query
    return {
        "query_positions": tuple(range(first_query, first_query + Lq)),
        "key_positions": tuple(range(start, start + Lk)),
    }


def _in_context(draw: st.DrawFn, subject: Subject, plan: Plan) -> Plan:
    """A stated length of the context, where somebody is told it and looks at it: the positions may be a part of it."""
    if not subject.told_length or not getattr(subject.cls(**plan.settings), "length_dependent", False):
        return plan
    last = max((plan.offset + plan.query_length, plan.key_length, *(1 + p for p in flat(plan.query_positions))))
    last = max((last, *(1 + p for p in flat(plan.key_positions))))
    return plan.but(context_length=draw(st.sampled_from((None, last, last + 1, last + MAX_KEYS))))


def _starts(subject: Subject, wish: dict[str, Any]) -> st.SearchStrategy[int]:
    far = farthest(subject)
    near = st.integers(0, min(3 * MAX_KEYS, far))
    return st.one_of(near, st.integers(0, far)) if wish.get("far", True) else near


def _mask(draw: st.DrawFn, subject: Subject, wish: dict[str, Any]) -> str:
    kinds = wish.get("masks")
    return draw(st.sampled_from(masks_of(subject) if kinds is None else kinds))


def masks_of(subject: Subject) -> tuple[str, ...]:
    """The masks that an implementation can be given."""
    kinds = ("none", "random") if "mask" in subject.asks else ("none",)
    kinds += ("empty",) if subject.empty_rows else ()
    return kinds + (("padding",) if {"padding_mask", "mask"} & subject.asks else ())
