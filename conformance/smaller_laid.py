"""Smaller forms of inputs whose lengths a law lays out itself: chunks, a reach, documents; both change together."""

from collections.abc import Callable, Iterator

from relpos.conformance.placing import moved
from relpos.conformance.plan import Plan
from relpos.conformance.subject import Subject

Rule = Callable[[Subject, Plan], Iterator[Plan]]


def laid_out_by(extras: set[str]) -> Rule | None:
    """The rule for lengths that follow from these extras of a plan; None where they follow from nothing."""
    return next((rule for names, needs, rule in RULES if needs in extras and extras <= names), None)


def less(size: int, least: int, step: int = 1) -> list[int]:
    """The least, half, one step less, all of them smaller than the size."""
    half = size // 2 // step * step
    return list(dict.fromkeys(n for n in (least, half, size - step) if least <= n < size))


def _chunks(subject: Subject, plan: Plan) -> Iterator[Plan]:
    """Single tokens; chunks left out, made shorter or cut in two; memory left out."""
    chunks = plan.extra["chunks"]
    yield plan.but(extra={**plan.extra, "chunks": (1,) * sum(chunks)})
    for n, size in enumerate(chunks):
        for left in ((), *((m,) for m in less(size, 1))):
            fewer = (*chunks[:n], *left, *chunks[n + 1 :])
            if fewer:
                yield _cut(plan, size - sum(left)).but(extra={**plan.extra, "chunks": fewer})
    for n, size in enumerate(chunks):
        if size > 1:
            yield plan.but(extra={**plan.extra, "chunks": (*chunks[:n], size - size // 2, size // 2, *chunks[n + 1 :])})
    if "max_position" in subject.free and (T := plan.settings.get("max_position")):
        # A threshold and the chunk that ends there come nearer together.
        for n in less(T, 2):
            if fewer := _without_first(chunks, T - n):
                settings = {**plan.settings, "max_position": n}
                yield _cut(plan, T - n).but(extra={**plan.extra, "chunks": fewer}, settings=settings)
    if memory := plan.extra.get("memory", 0):
        keys, queries = plan.key_positions, plan.query_positions
        yield plan.but(
            key_length=plan.key_length - memory, offset=max(plan.offset - memory, 0), extra={"chunks": chunks},
            key_positions=keys and keys[:-memory], query_positions=queries and moved(queries, -memory),
        )  # fmt: skip


def _without_first(chunks: tuple[int, ...], tokens: int) -> tuple[int, ...]:
    """Chunks without so many tokens at their beginning."""
    left, ends = [], 0
    for size in chunks:
        ends += size
        left += [min(size, ends - tokens)] * (ends > tokens)
    return tuple(left)


def _cut(plan: Plan, by: int) -> Plan:
    """The plan without its last tokens."""
    keys, queries = plan.key_positions, plan.query_positions
    return plan.but(
        query_length=plan.query_length - by, key_length=plan.key_length - by,
        key_positions=keys and keys[:-by], query_positions=queries and queries[:-by],
    )  # fmt: skip


def _reaches(subject: Subject, plan: Plan) -> Iterator[Plan]:
    """Keys up to another distance, on both sides of one query or as far as there are queries."""
    del subject
    reach, start, square = plan.extra["reach"], plan.extra["start"], plan.query_length > 1
    for n in (*(2**p for p in range(9) if 2**p < reach), reach - 1):
        if 0 < n < reach:
            lengths = {"query_length": n + 1, "key_length": n + 1} if square else {"key_length": 2 * n + 1}
            yield plan.but(extra={**plan.extra, "reach": n}, **lengths)
    if start:
        yield plan.but(extra={**plan.extra, "start": 0})


def _distances(subject: Subject, plan: Plan) -> Iterator[Plan]:
    """Keys up to another distance on both sides of the middle query."""
    del subject
    start = min(plan.query_positions or (0,)) - (plan.extra["distance"] if plan.query_length == 1 else 0)
    for d in less(plan.extra["distance"], 1):
        n, one, listed = 2 * d + 1, plan.query_length == 1, plan.query_positions is not None
        keys = tuple(range(start, start + n)) if listed else None
        yield plan.but(
            query_length=1 if one else n, key_length=n, offset=d if one and not listed else 0,
            query_positions=keys and ((start + d,) if one else keys), key_positions=keys, extra={"distance": d},
        )  # fmt: skip


def _documents(subject: Subject, plan: Plan) -> Iterator[Plan]:
    """One document, a sample each, left out or made shorter; the row is as long as the longest."""
    del subject
    lengths = plan.extra["lengths"]
    for n, length in enumerate(lengths):
        for left in ((), *((m,) for m in less(length, 1))):
            fewer = (*lengths[:n], *left, *lengths[n + 1 :])
            if not fewer or len(lengths) != plan.batch:
                continue
            longest = max(fewer)
            listed = tuple(range(longest)) if plan.query_positions is not None else None
            yield plan.but(
                batch=len(fewer), query_length=longest, key_length=longest, query_positions=listed, key_positions=listed,
                extra={**plan.extra, "lengths": fewer},
            )  # fmt: skip


def _resized(subject: Subject, plan: Plan) -> Iterator[Plan]:
    """One side of one of both windows shorter."""
    windows = {"source_window": plan.extra["source_window"], "window_size": plan.settings["window_size"]}
    for name, window in windows.items():
        for axis, side in enumerate(window):
            for n in less(side, 1):
                smaller = tuple(n if a == axis else W for a, W in enumerate(window))
                if name == "source_window":
                    yield plan.but(extra={name: smaller})
                elif name in subject.free:
                    yield plan.but(settings={**plan.settings, name: smaller})


RULES: tuple[tuple[set[str], str, Rule], ...] = (
    ({"chunks", "memory", "path"}, "chunks", _chunks),
    ({"reach", "start", "table"}, "reach", _reaches),
    ({"distance"}, "distance", _distances),
    ({"source_window"}, "source_window", _resized),
    ({"path", "lengths"}, "lengths", _documents),
)
