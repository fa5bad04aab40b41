"""Inputs of schemes whose positions have several axes: where their tokens lie, how they move, how a message says so.

In a plan a position is a tuple, and None a token that has none. Where nothing is told of positions, the plan says `grid`:
the tokens are those of the whole grid, row by row, after those that have no position.
"""

from itertools import cycle, islice
from math import prod
from typing import Any

import numpy as np
from hypothesis import strategies as st

from relpos.conformance.placing import farthest, moved
from relpos.conformance.plan import Plan
from relpos.conformance.subject import Subject
from relpos.spec.coordinates import NOWHERE
from relpos.spec.positions import Grid, Positions

LONG_WINDOW = (5, 7)  # neither square nor small


def whole(settings: Any, shape: tuple[int, ...]) -> dict[str, Any]:
    """A grid and the number of its tokens."""
    tokens = prod(shape) + getattr(settings, "special", 0)
    return {"grid": shape, "query_length": tokens, "key_length": tokens}


def laid_out(subject: Subject, settings: Any, Lq: int, Lk: int) -> dict[str, Any]:
    """The whole window; where positions can be told, so many tokens of it, away from the origin of every axis."""
    if subject.positions == "contiguous":
        return whole(settings, settings.window_size)
    places = [tuple(p + a + 1 for a, p in enumerate(place)) for place in np.ndindex(*settings.window_size)]
    keys = tuple(islice(cycle([None] * getattr(settings, "special", 0) + places), Lk))
    queries = tuple(islice(cycle(keys), Lq))
    return {"query_positions": queries, "key_positions": keys, "query_length": Lq, "key_length": Lk, "grid": None}


def at(subject: Subject, plan: Plan, **settings: Any) -> Plan:
    """A plan under other settings, its tokens laid out anew."""
    plan = plan.but(settings={**plan.settings, **settings})
    return plan.but(**laid_out(subject, subject.cls(**plan.settings), plan.query_length, plan.key_length))


def inside_both(subject: Subject, base: Plan, window: Any) -> Plan | None:
    """The plan with tokens inside another window as well as its own; None where the whole window is owed."""
    shape = tuple(map(min, window, subject.cls(**base.settings).window_size))
    if subject.positions == "contiguous":
        return base.but(**whole(subject.cls, shape)) if "grid" in subject.asks else None
    return base.but(
        **laid_out(subject, subject.cls(**{**base.settings, "window_size": shape}), base.query_length, base.key_length)
    )


def drawn(draw: st.DrawFn, subject: Subject, values: dict[str, Any], sizes: dict[str, Any], wish: dict) -> dict[str, Any]:
    """Anywhere inside one window, several tokens at one place among them; per sample in a window of its own."""
    settings, Lq, Lk = subject.cls(**values), sizes["query_length"], sizes["key_length"]
    if subject.positions == "contiguous":
        smaller = "grid" in subject.asks
        return whole(settings, tuple(draw(st.integers(1, W)) if smaller else W for W in settings.window_size))
    rows = subject.card.positions == "per_row" and wish.get("listed", True) and draw(st.booleans())
    far, samples = farthest(subject), []
    for _ in range(sizes["batch"] if rows else 1):
        starts = st.integers(0, 24) if not wish.get("far", True) else st.one_of(st.integers(0, 24), st.integers(0, far))
        corner = tuple(draw(starts) for _ in settings.window_size)
        samples.append(tuple(_tokens(draw, settings, corner, n) for n in (Lq, Lk)))
    queries, keys = zip(*samples, strict=True)
    queries = keys if subject.one_length else queries
    return {"query_positions": queries if rows else queries[0], "key_positions": keys if rows else keys[0]}


def _tokens(draw: st.DrawFn, settings: Any, corner: tuple[int, ...], n: int) -> tuple:
    sizes = tuple(zip(corner, settings.window_size, strict=True))
    places: list[tuple[int, ...] | None] = [tuple(c + draw(st.integers(0, W - 1)) for c, W in sizes) for _ in range(n)]
    if getattr(settings, "special", 0) and draw(st.booleans()):
        places[0] = None
    return tuple(places)


def pinned(subject: Subject, base: Plan) -> list[Plan]:
    """Every window worth trying; the far end of all axes; samples in windows of their own."""
    drawn_windows = subject.cls.draws["window_size"] if "window_size" in subject.free else ()
    found = [at(subject, base, window_size=window) for window in drawn_windows]
    if base.query_positions is None or base.key_positions is None:
        return found
    far = farthest(subject)
    found.append(base.but(query_positions=moved(base.query_positions, far), key_positions=moved(base.key_positions, far)))
    if subject.card.positions == "per_row":
        rows = [turned(base, b) for b in range(base.batch)]
        found.append(base.but(query_positions=tuple(q for q, _ in rows), key_positions=tuple(k for _, k in rows)))
    return found


def turned(plan: Plan, by: int) -> tuple[tuple, tuple]:
    """Tokens of a sample: others of the same window are first, and all lie elsewhere."""
    queries, keys = plan.query_positions or (), plan.key_positions or ()
    return moved((*queries[by:], *queries[:by]), 3 * by), moved((*keys[2 * by :], *keys[: 2 * by]), 3 * by)


def one_token(subject: Subject, base: Plan) -> list[Plan]:
    """One query and one key, and one query amid all keys, where positions can be told."""
    if base.query_positions is None or base.key_positions is None:
        return []
    one = {"query_length": 1, "query_positions": base.query_positions[-1:]}
    alone = base.but(**one, key_length=1, key_positions=base.key_positions[-1:])
    return [alone] if subject.one_length else [alone, base.but(**one)]


def long(subject: Subject, base: Plan) -> Plan:
    """A window of many tokens, all of them queries and keys."""
    window = LONG_WINDOW if "window_size" in subject.free else subject.cls(**base.settings).window_size
    n = prod(window) + getattr(subject.cls, "special", 0)
    return at(subject, base.but(batch=1, query_length=n, key_length=n, seed=5), window_size=window)


def square(plan: Plan, chunks: tuple[int, ...]) -> Plan:
    """As many queries as keys, at the places of the longer side, to be cut into chunks."""
    n, queries, keys = sum(chunks), plan.query_positions or (), plan.key_positions or ()
    where = (queries if len(queries) > len(keys) else keys)[:n]
    return plan.but(query_length=n, key_length=n, query_positions=where, key_positions=where, extra={"chunks": chunks})


def shifted(positions: tuple | None, extra: Any) -> tuple:
    """All positions moved by `shift`, along `axis` only where one is said."""
    if "axis" not in extra:
        return moved(positions, extra["shift"])
    return tuple(_along(p, extra["shift"], extra["axis"]) for p in positions or ())


def _along(place: Any, shift: int, axis: int) -> Any:
    if place is None or isinstance(place[0], tuple) or place[0] is None:  # no position, or the row of a sample
        return place if place is None else tuple(_along(p, shift, axis) for p in place)
    return tuple(p + shift * (a == axis) for a, p in enumerate(place))


def apart(i: Any, j: Any) -> Any:
    """i − j, axis by axis; for tokens without a position, which of the two has none."""
    if i is None or j is None:
        return "both" if i is None and j is None else "query" if i is None else "key"
    return tuple(p - r for p, r in zip(i, j, strict=True)) if isinstance(i, tuple) else i - j


def whereabouts(plan: Plan, axes: tuple[str, ...], cell: tuple[int, ...], special: int) -> str:
    """ "query 3 at (1, 0), key 4 at (1, 1)" for a cell of a result; nothing where positions have one axis."""
    said = []
    for word, listed in (("query", plan.query_positions), ("key", plan.key_positions)):
        if plan.grid is not None:
            listed = tuple(Grid(plan.grid, special))
        if word not in axes or not listed:
            continue
        if isinstance(listed[0], tuple) and (listed[0][0] is None or isinstance(listed[0][0], tuple)):
            listed = listed[cell[axes.index("batch")]] if "batch" in axes else listed[0]
        if not any(isinstance(place, tuple) for place in listed):
            continue
        n = cell[axes.index(word)]
        said.append(f"{word} {n} at {listed[n]}" if listed[n] is not None else f"{word} {n} without a position")
    return ", ".join(said)


def repeated(place: Positions, n: int) -> np.ndarray:
    """n tokens at the first place of a sample."""
    rows = place.row(0).array()
    there = rows[(rows != NOWHERE).all(-1)]
    return np.repeat((there if len(there) else rows)[:1], n, axis=0)
