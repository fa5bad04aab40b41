"""L24: compiled or exported at one length, right at another; mapped over samples, right for each."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from relpos.conformance import tracing
from relpos.conformance.answers import definition, prepared
from relpos.conformance.calling import Instance
from relpos.conformance.compilers import backend, cpp_compiler
from relpos.conformance.errors import Raised, Refused
from relpos.conformance.expected import AXES
from relpos.conformance.gradients import backward, float_names, prescribed
from relpos.conformance.judge import LawFailure, bound_of, compare_within, demand
from relpos.conformance.laws.base import Law
from relpos.conformance.laws.l20_gradient import LAW as GRADIENTS
from relpos.conformance.placing import within_reach
from relpos.conformance.plan import Inputs, Plan
from relpos.conformance.precision import rounded
from relpos.conformance.reading import to_numpy
from relpos.conformance.settings import legal
from relpos.conformance.smaller import narrow
from relpos.conformance.smoke import smoke_plan
from relpos.conformance.subject import Subject
from relpos.conformance.tolerance import C

# Traced and lowered as for any backend, then run by PyTorch's own kernels: no compiler is needed where the judge runs.
BACKEND = "aot_eager"
SIZES = ((5, 7), (9, 11), (1, 12))  # queries and keys: traced at the first, run at all of them
# What is exported is fixed at sizes 0 and 1 unless it was traced there.
EXPORT_SIZES = ((5, 7), (9, 11), (3, 13))
SMALL_SIZES = (((1, 2), (2, 3)), ((2, 3), (3, 4)), EXPORT_SIZES[:2])  # tried in place of those that fail
REACHES = ("max_distance", "memory_length", "clamp_len")  # settings that say how far a table or a memory reaches
MAPPED = 2  # samples
Traced = Callable[[Instance, list[Inputs], Plan], list[Instance]]


def check(subject: Subject, plan: Plan) -> float:
    """The transformed implementation on every input against the plain one."""
    calls = [prepared(subject, Plan.from_json(text)) for text in plan.extra["calls"]]
    plain = Instance(subject, calls[0])
    torch._dynamo.reset()
    try:
        return _everywhere(subject, calls, plain, plan)
    finally:
        torch._dynamo.reset()


def _everywhere(subject: Subject, calls: list[Inputs], plain: Instance, plan: Plan) -> float:
    made, says, claim = WAYS[how := plan.extra.get("how", "compiled")]
    owed, largest = claim is None or bool(getattr(subject.card, claim)), 0.0
    plain.results(calls[0])
    plain = plain.revived(plain.target)  # learned tensors that a module owns are written once, and then left alone
    if subject.owns_parameters:
        calls = [given.but(params=calls[0].params) for given in calls]
    try:
        traced = made(plain, calls, plan)
    except tracing.Declined as declined:
        if owed:
            raise LawFailure(f"{says.split(',')[0]}, it is declined: {declined}", plan=plan) from None
        raise Refused(f"{how}: {declined}") from None
    for n, given in enumerate(calls):
        told = says.format(n=n, Lq=len(given.query_positions), Lk=len(given.key_positions))
        try:
            largest = max(largest, _same(subject, given, (plain, traced[n]), told, plan))
        except Raised as error:
            if owed and not (how == "dynamic" and tracing.own(error)):
                text = (str(error).strip().splitlines() or [""])[0]
                raise LawFailure(f"{told} it raises {text}", plan=plan) from None
            raise Refused(f"{how}: {error}") from None
    return largest


def _compiled(plain: Instance, calls: list[Inputs], plan: Plan) -> list[Instance]:
    return [tracing.compiled(plain, plan.extra.get("backend", BACKEND))] * len(calls)


def _dynamic(plain: Instance, calls: list[Inputs], plan: Plan) -> list[Instance]:
    return [tracing.compiled(plain, plan.extra.get("backend", BACKEND), dynamic=True)] * len(calls)


def _exported(plain: Instance, calls: list[Inputs], plan: Plan) -> list[Instance]:
    return [tracing.exported(plain, calls)] * len(calls)


def _mapped(plain: Instance, calls: list[Inputs], plan: Plan) -> list[Instance]:
    return tracing.mapped(plain, calls)


# name → how it is made, what a message says, and the claim without which being declined is no failure
WAYS: dict[str, tuple[Traced, str, str | None]] = {
    "compiled": (_compiled, "compiled, at {Lq} × {Lk},", None),
    "dynamic": (_dynamic, "compiled for all lengths at once, at {Lq} × {Lk},", None),
    "exported": (_exported, "exported, at {Lq} × {Lk},", "export"),
    "mapped": (_mapped, "under vmap, for sample {n},", "vmap"),
}


def _same(subject: Subject, given: Inputs, pair: tuple[Instance, Instance], says: str, plan: Plan) -> float:
    plain, traced = pair
    whole = plain.results(given)
    want, largest = definition(subject, given), 0.0
    no_gradient = subject.scores or plan.extra.get("how") == "mapped"
    no_gradient = no_gradient or bool(GRADIENTS.applies(subject) or GRADIENTS.claimed(subject))
    with tracing.quiet():
        got = traced.results(given) if no_gradient or "how" not in plan.extra else _in_training(traced, given)
    for name, defined in want.items():
        found = compare_within(
            got[name], whole[name], 2 * bound_of(defined, plan.dtype), name=name, allowed=C[defined.kind], axes=AXES[name]
        )
        largest = max(largest, demand(found, f"{says} the {name} differs from the untraced one", plan))
    if no_gradient:
        return largest
    return max(largest, _same_gradients(subject, given, pair, says, plan))


def _in_training(traced: Instance, given: Inputs) -> dict[str, np.ndarray]:
    """Its answer where gradients are wanted, which is traced apart from the one without."""
    raw, _ = traced.tensors(given, frozenset(float_names(traced.subject, given)))
    return {name: to_numpy(value) for name, value in raw.items()}


def _same_gradients(subject: Subject, given: Inputs, pair: tuple[Instance, Instance], says: str, plan: Plan) -> float:
    plain, traced = pair
    want, names, largest = definition(subject, given), float_names(subject, given), 0.0
    drawn = np.random.default_rng(plan.seed)
    cotangents = {n: rounded(drawn.standard_normal(w.value.shape), plan.dtype) for n, w in want.items()}
    wanted = frozenset(names)
    with tracing.quiet():
        back = backward(traced, given, wanted, cotangents)
    before = backward(plain, given, wanted, cotangents)
    for name, defined in prescribed(given, subject.level, names, cotangents).items():
        a, b = back[name], before[name]
        if a is None or b is None:
            if (a is None) != (b is None):
                raise LawFailure(f"{says} `{name}` gets {'no' if a is None else 'a'} gradient, unlike before", plan=plan)
            continue
        found = compare_within(a, b, 2 * bound_of(defined, plan.dtype), name=f"gradient of {name}", allowed=C["gradient"])
        largest = max(largest, demand(found, f"{says} the gradient of `{name}` differs from the untraced one", plan))
    return largest


def _pinned(subject: Subject) -> list[Plan]:
    """Length by length, for all lengths at once, exported, and mapped; a score_mod sees no length."""
    base = smoke_plan(subject, batch=1, heads=2)
    found = [_over(subject, base, SIZES)]
    if subject.scores:
        return found
    found.append(_over(subject, _roomy(subject, base), SIZES[:2], how="dynamic"))
    if subject.card.export is not False:
        found.append(_over(subject, base, EXPORT_SIZES, how="exported"))
    if subject.card.vmap is not False and _has_floats(subject, base):
        samples = [smoke_plan(subject, batch=2).but(seed=n + 1) for n in range(MAPPED)]
        found.append(samples[0].but(extra={"calls": tuple(s.to_json() for s in samples), "how": "mapped"}))
    return found


def _roomy(subject: Subject, base: Plan) -> Plan:
    """The plan with a table that reaches farther than its lengths: a small one hides what is wrong beyond a constant."""
    settings, drawn = dict(base.settings), getattr(subject.cls, "draws", {})
    for name in REACHES:
        reach = max((n for n in drawn.get(name, ()) if isinstance(n, int)), default=0)
        if name in subject.free and legal(subject.cls, larger := {**settings, name: max(reach, settings.get(name) or 0)}):
            settings = larger
    return base.but(settings=settings)


def _has_floats(subject: Subject, plan: Plan) -> bool:
    given = prepared(subject, plan)
    names = set(float_names(subject, given))
    return bool(names - set(given.params) if subject.owns_parameters else names)


def _rare(subject: Subject) -> list[Plan]:
    """By PyTorch's own compiler, where there is one of C++."""
    if backend() == BACKEND:
        return []
    base = smoke_plan(subject, batch=1, heads=2)
    found = [_over(subject, base, SIZES[:2])]
    return [plan.but(extra={**plan.extra, "backend": backend()}) for plan in found]


def _smaller(subject: Subject, plan: Plan) -> list[Plan]:
    """Two calls as small as they can be told apart, transformed in the same way."""
    calls = [narrow(subject, Plan.from_json(text)) for text in plan.extra["calls"]]
    if plan.extra.get("how") == "mapped":
        return [calls[0].but(extra={**plan.extra, "calls": tuple(call.to_json() for call in calls)})]
    extra = {name: value for name, value in plan.extra.items() if name != "calls"}
    return [_over(subject, calls[0], sizes, **extra) for sizes in SMALL_SIZES]


def _over(subject: Subject, base: Plan, sizes: tuple[tuple[int, int], ...], **extra: Any) -> Plan:
    calls = [within_reach(subject, _sized(subject, base, *size)) for size in sizes]
    return calls[0].but(extra={"calls": tuple(call.to_json() for call in calls), **extra})


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
    if subject.kind == "decoder":
        return "a decoder is compiled by what calls it"
    return None


def _note(subject: Subject) -> str:
    del subject
    return "" if cpp_compiler() else f"no C++ compiler: compiled with {BACKEND}"


LAW = Law(
    name="L24",
    title="compiled is the same",
    slug="compiled",
    why="A compiled model meets other lengths than the one it was traced at; a length frozen into it gives wrong answers.",
    statement=(
        "Compiled or exported at one length and run at others, or mapped over samples, values and gradients are those of "
        "the plain implementation."
    ),
    check=check,
    plans=lambda subject: st.sampled_from(_pinned(subject)),
    applies=_applies,
    pinned=_pinned,
    rare=_rare,
    note=_note,
    share=0.0,
    heavy=True,
    smaller=_smaller,
)
