"""Two answers of one implementation to the same question, held against each other."""

import numpy as np

from relpos.conformance.answers import anchored, definition, past, silenced, undeclared
from relpos.conformance.expected import AXES, Expected
from relpos.conformance.judge import bound_of, compare_within, demand
from relpos.conformance.plan import Inputs, Plan
from relpos.conformance.subject import Subject
from relpos.conformance.tolerance import C

Answers = dict[str, np.ndarray]


def agree(
    got: Answers,
    want: Answers,
    subject: Subject,
    given: Inputs,
    says: str,
    plan: Plan | None = None,
    *,
    told: bool = False,
    padding: np.ndarray | None = None,
) -> float:
    """Largest error in units of 2 · bound at these inputs; raises LawFailure with `says` where the two differ.

    plan    what the failure repeats; None: that of the inputs
    told    the failure says which of the two the definition agrees with
    padding queries whose outputs have no declared value, [B, Lq]; None: those that the inputs show
    """
    padding = undeclared(subject, given) if padding is None else padding
    got, want = silenced(got, padding), silenced(want, padding)
    largest, prescribed = 0.0, definition(subject, given, padding=padding)
    for name, one in prescribed.items():
        bound = 2 * bound_of(one, given.plan.dtype)
        a, b = got[name], want[name]
        if subject.card.softmax == "causal" and name in ("bias", "logits"):
            a, b, bound = _without_constants(a, b, bound, given)
        found = compare_within(a, b, bound, name=name, allowed=C[one.kind], axes=AXES[name])
        said = says + _sided(got[name], want[name], one, given) if told and not found.ok else says
        largest = max(largest, demand(found, said, plan or given.plan))
    return largest


def _without_constants(a: np.ndarray, b: np.ndarray, bound: np.ndarray, given: Inputs):
    seen = past(given, a.shape)
    return anchored(a, seen), anchored(b, seen), 2 * np.broadcast_to(bound.max(-1, keepdims=True, initial=0), bound.shape)


def _sided(got: np.ndarray, want: np.ndarray, one: Expected, given: Inputs) -> str:
    """Who is right, where exactly one of the two is."""
    bound = bound_of(one, given.plan.dtype)
    right = [compare_within(x, one.value, bound, name=one.name, allowed=C[one.kind]).ok for x in (got, want)]
    return {(False, True): "; the latter is right", (True, False): "; the former is right"}.get((right[0], right[1]), "")
