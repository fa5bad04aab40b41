"""L24: compiled at one length, right at another."""

from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from relpos.conformance.answers import definition, prepared
from relpos.conformance.calling import Instance
from relpos.conformance.errors import Raised, Refused
from relpos.conformance.expected import AXES
from relpos.conformance.gradients import backward, float_names, prescribed
from relpos.conformance.judge import LawFailure, bound_of, compare_within, demand
from relpos.conformance.laws.base import Law
from relpos.conformance.laws.l20_gradient import LAW as GRADIENTS
from relpos.conformance.placing import within_reach
from relpos.conformance.plan import Inputs, Plan
from relpos.conformance.precision import rounded
from relpos.conformance.smoke import smoke_plan
from relpos.conformance.subject import Subject
from relpos.conformance.tolerance import C

# Traced and lowered as for any backend, then run by PyTorch's own kernels: no compiler is needed where the judge runs.
BACKEND = "aot_eager"
SIZES = ((5, 7), (9, 11), (1, 12))  # queries and keys: traced at the first, run at all of them


def check(subject: Subject, plan: Plan) -> float:
    """The compiled implementation at every length against the plain one."""
    calls = [prepared(subject, Plan.from_json(text)) for text in plan.extra["calls"]]
    plain = Instance(subject, calls[0])
    torch._dynamo.reset()
    try:
        traced = plain.revived(torch.compile(plain.target, backend=BACKEND))
        return max(_same(subject, given, plain, traced, plan) for given in calls)
    finally:
        torch._dynamo.reset()


def _same(subject: Subject, given: Inputs, plain: Instance, traced: Instance, plan: Plan) -> float:
    want, says = definition(subject, given), f"compiled, at {len(given.query_positions)} × {len(given.key_positions)},"
    with torch.no_grad():
        whole = plain.results(given)
    got, largest = _run(lambda: traced.results(given), says, plan), 0.0
    for name, defined in want.items():
        found = compare_within(
            got[name], whole[name], 2 * bound_of(defined, plan.dtype), name=name, allowed=C[defined.kind], axes=AXES[name]
        )
        largest = max(largest, demand(found, f"{says} the {name} differs from the uncompiled one", plan))
    if GRADIENTS.applies(subject) or GRADIENTS.claimed(subject):
        return largest
    names = float_names(subject, given)
    drawn = np.random.default_rng(plan.seed)
    cotangents = {n: rounded(drawn.standard_normal(w.value.shape), plan.dtype) for n, w in want.items()}
    wanted = frozenset(names)
    back = _run(lambda: backward(traced, given, wanted, cotangents), says, plan)
    before = backward(plain, given, wanted, cotangents)
    for name, defined in prescribed(given, subject.level, names, cotangents).items():
        a, b = back[name], before[name]
        if a is None or b is None:
            if (a is None) != (b is None):
                raise LawFailure(f"{says} `{name}` gets {'no' if a is None else 'a'} gradient, unlike before", plan=plan)
            continue
        found = compare_within(a, b, 2 * bound_of(defined, plan.dtype), name=f"gradient of {name}", allowed=C["gradient"])
        largest = max(largest, demand(found, f"{says} the gradient of `{name}` differs from the uncompiled one", plan))
    return largest


def _run(call: Any, says: str, plan: Plan) -> Any:
    try:
        return call()
    except Refused:
        raise
    except Raised as error:
        text = (str(error).strip().splitlines() or [""])[0]
        raise LawFailure(f"{says} it raises {text}", plan=plan) from None


def _pinned(subject: Subject) -> list[Plan]:
    base = smoke_plan(subject, batch=1, heads=2)
    calls = [within_reach(subject, _sized(subject, base, *size)) for size in SIZES]
    return [calls[0].but(extra={"calls": tuple(call.to_json() for call in calls)})]


def _sized(subject: Subject, base: Plan, Lq: int, Lk: int) -> Plan:
    longest = subject.card.max_length or Lk
    Lq, Lk = min(Lq, longest), min(Lk, longest)
    Lq = Lk if subject.one_length else Lq
    told = base.query_positions is not None
    last = Lk - Lq if told or base.offset else 0
    queries, keys = tuple(range(last, last + Lq)), tuple(range(Lk))
    return base.but(
        query_length=Lq, key_length=Lk, offset=last,
        query_positions=queries if told else None, key_positions=keys if told else None,
    )  # fmt: skip


def _applies(subject: Subject) -> str | None:
    if subject.on_grid:
        return "compiled at one length and run at another, not at another window"
    if subject.arrays != "torch":
        return "it takes no torch tensors"
    if subject.kind in ("decoder", "score_mod", "builder"):
        return "a decoder or a score_mod is compiled by what calls it"
    return None


LAW = Law(
    name="L24",
    title="compiled is the same",
    slug="compiled",
    why="A compiled model meets other lengths than the one it was traced at; a length frozen into it gives wrong answers.",
    statement="Compiled at one length and run at others, values and gradients are those of the uncompiled implementation.",
    check=check,
    plans=lambda subject: st.sampled_from(_pinned(subject)),
    applies=_applies,
    pinned=_pinned,
    share=0.0,
    heavy=True,
)
