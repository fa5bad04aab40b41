"""L4: nothing is remembered that should not be."""

from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from relpos.conformance.answers import definition, prepared, repeated_answer
from relpos.conformance.calling import Instance
from relpos.conformance.judge import LawFailure, demand
from relpos.conformance.laws.base import Law
from relpos.conformance.loading import reload
from relpos.conformance.placing import moved, within_reach
from relpos.conformance.plan import Inputs, Plan
from relpos.conformance.reading import to_numpy
from relpos.conformance.smoke import smoke_plan
from relpos.conformance.strategies import plans
from relpos.conformance.subject import Subject

LONG = 300  # beyond 256, bfloat16 cannot count
SCRIBBLE = 3.0  # written over whatever was returned; any value that no answer has would do


def check(subject: Subject, plan: Plan) -> float:
    """One instance called in a drawn order answers every time as a fresh one does, and as it did before."""
    calls = [prepared(subject, plan)] + [prepared(subject, Plan.from_json(text)) for text in plan.extra["calls"]]
    instance = Instance(subject, calls[0])
    answers = [_called(instance, given, plan) for given in calls]
    largest = 0.0
    for number, given in enumerate(calls):
        again = _called(instance, given, plan)
        words = f"call {number + 1} of {len(calls)}, repeated after the others and after its result was overwritten, changes"
        largest = max(largest, _same(subject, given, again, answers[number], words, plan))
        fresh = _fresh(subject, given)
        if fresh is not None:
            words = f"call {number + 1} of {len(calls)} differs from the same call on a fresh instance"
            largest = max(largest, _same(subject, given, answers[number], fresh, words, plan))
    return largest


def _called(instance: Instance, given: Inputs, plan: Plan) -> dict[str, np.ndarray]:
    """One call; its inputs must be left alone, and what it returned is then overwritten."""
    with torch.no_grad():
        raw, leaves = instance.tensors(given)
        found = {name: to_numpy(value) for name, value in raw.items()}
        _unchanged(instance.subject, given, leaves, plan)
        for value in raw.values():
            _overwrite(value)
    if instance.disturbed:
        raise LawFailure(f"the call changes {' and '.join(sorted(instance.disturbed))} for the whole process", plan=plan)
    return found


def _unchanged(subject: Subject, given: Inputs, leaves: dict[str, Any], plan: Plan) -> None:
    for name, before in _originals(subject, given).items():
        after = leaves.get(name)
        if after is None or (name in given.params and subject.owns_parameters):
            continue
        after = to_numpy(after) if isinstance(after, torch.Tensor) else np.asarray(after, dtype=np.float64)
        if after.shape != before.shape or not np.array_equal(after, before, equal_nan=True):
            raise LawFailure(f"the call changes its input `{name}` in place", plan=plan)


def _originals(subject: Subject, given: Inputs) -> dict[str, np.ndarray]:
    swap = (lambda a: a.swapaxes(1, 2)) if subject.card.layout == "blhd" else (lambda a: a)
    found = {"q": swap(given.q), "k": swap(given.k), "v": swap(given.v), **given.params}
    found |= {"x of the query": swap(given.q), "x of the key": swap(given.k), "x": given.q[:, 0]}
    return found


def _overwrite(value: torch.Tensor) -> None:
    try:
        value.fill_(SCRIBBLE)
    except RuntimeError:
        return  # several elements share one place (an expanded view): it cannot be written to


def _fresh(subject: Subject, given: Inputs) -> dict[str, np.ndarray] | None:
    if subject.built_with is not None:
        return Instance(subject, given).results(given)
    again = reload(subject.spec, subject.target) if subject.kind == "function" else None
    return None if again is None else Instance(subject.but(target=again), given).results(given)


def _same(subject: Subject, given: Inputs, got: dict, want: dict, says: str, plan: Plan) -> float:
    largest = 0.0
    for name, defined in definition(subject, given).items():
        largest = max(largest, demand(repeated_answer(subject, given, defined, got[name], want[name]), says, plan))
    return largest


@st.composite
def _plans(draw: st.DrawFn, subject: Subject) -> Plan:
    first = draw(plans(subject, contents=("normal",)))
    calls = []
    for _ in range(draw(st.integers(1, 3))):
        kinds = ("elsewhere", "other", "trained") if subject.owns_parameters else ("elsewhere", "other")
        kind = draw(st.sampled_from(kinds))
        # On several axes positions lie inside a window that the settings say, so other positions need the same settings.
        alike = subject.but(given={**subject.given, **first.settings}) if subject.on_grid else subject
        other = draw(plans(alike, contents=("normal",))) if kind == "other" else _elsewhere(draw, subject, first)
        other = first.but(seed=first.seed + 1) if kind == "trained" else other  # the same call with other parameters
        same = {n: getattr(first, n) for n in ("settings", "heads", "kv_heads", "head_dim")}
        calls.append(within_reach(subject.but(given={**subject.given, **first.settings}), other.but(**same)).to_json())
    return first.but(extra={"calls": tuple(calls)})


def _elsewhere(draw: st.DrawFn, subject: Subject, first: Plan) -> Plan:
    """The same sizes at other positions: what was kept by size alone is then stale."""
    step = draw(st.integers(1, 3))
    if first.query_positions is not None and first.key_positions is not None:
        along = step if subject.one_length or subject.on_grid else draw(st.integers(0, 3))
        return first.but(query_positions=moved(first.query_positions, step), key_positions=moved(first.key_positions, along))
    if subject.positions != "offset":
        return first
    if subject.level == "contribution" and subject.form in ("rotation", "embedding"):
        return first.but(offset=first.offset + step)
    return first.but(offset=max(first.key_length - first.query_length - step, 0))


def _pinned(subject: Subject) -> list[Plan]:
    return [*_retrained(subject), *_coarse_first(subject)]


def _retrained(subject: Subject) -> list[Plan]:
    """The same call again after everything else in it changed: content, and parameters that a module owns."""
    plan = smoke_plan(subject)
    return [plan.but(extra={"calls": (plan.but(seed=plan.seed + 1).to_json(),)})]


def _coarse_first(subject: Subject) -> list[Plan]:
    """A long call in the coarsest dtype, then a short one in float32: a table kept from the first would show."""
    coarse = next((d for d in ("bfloat16", "float16") if d in subject.dtypes), None)
    if coarse is None or "float32" not in subject.dtypes or subject.level != "contribution" or subject.form == "bias":
        return []
    short = smoke_plan(subject, batch=1, heads=2).but(dtype="float32")
    n = min(LONG, subject.card.max_length or LONG)
    rows = None if short.query_positions is None else tuple(range(n))
    first = short.but(query_length=n, key_length=n, query_positions=rows, key_positions=rows, offset=0, dtype=coarse)
    return [first.but(extra={"calls": (short.to_json(),)})]


def _applies(subject: Subject) -> str | None:
    if subject.kind in ("decoder", "score_mod"):
        return "a decoder is fresh for every sequence; a score_mod keeps nothing"
    return None


LAW = Law(
    name="L4",
    title="nothing is remembered",
    slug="history",
    why="A server calls one instance at many lengths; what an earlier call left behind must not change a later answer.",
    statement="Calls in any order, size, offset and dtype give what a fresh instance gives; inputs are never changed.",
    check=check,
    plans=_plans,
    applies=_applies,
    pinned=_pinned,
    share=0.4,
)
