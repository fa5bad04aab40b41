"""L2: depends on i − j only."""

from math import sqrt
from typing import Any

import numpy as np
from hypothesis import strategies as st

from relpos.conformance import grids
from relpos.conformance.answers import answer, definition, past, prepared
from relpos.conformance.expected import AXES, Expected
from relpos.conformance.judge import bound_of, compare_within, demand
from relpos.conformance.laws.base import Law, settings_of
from relpos.conformance.magnitude import logits_size
from relpos.conformance.placing import flat, within_reach
from relpos.conformance.plan import Inputs, Plan
from relpos.conformance.settings import sized
from relpos.conformance.smoke import smoke_plan
from relpos.conformance.strategies import plans
from relpos.conformance.subject import Subject
from relpos.conformance.tolerance import C, units

SHIFT = 7  # positions
SAYS = "two pairs at the same distance get different values"


def check(subject: Subject, plan: Plan) -> float:
    """Pairs at one distance have one value; at attention level a shift of all positions changes nothing."""
    settings = settings_of(subject, plan)
    claims = settings.claims
    if getattr(settings, "length_dependent", False):
        held = _held(subject, plan)
        if held is None:
            return 0.0
        plan = held
    if not claims & {"relative", "row_relative", "relative_dot"}:
        return 0.0
    given = prepared(subject, plan)
    if subject.level == "attention":
        return _shifted(subject, given)
    return _same_along_diagonals(subject, _constant(given), rows_free="row_relative" in claims)


def _held(subject: Subject, plan: Plan) -> Plan | None:
    """The plan in a context of a stated length, which a shift must not change; None if that cannot be told."""
    if not subject.told_length:
        alone = subject.level == "contribution" and not subject.together
        return None if alone or subject.level == "attention" else plan
    last = max((plan.offset + plan.query_length, plan.key_length, *(flat(plan.query_positions)), *(flat(plan.key_positions))))
    return plan.but(context_length=max(last + 1 + plan.extra.get("shift", 0), plan.context_length or 0))


def _shifted(subject: Subject, given: Inputs) -> float:
    plan = given.plan
    elsewhere = plan.but(
        query_positions=grids.shifted(plan.query_positions, plan.extra),
        key_positions=grids.shifted(plan.key_positions, plan.extra),
        extra={},
    )
    there = prepared(subject, elsewhere)
    here_want, there_want = definition(subject, given)["output"], definition(subject, there)["output"]
    bound = bound_of(here_want, plan.dtype) + bound_of(there_want, plan.dtype)
    found = compare_within(
        answer(subject, there)["output"],
        answer(subject, given)["output"],
        bound,
        name="output",
        allowed=C["output"],
        axes=AXES["output"],
    )
    along = f" along axis {plan.extra['axis']}" if "axis" in plan.extra else ""
    return demand(found, f"moving every position by {plan.extra['shift']}{along} changes the output", plan)


def _same_along_diagonals(subject: Subject, given: Inputs, *, rows_free: bool) -> float:
    values, bound, kind = _table(subject, given)
    rows_free = rows_free or subject.card.softmax == "causal"
    seen = past(given, values.shape).copy() if rows_free else np.ones(values.shape, dtype=bool)
    queries, keys = list(given.query_positions.row(0)), list(given.key_positions.row(0))
    first: dict[Any, tuple[int, int]] = {}
    reference, loose = values.copy(), bound.copy()
    if rows_free:
        values, reference, bound = _from_own_key(values, bound, queries, keys, seen)
        loose = bound.copy()
    for a, i in enumerate(queries):
        for b, j in enumerate(keys):
            if not seen[..., a, b].all():
                reference[..., a, b] = values[..., a, b]
                continue
            c, d = first.setdefault(grids.apart(i, j), (a, b))
            reference[..., a, b] = values[..., c, d]
            loose[..., a, b] = bound[..., a, b] + bound[..., c, d]
    axes = ("head", "query", "key") if values.ndim == 3 else ("batch", "head", "query", "key")
    return demand(compare_within(values, reference, loose, name=kind, allowed=C[kind], axes=axes), SAYS, given.plan)


def _from_own_key(values, bound, queries: list[int], keys: list[int], seen: np.ndarray):
    """Rows measured from the key at the query's own position, which frees them of a constant; rows without one are left out."""
    out, loose = np.zeros_like(values), np.ones_like(bound)
    for a, i in enumerate(queries):
        if i not in keys:
            seen[..., a, :] = False
            continue
        own = keys.index(i)
        with np.errstate(invalid="ignore"):
            out[..., a, :] = values[..., a, :] - values[..., a, own : own + 1]
        loose[..., a, :] = bound[..., a, :].max(axis=-1, keepdims=True) * 2
    out[~seen] = 0.0
    return out, out.copy(), loose


def _table(subject: Subject, given: Inputs) -> tuple[np.ndarray, np.ndarray, str]:
    """One value for each pair of positions: bias, logits, or dot products of what was rotated or encoded."""
    got, want, dtype = answer(subject, given), definition(subject, given), given.plan.dtype
    if subject.form == "rotation" and subject.level == "contribution":
        q, k = got["rotated query"], got["rotated key"]
        size = logits_size(given.settings, given.params, given.q, given.k, given.query_positions, given.key_positions, 1.0)
        repeats = q.shape[1] // k.shape[1]
        dots = q @ np.repeat(k, repeats, axis=1).swapaxes(-1, -2)
        return dots, bound_of(Expected("dot product", "rotated", dots, size), dtype), "rotated"
    if subject.form == "embedding" and subject.level == "contribution":
        name = next(iter(got))
        e, bound = got[name].reshape(-1, *got[name].shape[-2:])[0], bound_of(want[name], dtype)
        bound = bound.reshape(-1, *bound.shape[-2:])[0]
        size = np.abs(e)
        loose = bound @ size.T + size @ bound.T + size @ size.T * units("float64").u
        return (e @ e.T)[None], loose[None], "embedding"
    name = next(iter(got))
    return got[name], bound_of(want[name], dtype), want[name].kind


def _constant(given: Inputs) -> Inputs:
    """The same content at every position, so that only position can make a difference."""
    q = np.broadcast_to(given.q[:, :, :1], given.q.shape).copy()
    k = np.broadcast_to(given.k[:, :, :1], given.k.shape).copy()
    if given.settings.form == "embedding":
        q = np.zeros_like(q)
    keys = given.key_positions if given.settings.form != "embedding" else given.query_positions
    return given.but(q=q / sqrt(q.shape[-1]), k=k, key_positions=keys)


@st.composite
def _plans(draw: st.DrawFn, subject: Subject) -> Plan:
    plan = draw(plans(subject, min_queries=2, min_keys=2, contents=("normal", "one_hot"), listed=subject.level == "attention"))
    if subject.level == "attention":
        extra = {"shift": draw(st.integers(1, 64))}
        if subject.on_grid:
            extra["axis"] = draw(st.integers(0, settings_of(subject, plan).axes - 1))
        plan = plan.but(extra=extra)
    return within_reach(subject, plan)


def _pinned(subject: Subject) -> list[Plan]:
    """Keys behind, before and far before every query: shortcuts for causal use go wrong beyond the next key."""
    plan = smoke_plan(subject)
    if subject.level == "attention":
        axes = range(settings_of(subject, plan).axes) if subject.on_grid else (None,)
        found = [plan.but(extra={"shift": SHIFT} | ({} if axis is None else {"axis": axis})) for axis in axes]
    else:
        found = [plan]
    if plan.query_positions is not None and not subject.on_grid and not subject.one_length:
        first = tuple(range(plan.query_length - 1))
        keys = tuple(range(plan.key_length + 1))
        found += [
            p.but(query_length=len(first), key_length=len(keys), query_positions=first, key_positions=keys) for p in found
        ]
    return [within_reach(subject, p) for p in found]


def _applies(subject: Subject) -> str | None:
    relative = (
        {"relative", "row_relative"} if subject.form != "embedding" or subject.level != "contribution" else {"relative_dot"}
    )
    sample = subject.cls(**sized(subject.cls, subject.fixed))
    if not sample.claims & relative:
        return "the scheme is not relative at this level"
    if subject.level == "attention" and subject.positions != "arbitrary":
        return "needs explicit positions at attention level"
    return None


LAW = Law(
    name="L2",
    title="depends on i − j only",
    slug="shift",
    why="A relative scheme that also looks at absolute places differs after a prompt, in a shard and in a packed batch.",
    statement="The value of a pair of positions depends on their difference alone.",
    check=check,
    plans=_plans,
    applies=_applies,
    pinned=_pinned,
)
