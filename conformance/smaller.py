"""Smaller forms of an input that are still inputs of the same subject: what a reducer tries, the largest steps first.

Sizes that a law lays out itself (`extra` says by what) change only together with what it says; where that is not known here,
lengths stay as they are. Everything offered is what might have been drawn.
"""

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from relpos.conformance import grids
from relpos.conformance.asks import TENSORS
from relpos.conformance.placing import flat, moved, within_reach
from relpos.conformance.plan import Plan
from relpos.conformance.settings import SIZES, legal, smallest
from relpos.conformance.smaller_laid import laid_out_by, less
from relpos.conformance.subject import Subject

# Extras beside which numbers of queries and keys are free, and those beside which both must stay equal.
APART = {"shift", "axis", "subset", "second", "computed", "option", "value", "mode", "end", "way", "heads"}
APART |= {"storage", "only", "arrives"}
EQUAL = {"pad", "side", "ranks", "order", "longer"}
FREE_PATHS = {"variants", "causal", "rows"}  # ways of asking the same that take any lengths
COUNTS = {"pad": 1, "ranks": 2, "longer": 1}  # of tokens, ranks, tokens, and how few there may be
ANCHORED = {"end", "mode"}  # laws of positions far away: those stay where they are
WHOLE = {"calls", "small"}  # several inputs in one: none of their sizes is free
DRAWN, SEEDS = ("random", "padding"), range(8)
PLAIN: dict[str, Any] = {"content": "normal", "mask": "none", "scale": None, "context_length": None, "seed": 0}


def smaller(subject: Subject, plan: Plan) -> Iterator[Plan]:
    """Inputs that are smaller or plainer in one respect; not all of them need be of use to a law."""
    if WHOLE & set(plan.extra):
        return
    found = [one for one in _sizes(subject, plan) if legal(subject.cls, dict(one.settings))]
    # A reach of a table or of a power may move what is left; then it is still an input.
    found = [within_reach(subject, one) if set(one.extra) <= APART else one for one in found]
    yield from found
    yield from _plainer(subject, plan)
    if plan.mask in DRAWN:
        # Of fewer tokens, a mask that hides others.
        yield from (one.but(seed=seed) for one in found for seed in SEEDS if seed != plan.seed)


def _sizes(subject: Subject, plan: Plan) -> Iterator[Plan]:
    yield from _heads(subject, plan)
    for n in less(plan.batch, 1):
        yield plan.but(batch=n, query_positions=_rows(subject, plan.query_positions, n),
                       key_positions=_rows(subject, plan.key_positions, n))  # fmt: skip
    yield from _lengths(subject, plan)
    yield from _widths(subject, plan)


def _heads(subject: Subject, plan: Plan) -> Iterator[Plan]:
    if plan.kv_heads not in (None, plan.heads):
        yield plan.but(kv_heads=None)
    if "num_heads" in subject.fixed:
        return
    for n in less(plan.heads, 1):
        shard = ("heads" in plan.extra) and (tuple(h for h in plan.extra["heads"] if h < n) or (n - 1,))
        extra = {**plan.extra, "heads": shard} if shard else plan.extra
        groups = plan.kv_heads if plan.kv_heads is None or n % plan.kv_heads == 0 else 1
        yield plan.but(heads=n, kv_heads=groups, extra=extra, settings=_sized(subject, plan, "heads", n))


def _widths(subject: Subject, plan: Plan) -> Iterator[Plan]:
    if {"head_dim", "embed_dim"} & set(subject.fixed) or {"reach", "nearest"} & set(plan.extra):
        return
    seen = TENSORS & subject.asks or {"head_dim", "embed_dim"} & set(plan.settings)
    for n in (1, *less(plan.head_dim, 2, 2)) if seen else (2,) * (plan.head_dim > 2):  # unseen, it is not worth a word
        if n == 1 and (plan.head_dim == 1 or subject.form in ("rotation", "embedding")):
            continue
        yield plan.but(head_dim=n, settings=_sized(subject, plan, "head_dim", n))


def narrow(subject: Subject, plan: Plan) -> Plan:
    """The plan with one sample, one head and as few columns as the scheme has a meaning for, where those are free."""
    found = plan.but(batch=1, kv_heads=None)
    least = (2,) if subject.form in ("rotation", "embedding") else (1, 2)
    tried = [("heads", 1)] if "num_heads" not in subject.fixed else []
    tried += [("head_dim", n) for n in reversed(least)] if not {"head_dim", "embed_dim"} & set(subject.fixed) else []
    for axis, n in tried:
        one = found.but(**{axis: n}, settings=_sized(subject, found, axis, n))
        found = one if getattr(found, axis) > n and legal(subject.cls, dict(one.settings)) else found
    return found


def _sized(subject: Subject, plan: Plan, axis: str, n: int) -> dict[str, Any]:
    """Settings that follow a size; a part of the axis is no larger than the axis."""
    part = {"heads": "num_biased_heads", "head_dim": "rotary_dim"}[axis]
    settings = {name: n if SIZES.get(name) == axis else value for name, value in plan.settings.items()}
    if part in subject.free and (settings.get(part) or 0) > n:
        settings[part] = n
    return settings


def _rows(subject: Subject, positions: tuple | None, n: int) -> tuple | None:
    return positions[:n] if positions is not None and _per_sample(subject, positions) else positions


def _per_sample(subject: Subject, positions: tuple | None) -> bool:
    """Whether there is one row of positions per sample; a place on several axes is a tuple, too, or None."""
    if not positions or not isinstance(positions[0], tuple):
        return False
    return not subject.on_grid or not positions[0] or positions[0][0] is None or isinstance(positions[0][0], tuple)


def _lengths(subject: Subject, plan: Plan) -> Iterator[Plan]:
    extras = set(plan.extra)
    if plan.grid is not None or ("source_window" not in extras and subject.on_grid and extras <= APART):
        yield from _windows(subject, plan)
    if plan.grid is not None:
        return
    for name, least in COUNTS.items():
        if name in extras:
            yield from (plan.but(extra={**plan.extra, name: n}) for n in less(plan.extra[name], least))
    if rule := laid_out_by(extras):
        yield from () if subject.on_grid and "source_window" not in extras else rule(subject, plan)
    elif extras <= APART | EQUAL or plan.extra.get("path") in FREE_PATHS:
        yield from _shorter(subject, plan, together=bool(extras & EQUAL))


def _windows(subject: Subject, plan: Plan) -> Iterator[Plan]:
    if plan.grid is not None and "grid" in subject.asks:
        settings = subject.cls(**plan.settings)
        for axis, side in enumerate(plan.grid):
            shapes = [tuple(n if a == axis else s for a, s in enumerate(plan.grid)) for n in less(side, 1)]
            yield from (plan.but(**grids.whole(settings, shape)) for shape in shapes)
    if "window_size" not in subject.free or plan.query_positions is not None:
        return
    for axis, side in enumerate(plan.settings["window_size"]):
        for n in less(side, 1):
            window = tuple(n if a == axis else s for a, s in enumerate(plan.settings["window_size"]))
            if not legal(subject.cls, settings := {**plan.settings, "window_size": window}):
                continue
            if plan.grid == plan.settings["window_size"]:  # all of a window stays all of it
                yield plan.but(settings=settings, **grids.whole(subject.cls(**settings), window))
            else:
                yield grids.at(subject, plan, window_size=window)


def _shorter(subject: Subject, plan: Plan, *, together: bool) -> Iterator[Plan]:
    """Fewer queries, fewer keys, or fewer of both where they are the same tokens."""
    Lq, Lk, queries, keys = plan.query_length, plan.key_length, plan.query_positions, plan.key_positions
    same = Lq == Lk and queries == keys
    tied = together or subject.one_length or subject.together or subject.kind == "decoder"
    for choices in (_ends, _all_but_one):
        if Lq == Lk and (same or tied):
            yield from (_kept(subject, plan, at, at) for at in choices(Lq))
        if tied:
            continue
        yield from (_kept(subject, plan, at, range(Lk)) for at in choices(Lq))
        fits = (at for at in choices(Lk) if subject.positions == "arbitrary" or len(at) >= Lq)
        yield from (_kept(subject, plan, range(Lq), at) for at in fits)


def _ends(n: int) -> list[Any]:
    """The first or last of n tokens, or half of them."""
    return [part for m in less(n, 1) if m < n - 1 for part in (range(m), range(n - m, n))]


def _all_but_one(n: int) -> list[Any]:
    """All tokens but one, the last left out first."""
    return [[i for i in range(n) if i != out] for out in reversed(range(n))] if n > 1 else []


def _kept(subject: Subject, plan: Plan, queries: Any, keys: Any) -> Plan:
    lengths = {"query_length": len(queries), "key_length": len(keys)}
    if plan.query_positions is None and plan.key_positions is None:
        return plan.but(**lengths, offset=_offset(subject, plan, len(queries), len(keys)))
    rows = _per_sample(subject, plan.query_positions)
    pick = lambda p, at: p and (tuple(tuple(r[i] for i in at) for r in p) if rows else tuple(p[i] for i in at))  # noqa: E731
    return plan.but(
        **lengths, query_positions=pick(plan.query_positions, queries), key_positions=pick(plan.key_positions, keys)
    )


def _offset(subject: Subject, plan: Plan, Lq: int, Lk: int) -> int:
    """Where the queries begin, as far as the subject can be told."""
    if subject.positions == "contiguous":
        return Lk - Lq if subject.card.corner == "bottom-right" and not subject.one_length else 0
    alone = subject.level == "contribution" and subject.form in ("rotation", "embedding")
    return plan.offset if alone else min(plan.offset, max(Lk - Lq, 0))


def _plainer(subject: Subject, plan: Plan) -> Iterator[Plan]:
    """The same sizes with ordinary content and positions from 0."""
    for name, value in PLAIN.items():
        if getattr(plan, name) != value:
            yield plan.but(**{name: value})
    yield from _usual(subject, plan)
    if plan.dtype != "float32" and "float32" in subject.dtypes:
        yield plan.but(dtype="float32")
    if plan.offset and plan.query_positions is not None and plan.key_positions is not None:
        yield plan.but(offset=0)  # it speaks of positions that are not listed
    told = flat(plan.query_positions) + flat(plan.key_positions)
    if told and min(told) and not subject.on_grid and not set(plan.extra) & (ANCHORED | {"steps"}):
        near = {n: moved(p, -min(told)) for n, p in (("query_positions", plan.query_positions),
                                                    ("key_positions", plan.key_positions)) if p is not None}  # fmt: skip
        yield plan.but(**near)


def _usual(subject: Subject, plan: Plan) -> Iterator[Plan]:
    """One setting as it is where nobody says anything else, or a smaller number; sizes and windows apart."""
    usual = smallest(subject.cls)
    for f in fields(subject.cls):
        now, value = plan.settings.get(f.name, f.default), usual.get(f.name, f.default)
        if f.name not in subject.free or f.name in (*SIZES, "window_size"):
            continue
        settings = {name: v for name, v in plan.settings.items() if name != f.name}
        found = [settings if f.name not in usual else {**settings, f.name: value}] if now != value else []
        if f.name in plan.settings and isinstance(now, int) and not isinstance(now, bool):
            found += [{**settings, f.name: n} for n in less(now, 1)]
        yield from (within_reach(subject, plan.but(settings=one)) for one in found if legal(subject.cls, one))
