"""L21: axes are not mixed up."""

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from relpos.conformance.answers import definition, prepared
from relpos.conformance.calling import Instance
from relpos.conformance.expected import AXES, Expected
from relpos.conformance.judge import bound_of, compare_within, demand
from relpos.conformance.laws.base import Law
from relpos.conformance.plan import Inputs, Plan
from relpos.conformance.precision import rounded
from relpos.conformance.smoke import smoke_plan
from relpos.conformance.strategies import plans
from relpos.conformance.subject import Subject
from relpos.conformance.tolerance import C
from relpos.spec.positions import Explicit, Positions


def check(subject: Subject, plan: Plan) -> float:
    """Reordering samples or like heads reorders the result; changing one sample or head leaves the others alone."""
    given = prepared(subject, plan)
    instance = Instance(subject, given)
    view = _View(instance, given, instance.results(given), definition(subject, given))
    largest = 0.0
    for axis, word in ((0, "sample"), (1, "head")):
        own = plan.kv_heads in (None, plan.heads)  # every query head has a key head of its own
        if axis == 0 or (own and _heads_alike(subject, plan)):
            largest = max(largest, _reordered(view, axis, word))
        if axis == 0 or own:
            largest = max(largest, _apart(view, axis, word))
    return largest


@dataclass(frozen=True)
class _View:
    """One call and what the definition says of it."""

    instance: Instance
    given: Inputs
    got: dict[str, np.ndarray]
    want: dict[str, Expected]


def _reordered(view: _View, axis: int, word: str) -> float:
    given = view.given
    turn = lambda a: np.roll(a, 1, axis=axis)  # noqa: E731
    mask = given.mask if given.mask is None or given.mask.shape[axis] == 1 else turn(given.mask)
    changed = given.but(q=turn(given.q), k=turn(given.k), v=turn(given.v), mask=mask)
    if axis == 0:
        changed = changed.but(query_positions=_turned(given.query_positions), key_positions=_turned(given.key_positions))
    return _compared(view, changed, axis, turn, f"reordering the {word}s does more than reorder the result")


def _apart(view: _View, axis: int, word: str) -> float:
    """The first sample or head gets other content; the rest of the result must stay."""
    given = view.given
    if given.q.shape[axis] < 2:
        return 0.0
    first = (slice(0, 1),) if axis == 0 else (slice(None), slice(0, 1))
    fresh = {}
    for name in ("q", "k", "v"):
        changed = getattr(given, name).copy()
        changed[first] = changed[first][..., ::-1, ::-1] + 1.0
        fresh[name] = rounded(changed, given.plan.dtype)
    rest = lambda a: np.delete(a, 0, axis=axis)  # noqa: E731
    return _compared(view, given.but(**fresh), axis, rest, f"changing one {word} changes the others", both=True)


def _compared(view: _View, changed: Inputs, axis: int, look, says: str, *, both: bool = False) -> float:
    found, largest, dtype = view.instance.results(changed), 0.0, view.given.plan.dtype
    for name, value in view.got.items():
        if "batch" not in AXES[name] or (axis == 1 and "head" not in AXES[name]):
            continue
        bound, want = look(2 * bound_of(view.want[name], dtype)), view.want[name]
        after = look(found[name]) if both else found[name]
        comparison = compare_within(after, look(value), bound, name=name, allowed=C[want.kind], axes=AXES[name])
        largest = max(largest, demand(comparison, says, view.given.plan))
    return largest


def _turned(positions: Positions) -> Positions:
    if not positions.per_sample:
        return positions
    turned = Explicit(np.roll(positions.array(), 1, axis=0), axes=positions.axes)
    lengths = [positions.row(b).context_length or -1 for b in range(len(positions.array()))]
    return turned if -1 in lengths else turned.in_context(np.roll(lengths, 1))


def _heads_alike(subject: Subject, plan: Plan) -> bool:
    return "num_heads" not in plan.settings and subject.form != "bias"


def _applies(subject: Subject) -> str | None:
    return (
        "a bias has neither samples nor content"
        if subject.level == "contribution" and subject.form == "bias"
        else _embeds(subject)
    )


def _embeds(subject: Subject) -> str | None:
    alone = subject.form == "embedding" and subject.level == "contribution" and "x" not in subject.called_with.ours
    return "an embedding has one axis only" if alone else None


@st.composite
def _plans(draw: st.DrawFn, subject: Subject) -> Plan:
    return draw(plans(subject, contents=("normal",), min_batch=2))


LAW = Law(
    name="L21",
    title="axes are not mixed up",
    slug="mixed-axes",
    why="Two axes that are mixed up go unnoticed whenever their sizes are equal, as they often are in tests.",
    statement="Samples and heads do not touch each other, and reordering those that are alike reorders the result.",
    check=check,
    plans=_plans,
    applies=_applies,
    pinned=lambda subject: [smoke_plan(subject)],
    share=0.4,
)
