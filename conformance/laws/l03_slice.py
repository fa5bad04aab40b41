"""L3: a decode step is a row of the whole."""

import numpy as np
from hypothesis import strategies as st

from relpos.conformance import grids
from relpos.conformance.answers import answer, definition, prepared
from relpos.conformance.expected import AXES
from relpos.conformance.judge import bound_of, compare_within, demand
from relpos.conformance.laws.base import Law
from relpos.conformance.placing import within_reach
from relpos.conformance.plan import Inputs, Plan
from relpos.conformance.settings import bundles
from relpos.conformance.smoke import smoke_plan
from relpos.conformance.strategies import plans
from relpos.conformance.subject import Subject
from relpos.conformance.tolerance import C

QUERY_AXIS = {"bias": -2, "logits": -2, "output": -2, "rotated query": -2, "rotated key": -2, "embedding": -2, "embedded": -2}


def check(subject: Subject, plan: Plan) -> float:
    """Rows computed chunk by chunk are the rows of the full forward."""
    given = prepared(subject, plan)
    grows = getattr(given.settings, "length_dependent", False) and plan.context_length is None
    if grows and subject.kind == "decoder":
        return _at_every_length(subject, given)
    whole = _reference(subject, given)
    if subject.kind == "decoder":
        says = f"decoded in chunks of {_sizes(plan)}, rows differ from the full forward"
        return _against(answer(subject, given), whole, subject, given, says)
    largest, start = 0.0, 0
    for size in plan.extra["chunks"]:
        part = _part(subject, given, start, start + size)
        if grows:  # rows computed at length n are rows of the whole at length n
            whole = answer(subject, _part(subject, given, 0, start + size))
        rows = {name: _cut(value, name, start, start + size, _keys(subject, part, start)) for name, value in whole.items()}
        words = f"{_rows(start, size)} the whole"
        largest = max(largest, _against(answer(subject, part), rows, subject, part, words, plan))
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
        part = _part(subject, given, start, start + size)
        n = start + size
        words = f"{_rows(start, size)} the whole of {n} tokens: do keys keep the rule of a shorter context?"
        rows = {"output": definition(subject, part)["output"].value}
        here = {"output": got[..., start:n, :]}
        largest = max(largest, _against(here, rows, subject, part, words, given.plan))
        start += size
    return largest


def _part(subject: Subject, given: Inputs, start: int, stop: int) -> Inputs:
    """Queries start … stop−1 with the keys there are by then (all of them where nothing is hidden)."""
    plan, n = given.plan, len(given.query_positions)
    keys = n if subject.level == "attention" and not plan.causal and subject.positions != "contiguous" else stop
    first = start if subject.together else 0  # keys that are turned in the same call come with their own queries
    part = plan.but(
        query_length=stop - start,
        key_length=keys - first,
        offset=plan.offset + start,
        query_positions=None if plan.query_positions is None else plan.query_positions[start:stop],
        key_positions=None if plan.key_positions is None else plan.key_positions[first:keys],
        extra={},
    )
    built = prepared(subject, part)
    mask = None if given.mask is None else given.mask[:, :, start:stop, first:keys]
    return built.but(
        q=given.q[:, :, start:stop], k=given.k[:, :, first:keys], v=given.v[:, :, first:keys], params=given.params, mask=mask
    )


def _keys(subject: Subject, part: Inputs, start: int) -> slice:
    first = start if subject.together else 0
    return slice(first, first + len(part.key_positions))


def _cut(value: np.ndarray, name: str, start: int, stop: int, keys: slice) -> np.ndarray:
    if name == "rotated key":
        return value[..., keys, :]
    rows = value[..., start:stop, :]
    return rows[..., keys] if name in ("bias", "logits") else rows


def _against(
    got: dict[str, np.ndarray], rows: dict[str, np.ndarray], subject: Subject, part: Inputs, says: str, plan: Plan | None = None
) -> float:
    largest = 0.0
    for name, want in definition(subject, part).items():
        bound = 2 * bound_of(want, part.plan.dtype)
        a, b = got[name], rows[name]
        if subject.card.softmax == "causal" and name in ("bias", "logits"):
            a, b, bound = _without_constants(a, b, bound, part)
        found = compare_within(a, b, bound, name=name, allowed=C[want.kind], axes=AXES[name])
        largest = max(largest, demand(found, says, plan or part.plan))
    return largest


def _without_constants(a: np.ndarray, b: np.ndarray, bound: np.ndarray, part: Inputs):
    from relpos.conformance.answers import anchored, past

    seen = past(part, a.shape)
    return anchored(a, seen), anchored(b, seen), 2 * np.broadcast_to(bound.max(-1, keepdims=True, initial=0), bound.shape)


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
    return _square(subject, plan, draw(st.integers(0, 9)) if _alone(subject) else 0, _chunks(draw, n))


def _square(subject: Subject, plan: Plan, offset: int, chunks: tuple[int, ...]) -> Plan:
    """As many queries as keys, all contiguous, cut into chunks."""
    if subject.on_grid:
        return grids.square(plan, chunks)
    n = sum(chunks)
    start = 0 if plan.key_positions is None else plan.key_positions[0]
    explicit = plan.query_positions is not None
    plan = plan.but(
        query_length=n,
        key_length=n,
        offset=offset,
        query_positions=tuple(range(start, start + n)) if explicit else None,
        key_positions=tuple(range(start, start + n)) if explicit else None,
    )
    return within_reach(subject, plan.but(extra={"chunks": chunks}))


def _pinned(subject: Subject) -> list[Plan]:
    """A prefix, then two tokens at once, then one by one."""
    plan = smoke_plan(subject)
    if subject.positions == "contiguous" and "causal" in subject.asks:
        plan = plan.but(causal=True)
    n = min(plan.key_length, max(plan.query_length, 4))
    every = [plan.but(settings=s) for s in bundles(subject.cls, subject.free, dict(plan.settings))]
    plans = [plan, *(p for p in every if getattr(subject.cls(**p.settings), "length_dependent", False))]
    if subject.level == "attention" and "causal" in subject.asks and not plan.causal:
        plans.append(plan.but(causal=True))  # only then does a step see the keys there are by then, and no more
    return [_square(subject, p, 0, (n - 3, 2, 1)) for p in plans] if n > 3 else []


def _alone(subject: Subject) -> bool:
    return subject.level == "contribution" and subject.form in ("rotation", "embedding") and subject.positions == "offset"


def _chunks(draw: st.DrawFn, n: int) -> tuple[int, ...]:
    sizes: list[int] = []
    while sum(sizes) < n:
        sizes.append(draw(st.integers(1, n - sum(sizes))))
    return tuple(sizes)


def _applies(subject: Subject) -> str | None:
    if subject.kind == "decoder":
        return None
    if subject.positions == "contiguous" and (
        subject.card.corner != "bottom-right" or subject.form in ("rotation", "embedding")
    ):
        return "it cannot be told where its queries lie (ask for offset or query_positions)"
    if subject.positions == "contiguous" and subject.level == "attention" and not _can_be_causal(subject):
        return "without a causal mask, a corner does not say which rows a chunk holds"
    if subject.one_length and (subject.level != "contribution" or subject.form not in ("rotation", "embedding")):
        return "it takes one length for queries and keys"
    return None


def _can_be_causal(subject: Subject) -> bool:
    return "causal" in subject.asks or subject.card.softmax == "causal"


LAW = Law(
    name="L3",
    title="a decode step is a row of the whole",
    statement="Rows computed in any chunks, each at its own offset, are the rows of the full forward.",
    check=check,
    plans=_plans,
    applies=_applies,
    pinned=_pinned,
    share=0.7,
)
