"""L3: a decode step is a row of the whole."""

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
from hypothesis import strategies as st

from relpos.conformance import grids
from relpos.conformance.agreement import agree
from relpos.conformance.answers import answer, definition, prepared, undeclared
from relpos.conformance.chunking import part, rows_of_part, sliceable
from relpos.conformance.faults.api import Wrong
from relpos.conformance.judge import LawFailure, bound_of, compare_within
from relpos.conformance.laws.base import Law
from relpos.conformance.placing import within_reach
from relpos.conformance.plan import Inputs, Plan
from relpos.conformance.scopes import WIDTH, Scope, chunkings, of_chunks
from relpos.conformance.settings import bundles, legal
from relpos.conformance.smoke import smoke_plan
from relpos.conformance.strategies import plans
from relpos.conformance.subject import Subject
from relpos.conformance.tolerance import C
from relpos.spec.positions import Explicit

LONGEST = 32  # thresholds beyond it are not walked up to token by token
REMEMBERED = ("memory_length", "segment_length", "same_length")


def check(subject: Subject, plan: Plan) -> float:
    """Rows computed chunk by chunk are the rows of the full forward."""
    given = prepared(subject, plan)
    grows = getattr(given.settings, "length_dependent", False) and plan.context_length is None
    if grows and subject.kind == "decoder":
        return _at_every_length(subject, given)
    whole = _reference(subject, given)
    if subject.kind == "decoder":
        says = f"decoded in chunks of {_sizes(plan)}, rows differ from the full forward"
        return agree(answer(subject, given), whole, subject, given, says)
    largest, start, padding = 0.0, 0, undeclared(subject, given)
    for size in plan.extra["chunks"]:
        cut = part(subject, given, start, start + size)
        if grows:  # rows computed at length n are rows of the whole at length n
            whole = answer(subject, part(subject, given, 0, start + size))
        rows = rows_of_part(whole, subject, cut, start, start + size)
        words, quiet = f"{_rows(start, size)} the whole", padding[:, start : start + size]
        largest = max(largest, agree(answer(subject, cut), rows, subject, cut, words, plan, padding=quiet))
        start += size
    return largest


def _reference(subject: Subject, given: Inputs) -> dict[str, np.ndarray]:
    """The whole in one call; a decoder is measured against the definition, since a fresh one has no whole."""
    if subject.kind == "decoder":
        return {name: want.value for name, want in definition(subject, given).items()}
    return answer(subject, given)


def _at_every_length(subject: Subject, given: Inputs) -> float:
    """A decoder's rows against the definition at the length there was: all keys by the rule of that length."""
    got, largest, start = answer(subject, given)["output"], 0.0, 0
    for size in given.plan.extra["chunks"]:
        cut, n = part(subject, given, start, start + size), start + size
        here = {"output": got[..., start:n, :]}
        rows = {"output": definition(subject, cut)["output"].value}
        says = f"{_rows(start, size)} the whole of {n} tokens"
        try:
            largest = max(largest, agree(here, rows, subject, cut, says, given.plan))
        except LawFailure as failure:
            if _kept_keys(subject, given, cut, here):
                failure.says += ": cached keys keep the rotation of a shorter context"
            raise
        start += size
    return largest


def _kept_keys(subject: Subject, given: Inputs, cut: Inputs, here: dict[str, np.ndarray]) -> bool:
    """Whether the rows are those of keys that were turned once, for the context there was when they came."""
    if subject.form != "rotation":
        return False
    ends = [int(end) for end in np.cumsum(given.plan.extra["chunks"])]
    s = given.settings

    def rotate(x, positions, role):
        if role != "key":
            return s.rotate(x, positions, role)
        at = [next(end for end in ends if p < end) for p in positions]
        each = [s.rotate(x[..., [j], :], Explicit([p], context_length=at[j]), role) for j, p in enumerate(positions)]
        return np.concatenate(each, axis=-2)

    kept = definition(subject, cut.but(settings=Wrong(s, rotate=rotate)))["output"]
    right = definition(subject, cut)["output"]
    bound = 2 * bound_of(right, cut.plan.dtype)
    same = [compare_within(here["output"], one.value, bound, name="output", allowed=C["output"]).ok for one in (kept, right)]
    return same == [True, False]


def _rows(start: int, size: int) -> str:
    if size == 1:
        return f"row {start}, computed alone, differs from that row of"
    return f"rows {start} to {start + size - 1}, computed alone, differ from those rows of"


def _sizes(plan: Plan) -> str:
    return " + ".join(str(n) for n in plan.extra["chunks"])


@st.composite
def _plans(draw: st.DrawFn, subject: Subject) -> Plan:
    causal = True if subject.positions == "contiguous" and "causal" in subject.asks else None
    wish = {"min_queries": 2, "min_keys": 2, "listed": False, "contents": ("normal",), "far": False, "causal": causal}
    plan = draw(plans(subject, **wish))
    n = max(plan.query_length, plan.key_length)
    if (threshold := _threshold(subject, plan)) is not None and n > 1 and draw(st.booleans()):
        return _square(subject, plan, 0, _across(draw, subject, threshold, n))
    memory = draw(st.integers(0, 3)) if _remembers(subject) else 0
    beyond = draw(st.integers(0, 2)) if memory and subject.positions != "contiguous" else 0
    offset = draw(st.integers(0, 9)) if _alone(subject) else 0
    return _square(subject, plan, offset, _chunks(draw, n), memory, beyond)


def _square(subject: Subject, plan: Plan, offset: int, chunks: tuple[int, ...], memory: int = 0, beyond: int = 0) -> Plan:
    """As many queries as keys, all contiguous, cut into chunks; `memory` keys come before them and some `beyond` them."""
    if subject.on_grid:
        return grids.square(plan, chunks)
    most = subject.card.max_length
    memory = memory if most is None else min(memory, max(most - sum(chunks) - beyond, 0))
    n, every = sum(chunks), memory + sum(chunks) + beyond
    start = 0 if plan.key_positions is None else plan.key_positions[0]
    explicit = plan.query_positions is not None
    plan = plan.but(
        query_length=n,
        key_length=every,
        offset=offset + memory,
        query_positions=tuple(range(start + memory, start + memory + n)) if explicit else None,
        key_positions=tuple(range(start, start + every)) if explicit else None,
    )
    return within_reach(subject, plan.but(extra={"chunks": chunks, **({"memory": memory} if memory else {})}))


def _remembers(subject: Subject) -> bool:
    """Whether there may be keys without queries of their own."""
    return not (subject.one_length or subject.kind == "decoder" or subject.on_grid)


def _threshold(subject: Subject, plan: Plan) -> int | None:
    """The length beyond which another table holds, where it can be walked up to."""
    s = subject.cls(**plan.settings)
    T = getattr(s, "max_position", None) if getattr(s, "length_dependent", False) else None
    fits = T is not None and min(subject.card.max_length or LONGEST, LONGEST) >= T + 2
    return T if fits else None


def _across(draw: st.DrawFn, subject: Subject, T: int, n: int) -> tuple[int, ...]:
    """Chunks of which one ends at T − 1, T or T + 1, and what follows in one or several tokens a step."""
    first = max(draw(st.sampled_from((T, T - 1, T + 1))), 1)
    return (*_chunks(draw, first), *_chunks(draw, draw(st.integers(1, 3))))


def _pinned(subject: Subject) -> list[Plan]:
    """A prefix, then two tokens, then one; the same behind a mask and after keys without queries; up to a threshold."""
    chosen = _growing(subject, smoke_plan(subject))
    if subject.level == "attention" and "causal" in subject.asks and not chosen[0].causal:
        chosen.append(chosen[0].but(causal=True))  # only then does a step see the keys there are by then, and no more
    plan, n = chosen[0], min(chosen[0].key_length, max(chosen[0].query_length, 4))
    found = [_square(subject, p, 0, (n - 3, 2, 1)) for p in chosen] if n > 3 else []
    few = plan.but(batch=1)
    if n > 3 and _remembers(subject):
        found.append(_square(subject, few, 0, (n - 3, 2, 1), 3))
    if n > 3 and (mask := "random" if "mask" in subject.asks else "padding" if "padding_mask" in subject.asks else ""):
        found.append(_square(subject, plan.but(mask=mask), 0, (n - 3, 2, 1), 2 if _remembers(subject) else 0))
    found += [_square(subject, p, 0, (1,) * 4 + (3,)) for p in _remembering(subject, few)]
    return found + [p for one in chosen for p in _around(subject, one.but(batch=1))]


def _growing(subject: Subject, plan: Plan) -> list[Plan]:
    """The plan, and the same under every rule that looks at the length."""
    if subject.positions == "contiguous" and "causal" in subject.asks:
        plan = plan.but(causal=True)
    every = [plan.but(settings=s) for s in bundles(subject.cls, subject.free, dict(plan.settings))]
    return [plan, *(p for p in every if getattr(subject.cls(**p.settings), "length_dependent", False))]


def _exhausted(subject: Subject, scope: Scope) -> list[Plan]:
    """Every chunking, causal and not, under every rule that looks at the length."""
    most = min(scope.length, subject.card.max_length or scope.length)
    plans = _growing(subject, smoke_plan(subject, batch=1, heads=2, head_dim=WIDTH, query_length=most, key_length=most))
    if "causal" in subject.asks and not plans[0].causal:
        plans += [plan.but(causal=True) for plan in plans]
    cut = [chunks for chunks in chunkings(most) if not subject.on_grid or sum(chunks) <= plans[0].key_length]
    return [_square(subject, plan, 0, chunks) for chunks in cut for plan in plans]


def _around(subject: Subject, plan: Plan) -> list[Plan]:
    """Steps of one token that end at T − 1, T, T + 1 and T + 2, and one of several tokens across the threshold."""
    T = _threshold(subject, plan)
    if T is None or T < 2:
        return []
    return [_square(subject, plan, 0, chunks) for chunks in ((T - 1, 1, 1, 1), (T - 1, 3), (T, 1, 1))]


def _remembering(subject: Subject, plan: Plan) -> list[Plan]:
    """Settings under which a query sees no further than a memory, as far as they can be set: one of each kind."""
    draws = getattr(subject.cls, "draws", {})
    names = [name for name in REMEMBERED if name in plan.settings or name in subject.free]
    if "memory_length" not in names:
        return []
    options = [_options(subject, plan, name, draws.get(name, (False, True))) for name in names]
    every = [{**plan.settings, **dict(zip(names, values, strict=True))} for values in product(*options)]
    hiding = [s for s in every if legal(subject.cls, s) and subject.cls(**s).hides]
    kinds = {(s.get("segment_length") is None): s for s in reversed(hiding)}
    return [plan.but(settings=s) for s in kinds.values()]


def _options(subject: Subject, plan: Plan, name: str, values: Sequence[Any]) -> Sequence[Any]:
    return values if name in subject.free else (getattr(subject.cls(**plan.settings), name),)


def _alone(subject: Subject) -> bool:
    return subject.level == "contribution" and subject.form in ("rotation", "embedding") and subject.positions == "offset"


def _chunks(draw: st.DrawFn, n: int) -> tuple[int, ...]:
    sizes: list[int] = []
    while sum(sizes) < n:
        sizes.append(draw(st.integers(1, n - sum(sizes))))
    return tuple(sizes)


LAW = Law(
    name="L3",
    title="a decode step is a row of the whole",
    slug="chunked-decode",
    why="Text is generated token by token from a cache; if a step differs from training, every model it serves gets worse.",
    statement="Rows computed in any chunks, each at its own offset, are the rows of the full forward.",
    check=check,
    plans=_plans,
    applies=sliceable,
    pinned=_pinned,
    exhausted=_exhausted,
    covers=of_chunks,
    share=0.7,
)
