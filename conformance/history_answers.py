"""Whether an answer, or a gradient, of an instance with a past is that of a fresh one."""

from collections.abc import Iterator

import numpy as np

from relpos.conformance.answers import anchored, definition, past
from relpos.conformance.expected import AXES
from relpos.conformance.gradients import prescribed
from relpos.conformance.history_calls import Answered
from relpos.conformance.judge import Comparison, bound_of, compare_within
from relpos.conformance.plan import Inputs
from relpos.conformance.subject import Subject
from relpos.conformance.tolerance import C


def equal(got: dict[str, np.ndarray], want: dict[str, np.ndarray]) -> bool:
    """Bit for bit, as the same code on the same numbers nearly always is; then no bound needs to be computed."""
    return all(np.array_equal(got[name], want[name], equal_nan=True) for name in want)


def values(subject: Subject, given: Inputs, dtype: str, got: Answered, want: Answered) -> Iterator[Comparison]:
    """Answers within twice the bound of a dtype; up to a constant per query where only a causal softmax is promised."""
    if equal(got.values, want.values):
        return
    for name, defined in definition(subject, given).items():
        a, b, bound = got.values[name], want.values[name], 2 * bound_of(defined, dtype)
        if subject.card.softmax == "causal" and name in ("bias", "logits"):
            seen = past(given, a.shape)
            bound = 2 * np.broadcast_to(bound.max(-1, keepdims=True, initial=0), bound.shape)
            a, b = anchored(a, seen), anchored(b, seen)
        yield compare_within(a, b, bound, name=name, allowed=C[defined.kind], axes=AXES[name])


def gradients(subject: Subject, given: Inputs, got: Answered, want: Answered) -> Iterator[tuple[str, Comparison]]:
    """Gradients by input within twice their bound."""
    if equal(got.gradients, want.gradients):
        return
    for name, defined in prescribed(given, subject.level, tuple(want.gradients), got.cotangents).items():
        bound = 2 * bound_of(defined, given.plan.dtype)
        a, b = got.gradients[name], want.gradients[name]
        yield name, compare_within(a, b, bound, name=defined.name, allowed=C[defined.kind])
