"""L28: every path through an implementation gives the same answer."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from relpos.conformance import paths
from relpos.conformance.agreement import agree
from relpos.conformance.answers import comparisons, definition, prepared
from relpos.conformance.asks import TENSORS
from relpos.conformance.calling import Instance
from relpos.conformance.documents import laid, ways, with_documents
from relpos.conformance.gradients import backward, float_names, prescribed
from relpos.conformance.judge import bound_of, compare_within, demand
from relpos.conformance.laws.base import Law
from relpos.conformance.laws.l20_gradient import LAW as GRADIENT
from relpos.conformance.placing import moved, within_reach
from relpos.conformance.plan import Inputs, Plan
from relpos.conformance.precision import rounded
from relpos.conformance.smoke import smoke_plan
from relpos.conformance.strategies import plans
from relpos.conformance.subject import Subject, cls_parameters
from relpos.conformance.tolerance import C

TILE = 32
NEAR = {"contents": ("normal",), "far": False}
SQUARE = {**NEAR, "masks": ("none",), "listed": False, "min_queries": 2, "min_keys": 2}


def check(subject: Subject, plan: Plan) -> float:
    """One path, named in the plan, against its other."""
    given = prepared(subject, plan)
    if plan.extra["path"] == "documents":
        return _documents(subject, given)
    if "gradient" in plan.extra:
        return _gradients(subject, given)
    largest = 0.0
    for pair in PATHS[plan.extra["path"]].pairs(subject, given):
        largest = max(largest, agree(pair.got, pair.want, subject, pair.given, pair.says, plan, told=True))
        if "variant" in plan.extra:
            for found in comparisons(subject, given, pair.got):
                largest = max(largest, demand(found, f"{pair.says.partition(',')[0]}, the {found.name} is wrong", plan))
    return largest


def _documents(subject: Subject, given: Inputs) -> float:
    largest = 0.0
    for one in laid(subject, given):
        got, want = {"output": one.got}, {"output": one.want}
        largest = max(largest, agree(got, want, subject, one.alone, one.says, given.plan, told=True))
    return largest


def _gradients(subject: Subject, given: Inputs) -> float:
    """The gradients of all float inputs, by one combination of options and by the first."""
    (here, chosen), (there, first) = paths.told(subject, given)
    names, generator = float_names(subject, given), np.random.default_rng(given.plan.seed + 1)
    shapes = {name: want.value.shape for name, want in definition(subject, given).items()}
    cotangents = {name: rounded(generator.standard_normal(shape), given.plan.dtype) for name, shape in shapes.items()}
    got, want = (backward(Instance(subject, one), one, frozenset(names), cotangents) for one in (chosen, first))
    largest = 0.0
    for name, one in prescribed(given, subject.level, names, cotangents).items():
        a, b = (np.zeros(one.value.shape) if (x := side[name]) is None else x for side in (got, want))
        found = compare_within(a, b, 2 * bound_of(one, given.plan.dtype), name=name, allowed=C["gradient"])
        says = f"with {here}, the gradient of `{name}` differs from that with {there}"
        largest = max(largest, demand(found, says, given.plan))
    return largest


@dataclass(frozen=True)
class Path:
    """One way and its other.

    there   whether an implementation has both
    wish    what is wished of drawn plans
    fit     plans of this path, made of a drawn one or of the gate's
    pairs   the answers that must agree
    """

    there: Callable[[Subject], bool]
    wish: dict
    fit: Callable[[Subject, Plan], list[Plan]]
    pairs: Callable[[Subject, Inputs], Iterator[paths.Pair]]


def _as_it_is(subject: Subject, plan: Plan) -> list[Plan]:
    return [plan]


def _both_flags(subject: Subject, plan: Plan) -> list[Plan]:
    found = [plan.but(mask="none"), plan.but(mask="none", causal=True)] if "causal" in subject.asks else [plan.but(mask="none")]
    return [_contiguous(p) if "positions" in paths.can_leave_out(subject) else p for p in found]


def _contiguous(plan: Plan) -> Plan:
    """Keys from 0 on, and the last of the queries on the last key."""
    start = max(plan.key_length - plan.query_length, 0)
    queries, keys = tuple(range(start, start + plan.query_length)), tuple(range(plan.key_length))
    told = plan.query_positions is not None
    return plan.but(
        offset=0 if told else start, query_positions=queries if told else None, key_positions=keys if told else None
    )


def _unmasked(subject: Subject, plan: Plan) -> list[Plan]:
    return [plan.but(mask="none"), plan]


def _unscaled(subject: Subject, plan: Plan) -> list[Plan]:
    return [plan.but(scale=None)]


def _rows(subject: Subject, plan: Plan) -> list[Plan]:
    """Two samples at least, at the same positions or each at its own."""
    plan = plan.but(batch=max(plan.batch, 2))
    at = plan.query_positions, plan.key_positions
    if subject.on_grid or not all(isinstance(p, tuple) and isinstance(p[0], int) for p in at):
        return [plan] if all(isinstance(p, tuple) for p in at) else []
    step = 1 if subject.one_length else 2
    apart = [tuple(moved(p, b * by) for b in range(plan.batch)) for p, by in zip(at, (step, 1), strict=True)]
    return [plan, plan.but(query_positions=apart[0], key_positions=apart[1])]


def _lengths(subject: Subject, plan: Plan) -> list[Plan]:
    """As many documents as samples, two at least, each a token shorter than the one before."""
    n = max(plan.query_length, 2)
    return [with_documents(subject, plan, tuple(max(n - b, 1) for b in range(max(plan.batch, 2))))]


def _chunks(subject: Subject, plan: Plan) -> list[Plan]:
    """One by one; and all but the last at once, in a prefill."""
    n = plan.query_length
    ways_of = [(1,) * n, (n - 1, 1)] if n > 2 else [(1,) * n]
    return [plan.but(extra={"chunks": sizes}) for sizes in ways_of] if n > 1 else []


def _variants(subject: Subject, plan: Plan) -> list[Plan]:
    return [plan.but(extra={"variant": one}) for one in paths.combinations(subject)[1:]]


def _long(subject: Subject) -> list[Plan]:
    """One key past the last whole tile, behind a mask where one is asked for; and one small plan for the gradients."""
    base = smoke_plan(subject, batch=1, heads=2, head_dim=4)
    mask = "random" if "mask" in subject.asks else "padding" if "padding_mask" in subject.asks else "none"
    found = []
    if not subject.on_grid and (subject.card.max_length or TILE + 1) > TILE:
        at = tuple(range(TILE + 1)) if base.query_positions is not None else None
        sizes = {"query_length": TILE + 1, "key_length": TILE + 1, "offset": 0, "query_positions": at, "key_positions": at}
        found = _variants(subject, base.but(mask=mask, **sizes))
    if GRADIENT.applies(subject) or GRADIENT.claimed(subject):
        return found
    small = smoke_plan(subject, batch=2, heads=2, query_length=3, key_length=4, head_dim=4)
    return found + [one.but(extra={**one.extra, "gradient": True}) for one in _variants(subject, small)]


def _masked_and_causal(subject: Subject) -> bool:
    attends = subject.level == "attention" and not subject.on_grid and subject.kind != "decoder"
    return attends and "mask" in subject.asks and ("causal" in subject.asks or subject.card.softmax == "causal")


def _has_modes(subject: Subject) -> bool:
    floats = TENSORS | {"params"} | set(cls_parameters(subject.cls))
    return subject.arrays == "torch" and (paths.trains(subject) or bool(floats & subject.asks))


def _per_sample(subject: Subject) -> bool:
    embeds = subject.form == "embedding" and subject.level == "contribution"  # one vector per position, whoever stands there
    return subject.card.positions == "per_row" and not embeds


def _scaled(subject: Subject) -> bool:
    return "scale" in paths.optional(subject) and "scale" in {subject.card.rename.get(n, n) for n in subject.card.binds}


PATHS: dict[str, Path] = {
    "variants": Path(lambda s: bool(s.card.variants), {}, _variants, paths.variants),
    "documents": Path(lambda s: bool(ways(s)), SQUARE, _lengths, lambda subject, given: iter(())),
    "causal": Path(_masked_and_causal, NEAR, _unmasked, paths.flagged),
    "left out": Path(lambda s: bool(paths.can_leave_out(s)), NEAR, _both_flags, paths.left_out),
    "rows": Path(_per_sample, {**NEAR, "listed": False}, _rows, paths.per_sample),
    "modes": Path(_has_modes, NEAR, _as_it_is, paths.modes),
    "steps": Path(lambda s: s.kind == "decoder", SQUARE, _chunks, paths.steps),
    "scale": Path(_scaled, NEAR, _unscaled, paths.scaled),
}


def _there(subject: Subject) -> list[str]:
    return [name for name, path in PATHS.items() if path.there(subject)]


def _fitted(subject: Subject, name: str, plan: Plan) -> list[Plan]:
    found = PATHS[name].fit(subject, plan)
    return [within_reach(subject, one.but(extra={**one.extra, "path": name})) for one in found]


@st.composite
def _plans(draw: st.DrawFn, subject: Subject) -> Plan:
    name = draw(st.sampled_from(_there(subject)))
    plan = draw(plans(subject, **PATHS[name].wish))
    found = _fitted(subject, name, plan)
    return found[draw(st.integers(0, len(found) - 1))] if found else _fitted(subject, name, smoke_plan(subject))[0]


def _pinned(subject: Subject) -> list[Plan]:
    found = [plan for name in _there(subject) for plan in _fitted(subject, name, smoke_plan(subject))]
    more = [plan.but(extra={**plan.extra, "path": "variants"}) for plan in _long(subject)] if subject.card.variants else []
    return found + [within_reach(subject, plan) for plan in more]


def _applies(subject: Subject) -> str | None:
    if _there(subject):
        return None
    return "it has one way to be asked: no mask, flag, step, gradient or positions per sample, and no claim of variants"


LAW = Law(
    name="L28",
    title="all paths agree",
    slug="all-paths",
    why="A model is trained padded and served packed and cached, each by other code; where they differ, it is worse, unseen.",
    statement="Packed, padded or cached, by flag or mask, in any mode and by any option, the same question has one answer.",
    check=check,
    plans=_plans,
    applies=_applies,
    pinned=_pinned,
    share=0.4,
)
