"""L6: no constant per query, unless a causal softmax is declared."""

import numpy as np

from relpos.conformance.answers import answer, definition, past, prepared
from relpos.conformance.judge import bound_of, compare, demand
from relpos.conformance.laws.base import Law, first_reason
from relpos.conformance.plan import Plan
from relpos.conformance.strategies import plans
from relpos.conformance.subject import Subject
from relpos.conformance.tolerance import C


def check(subject: Subject, plan: Plan) -> float:
    """Fails where a row is off by one constant, which only a causal softmax forgives."""
    given = prepared(subject, plan)
    got = answer(subject, given)
    largest = 0.0
    for name, want in definition(subject, given).items():
        seen = past(given, want.value.shape) & np.isfinite(want.value)
        bound = bound_of(want, plan.dtype) * C[want.kind]
        moved = np.where(seen, got[name] - np.where(seen, want.value, 0.0), 0.0)
        shifted = want.value.copy()
        for row in np.ndindex(moved.shape[:-1]):
            shift, within = moved[row][seen[row]], bound[row][seen[row]]
            # Two cells agree by chance where their bounds are wide; three seldom do.
            if len(shift) > 2 and np.all(np.abs(shift) > within) and np.ptp(shift) <= 2 * within.max():
                shifted[row][seen[row]] += shift
        if not np.array_equal(shifted, want.value):
            says = "rows are moved by a constant, which is right under a causal softmax only (then: --claim softmax=causal)"
            largest = max(largest, demand(compare(shifted, want, plan.dtype), says, plan))
    return largest


def _declared(subject: Subject) -> str | None:
    return "a constant per query is free: softmax=causal is declared" if subject.card.softmax == "causal" else None


def _additive(subject: Subject) -> str | None:
    bias = subject.level == "contribution" and subject.form == "bias"
    return None if bias or subject.level == "logits" else "judged on biases and logits"


LAW = Law(
    name="L6",
    title="no constant per query",
    slug="row-constant",
    why="A softmax over the same keys hides a constant per query; without it, or merged with other terms, the constant counts.",
    statement="Rows are not moved by a constant; only a declared causal softmax makes that harmless.",
    check=check,
    plans=lambda subject: plans(subject, min_queries=2, min_keys=4, contents=("normal",), far=False),
    applies=first_reason(_additive, _declared),
    share=0.5,
)
