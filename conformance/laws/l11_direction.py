"""L11: near and far, before and after are told apart as the scheme says."""

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from relpos.conformance.answers import answer, definition, prepared
from relpos.conformance.judge import bound_of, compare_within, demand
from relpos.conformance.laws.base import Law
from relpos.conformance.placing import within_reach
from relpos.conformance.plan import Inputs, Plan
from relpos.conformance.smoke import smoke_plan
from relpos.conformance.strategies import plans
from relpos.conformance.subject import Subject
from relpos.conformance.tolerance import C

QUESTIONS = ("value at −{d} − value at {d}", "value at 1 − value at {d}", "value at −1 − value at −{d}")
PINNED = (2, 5)  # distances
WEIGHTS = ("weights after − before", "weights near − far")


def check(subject: Subject, plan: Plan) -> float:
    """One query, keys of equal content at distances −d … d: what position alone makes of before and after, near and far."""
    given = _probe(prepared(subject, plan), subject)
    got, want = _pairs(subject, given, answer(subject, given)), definition(subject, given)
    name = next(iter(want))
    value = _pairs(subject, given, {n: e.value for n, e in want.items()})
    loose = _pairs(subject, given, {n: bound_of(e, plan.dtype) for n, e in want.items()}, bound=True)
    d = plan.extra["distance"]
    past_only = plan.causal or subject.card.softmax == "causal"
    found, expected, bound = (_asked(a, d, past_only, bound=n == 2) for n, a in enumerate((got, value, loose)))
    comparison = compare_within(found, expected, bound, name="difference", allowed=C[want[name].kind], axes=("i − j", "head"))
    with np.errstate(over="ignore"):  # −∞ stands here as the largest number
        reversed_ = np.allclose(found[0], -expected[0]) and not np.allclose(expected[0], 0) and not past_only
    says = "before and after are exchanged" if reversed_ else "before and after, or near and far, are not as the scheme says"
    asked = QUESTIONS[1:2] if past_only else QUESTIONS
    labels = tuple(q.format(d=d) for q in asked) if len(found) == len(asked) else WEIGHTS[: len(found)]
    return demand(replace(comparison, labels=labels), says, plan)


def _probe(given: Inputs, subject: Subject) -> Inputs:
    d, plan = given.plan.extra["distance"], given.plan
    q = np.broadcast_to(given.q[:, :, :1], given.q.shape).copy()
    k = np.broadcast_to(given.k[:, :, :1], given.k.shape).copy()
    v = np.zeros_like(given.v)
    if subject.level == "attention":
        # The output then holds the weight after minus the weight before, and that of near keys minus that of far ones.
        distances = np.arange(plan.key_length) - d
        after = np.sign(distances) * np.where(np.abs(distances) == 1, 2.0, 1.0)
        asked = np.stack([after, np.where(np.abs(distances) <= 1, 1.0, -1.0)])
        v[..., : len(WEIGHTS)] = asked.T[:, : v.shape[-1]]
    return given.but(q=q, k=k, v=v)


def _pairs(subject: Subject, given: Inputs, arrays: dict[str, np.ndarray], *, bound: bool = False) -> np.ndarray:
    """The query's row over its keys, [H, 2d + 1]; at attention level its output, [H, 2]."""
    d = given.plan.extra["distance"]
    row = d if given.plan.query_length > 1 else 0
    if "rotated query" in arrays:
        q, k = arrays["rotated query"][0], arrays["rotated key"][0]
        k = np.repeat(k, len(q) // len(k), axis=0)
        if not bound:
            return np.einsum("hd,hkd->hk", q[:, row], k)
        size_q, size_k = np.abs(given.q[0, :, row]), np.repeat(np.abs(given.k[0]), len(q) // len(given.k[0]), axis=0)
        across = size_q.max(-1)[:, None] * k.sum(-1) + q[:, row].sum(-1)[:, None] * size_k.max(-1)
        return across
    name = next(iter(arrays))
    array = arrays[name] if arrays[name].ndim == 3 else arrays[name][0]
    return array[:, row, : len(WEIGHTS)] if name == "output" else array[:, row]


def _asked(row: np.ndarray, d: int, past_only: bool, *, bound: bool) -> np.ndarray:
    if row.shape[-1] <= len(WEIGHTS):
        return row.T
    sign = 1.0 if bound else -1.0
    with np.errstate(invalid="ignore"):
        after = np.nan_to_num(row[:, 2 * d] + sign * row[:, 0])
        past = np.nan_to_num(row[:, d - 1] + sign * row[:, 0])
        future = np.nan_to_num(row[:, d + 1] + sign * row[:, 2 * d])
    return np.stack([past] if past_only else [after, past, future])


@st.composite
def _plans(draw: st.DrawFn, subject: Subject) -> Plan:
    d = draw(st.integers(2, 5))
    plan = draw(plans(subject, contents=("normal",), masks=("none",), causal=False, dtypes=subject.dtypes[:1], far=False))
    return _around(subject, plan, d, draw(st.integers(0, 40)) if subject.positions == "arbitrary" else 0)


def _around(subject: Subject, plan: Plan, d: int, start: int) -> Plan:
    """One query in the middle of its keys, if it can be told where it lies; otherwise as many queries as keys."""
    n = 2 * d + 1
    one = not subject.one_length and subject.positions != "contiguous"
    listed = subject.positions == "arbitrary"
    queries = (start + d,) if one else tuple(range(start, start + n))
    plan = plan.but(
        query_length=1 if one else n,
        key_length=n,
        offset=d if one and not listed else 0,
        query_positions=queries if listed else None,
        key_positions=tuple(range(start, start + n)) if listed else None,
        extra={"distance": d},
    )
    return within_reach(subject, plan)


def _pinned(subject: Subject) -> list[Plan]:
    """Keys on both sides; the causal flag would hide one of them."""
    plan = smoke_plan(subject).but(dtype=subject.dtypes[0])
    return [_around(subject, plan.but(causal=plan.causal and "causal" not in subject.asks), d, 0) for d in PINNED]


def _applies(subject: Subject) -> str | None:
    if subject.on_grid:
        return "positions have several axes, which L13 looks at one by one"
    if subject.form == "embedding":
        return "an embedding has no pairs; its attention is judged by L1"
    return "there is no position term" if subject.form == "none" else None


LAW = Law(
    name="L11",
    title="direction and sign",
    slug="direction",
    why="A distance counted the other way round trains, looks healthy, and reads every checkpoint wrongly.",
    statement="Keys before and after the query, and near and far ones, differ exactly as the scheme says.",
    check=check,
    plans=_plans,
    applies=_applies,
    pinned=_pinned,
    share=0.4,
)
