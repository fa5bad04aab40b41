"""L21: axes are not mixed up."""

import numpy as np
from hypothesis import strategies as st

from relpos.conformance.answers import bound_of, definition, prepared
from relpos.conformance.calling import Instance
from relpos.conformance.expected import AXES
from relpos.conformance.judge import compare_within, demand
from relpos.conformance.laws.base import Law
from relpos.conformance.plan import Plan
from relpos.conformance.strategies import plans
from relpos.conformance.subject import Subject
from relpos.conformance.tolerance import C
from relpos.spec.positions import Explicit, Positions


def check(subject: Subject, plan: Plan) -> float:
    """Reordering the samples, or the heads where they are alike, reorders the result and nothing else."""
    given = prepared(subject, plan)
    instance = Instance(subject, given)
    got, want = instance.results(given), definition(subject, given)
    largest = 0.0
    for axis, word in ((0, "samples"), (1, "heads")):
        if axis == 1 and not _heads_alike(subject, plan):
            continue
        turn = lambda a, axis=axis: np.roll(a, 1, axis=axis)  # noqa: E731
        mask = given.mask if given.mask is None or given.mask.shape[axis] == 1 else turn(given.mask)
        moved = given.but(q=turn(given.q), k=turn(given.k), v=turn(given.v), mask=mask)
        if axis == 0:
            moved = moved.but(query_positions=_turned(given.query_positions), key_positions=_turned(given.key_positions))
        found = instance.results(moved)
        for name, value in got.items():
            if "batch" not in AXES[name] or (axis == 1 and "head" not in AXES[name]):
                continue
            bound = 2 * bound_of(want[name], plan.dtype)
            comparison = compare_within(found[name], turn(value), turn(bound), name=name, allowed=C[want[name].kind], axes=AXES[name])
            largest = max(largest, demand(comparison, f"reordering the {word} does more than reorder the result", plan))
    return largest


def _turned(positions: Positions) -> Positions:
    rows = positions.array()
    return Explicit(np.roll(rows, 1, axis=0)) if rows.ndim > 1 else positions


def _heads_alike(subject: Subject, plan: Plan) -> bool:
    shared = plan.kv_heads in (None, plan.heads)
    return shared and "num_heads" not in plan.settings and not subject.form == "bias"


def _applies(subject: Subject) -> str | None:
    return "a bias has neither samples nor content" if subject.level == "contribution" and subject.form == "bias" else _embeds(subject)


def _embeds(subject: Subject) -> str | None:
    alone = subject.form == "embedding" and subject.level == "contribution" and "x" not in subject.called_with.ours
    return "an embedding has one axis only" if alone else None


@st.composite
def _plans(draw: st.DrawFn, subject: Subject) -> Plan:
    return draw(plans(subject, contents=("normal",), min_batch=2))


LAW = Law(
    name="L21",
    title="axes are not mixed up",
    statement="Reordering the samples, or heads that are alike, reorders the result and changes nothing else.",
    check=check,
    plans=_plans,
    applies=_applies,
    share=0.4,
)
