"""L14: a rotation is a group that keeps lengths."""

import numpy as np
from hypothesis import strategies as st

from relpos.conformance.answers import answer, definition, prepared
from relpos.conformance.expected import AXES
from relpos.conformance.judge import LawFailure, bound_of, compare_within, demand
from relpos.conformance.laws.base import Law
from relpos.conformance.plan import Inputs, Plan
from relpos.conformance.smoke import smoke_plan
from relpos.conformance.strategies import plans
from relpos.conformance.subject import Subject
from relpos.conformance.tolerance import C

QUERY = "rotated query"


def check(subject: Subject, plan: Plan) -> float:
    """Untouched columns, lengths, position 0, turning twice, and the two pair layouts."""
    given = prepared(subject, plan)
    got, want = answer(subject, given)[QUERY], definition(subject, given)[QUERY]
    bound = bound_of(want, plan.dtype)
    _untouched(got, given)
    largest = _lengths(got, given, bound)
    largest = max(largest, _origin(subject, given, got, bound), _twice(subject, given))
    return max(largest, _layouts(subject, given, got, bound))


def _untouched(got: np.ndarray, given: Inputs) -> None:
    paired = {column for pair in given.settings.pairs() for column in pair}
    others = [column for column in range(given.q.shape[-1]) if column not in paired]
    if not np.array_equal(got[..., others], given.q[..., others]):
        where = f"columns from {others[0]} on" if others == list(range(others[0], given.q.shape[-1])) else f"columns {others}"
        raise LawFailure(f"{where}, beyond the rotary width, are changed", plan=given.plan)


def _gains(given: Inputs) -> np.ndarray:
    """What every column is multiplied by besides being turned, [B, 1, L, D]: that of its pair."""
    s, columns = given.settings, np.ones((len(given.q), 1, *given.q.shape[2:]))
    for b in range(len(columns)):
        found = s.gains(given.query_positions.row(b), "query")
        for m, pair in enumerate(s.pairs()):
            columns[b, 0, :, list(pair)] = found[:, m]
    return columns


def _lengths(got: np.ndarray, given: Inputs, bound: np.ndarray) -> float:
    """Of every pair of columns, so that an error in one pair cannot hide behind another."""
    largest, gains = 0.0, _gains(given)
    for a, b in given.settings.pairs():
        found, value = np.hypot(got[..., a], got[..., b]), np.hypot(given.q[..., a], given.q[..., b]) * gains[..., a]
        loose = bound[..., a] + bound[..., b]
        comparison = compare_within(
            found, value, loose, name=f"length of pair ({a}, {b})", allowed=C["rotated"], axes=AXES[QUERY][:3]
        )
        kept = "kept" if (gains == 1).all() else f"multiplied by {gains[comparison.worst[0], 0, comparison.worst[2], a]:.4g}"
        says = f"the length of columns {a} and {b}, which are a pair, is not {kept}"
        largest = max(largest, demand(comparison, says, given.plan))
    return largest


def _origin(subject: Subject, given: Inputs, got: np.ndarray, bound: np.ndarray) -> float:
    at_zero = [a for a, p in enumerate(given.query_positions.row(0)) if p == 0]
    if not at_zero:
        return 0.0
    comparison = compare_within(
        got[..., at_zero, :],
        (given.q * _gains(given))[..., at_zero, :],
        bound[..., at_zero, :],
        name=QUERY,
        allowed=C["rotated"],
        axes=AXES[QUERY],
    )
    return demand(comparison, "position 0 is turned", given.plan)


def _twice(subject: Subject, given: Inputs) -> float:
    """R(p)·R(p)·x = R(2p)·x, with the same x at every position and their gains taken out."""
    if getattr(given.settings, "length_dependent", False):
        if not subject.told_length:
            return 0.0
        last = 2 * max(given.query_positions.row(0)) + 1
        given = prepared(subject, given.plan.but(context_length=max(last, given.plan.context_length or 0)))
    plan, n = given.plan, given.q.shape[2]
    x = np.broadcast_to(given.q[:, :, :1], given.q.shape).copy()
    once = answer(subject, given.but(q=x))[QUERY]
    twice = answer(subject, given.but(q=once))[QUERY]
    if subject.positions == "contiguous":
        rows, doubled, there = np.arange((n + 1) // 2), 2 * np.arange((n + 1) // 2), given.but(q=x)
        whole = once
    else:
        positions = tuple(2 * p for p in given.query_positions.row(0))
        start, length = min(positions), max(positions) - min(positions) + 1
        explicit = subject.positions == "arbitrary"
        moved = plan.but(
            offset=start,
            query_length=n if explicit else length,
            query_positions=positions if explicit else None,
        )
        if subject.together:
            moved = moved.but(key_length=moved.query_length, key_positions=moved.query_positions)
        there = prepared(subject, moved)
        there = there.but(q=np.broadcast_to(given.q[:, :, :1], there.q.shape).copy())
        whole, rows = answer(subject, there)[QUERY], np.arange(n)
        doubled = rows if explicit else np.array(positions) - start
    once_gain, whole_gain = _gains(given)[..., rows, :], _gains(there)[..., doubled, :]
    bound = 2 * bound_of(definition(subject, there)[QUERY], plan.dtype)[..., doubled, :] / whole_gain
    # Turning mixes the two columns of a pair, so each owes the error of both.
    spread = bound.max(axis=-1, keepdims=True) * np.ones_like(bound)
    comparison = compare_within(
        twice[..., rows, :] / once_gain**2,
        whole[..., doubled, :] / whole_gain,
        spread,
        name=QUERY,
        allowed=C["rotated"],
        axes=AXES[QUERY],
    )
    return demand(comparison, "turning twice by p is not turning once by 2p", plan)


def _layouts(subject: Subject, given: Inputs, got: np.ndarray, bound: np.ndarray) -> float:
    """The other layout gives the same rotation once the columns are reordered."""
    if "layout" not in subject.free:
        return 0.0
    s, plan = given.settings, given.plan
    other = "half" if s.layout == "interleaved" else "interleaved"
    there = prepared(subject, plan.but(settings={**plan.settings, "layout": other}))
    here_columns = [c for pair in s.pairs() for c in pair]
    there_columns = [c for pair in there.settings.pairs() for c in pair]
    x = given.q.copy()
    x[..., there_columns] = given.q[..., here_columns]
    turned = answer(subject, there.but(q=x, k=given.k))[QUERY]
    comparison = compare_within(
        turned[..., there_columns],
        got[..., here_columns],
        2 * bound[..., here_columns],
        name=QUERY,
        allowed=C["rotated"],
        axes=AXES[QUERY],
    )
    return demand(comparison, f"layout {other!r} is not {s.layout!r} with the columns reordered", plan)


def _applies(subject: Subject) -> str | None:
    rotation = subject.form == "rotation" and subject.level == "contribution"
    return None if rotation else "judged on rotations"


@st.composite
def _plans(draw: st.DrawFn, subject: Subject) -> Plan:
    return draw(
        plans(subject, min_queries=3, contents=("normal", "one_hot"), dtypes=subject.dtypes[:1], far=False, listed=False)
    )


LAW = Law(
    name="L14",
    title="a rotation keeps lengths and composes",
    slug="rotation",
    why="A rotation that stretches, or pairs other columns, changes every score of a checkpoint and raises no error.",
    statement="R(0) = 1, R(p)R(p) = R(2p), pairs keep their length (times a named gain), layouts agree, other columns stay.",
    check=check,
    plans=_plans,
    applies=_applies,
    pinned=lambda subject: [smoke_plan(subject)],
    share=0.4,
)
