"""L5: padding and packing never move a real token."""

import numpy as np
from hypothesis import strategies as st

from relpos.conformance import grids
from relpos.conformance.answers import answer, definition, prepared
from relpos.conformance.expected import AXES
from relpos.conformance.judge import bound_of, compare_within, demand
from relpos.conformance.laws.base import Law, settings_of
from relpos.conformance.placing import within_reach
from relpos.conformance.plan import Inputs, Plan
from relpos.conformance.smoke import smoke_plan
from relpos.conformance.strategies import plans
from relpos.conformance.subject import Subject
from relpos.conformance.tolerance import C
from relpos.spec.positions import Explicit, Range

SAYS = {
    "left": "tokens move when padding is put before them",
    "right": "tokens move when padding is put after them",
    "packed": "tokens move when another document is packed before them",
}
SEED_SHIFT = 1000  # the padding holds other content than the tokens


def check(subject: Subject, plan: Plan) -> float:
    """The output of the tokens alone, against their output among padding that the mask hides."""
    alone = prepared(subject, plan)
    if subject.positions != "arbitrary" and getattr(alone.settings, "length_dependent", False):
        return 0.0  # counted from 0, padding is part of the context
    around = _surrounded(subject, alone)
    first = 0 if plan.extra["side"] == "right" else plan.extra["pad"]
    found = answer(subject, around)["output"][:, :, first : first + plan.query_length]
    want, bound = answer(subject, alone)["output"], 2 * bound_of(definition(subject, alone)["output"], plan.dtype)
    comparison = compare_within(found, want, bound, name="output", allowed=C["output"], axes=AXES["output"])
    return demand(comparison, SAYS[plan.extra["side"]], plan)


def _surrounded(subject: Subject, alone: Inputs) -> Inputs:
    """The same tokens with `pad` others at one side, hidden from them (packed: a document that sees itself)."""
    plan = alone.plan
    pad, side, n = plan.extra["pad"], plan.extra["side"], plan.query_length
    filler = prepared(subject, plan.but(query_length=pad, key_length=pad, seed=plan.seed + SEED_SHIFT, **_at(plan, pad)))
    pair = (lambda a, b: (b, a)) if side == "right" else (lambda a, b: (a, b))
    joined = {name: np.concatenate(pair(getattr(filler, name), getattr(alone, name)), axis=2) for name in ("q", "k", "v")}
    real = np.concatenate(pair(np.zeros(pad, dtype=bool), np.ones(n, dtype=bool)))
    mask = np.broadcast_to(real[None, :] == real[:, None] if side == "packed" else real[None, :], (pad + n, pad + n))
    positions = _positions(subject, alone, pad, side)
    grown = plan.but(query_length=pad + n, key_length=pad + n, extra={}, query_positions=None, key_positions=None)
    whole = np.broadcast_to(mask, (plan.batch, 1, pad + n, pad + n)).copy()
    return alone.but(plan=grown, mask=whole, query_positions=positions, key_positions=positions, **joined)


def _at(plan: Plan, pad: int) -> dict:
    if plan.query_positions is not None and not isinstance(plan.query_positions[0], int):
        return dict.fromkeys(("query_positions", "key_positions"), plan.query_positions[:1] * pad)
    told = plan.query_positions is not None
    return {"query_positions": tuple(range(pad)) if told else None, "key_positions": tuple(range(pad)) if told else None}


def _positions(subject: Subject, alone: Inputs, pad: int, side: str) -> Explicit | Range:
    """Real tokens keep their positions where positions can be told; padding gets 0, a packed document starts at 0."""
    n = alone.plan.query_length
    if subject.positions != "arbitrary":
        return Range(0, pad + n)
    if subject.on_grid:
        here, there = alone.query_positions.array(), grids.repeated(alone.query_positions, pad)
        return Explicit(np.concatenate((here, there) if side == "right" else (there, here)), axes=here.shape[-1])
    other = np.arange(pad) if side == "packed" else np.zeros(pad, dtype=np.int64)
    own = alone.query_positions.row(0)
    whole = Explicit(np.concatenate((own.array(), other) if side == "right" else (other, own.array())))
    return whole.in_context(own.context()) if subject.told_length else whole


def _sides(subject: Subject, plan: Plan) -> tuple[str, ...]:
    """Without positions, padding before the tokens moves them by right, unless only distances matter."""
    if subject.positions == "arbitrary":
        return ("left", "right", "packed") if "mask" in subject.asks else ("left", "right")
    return ("left", "right") if "relative" in settings_of(subject, plan).claims else ("right",)


def _applies(subject: Subject) -> str | None:
    if subject.level != "attention" or subject.kind == "decoder":
        return "judged on attention that takes a whole sequence"
    if subject.on_grid and subject.positions == "contiguous":
        return "a whole grid has no room for padding"
    return None if {"mask", "padding_mask"} & subject.asks else "no mask is asked for"


def _alone(subject: Subject, plan: Plan, side: str, pad: int) -> Plan:
    n = min(plan.query_length, plan.key_length)
    positions = tuple(range(n)) if plan.query_positions is not None else None
    positions = plan.query_positions[:n] if subject.on_grid and plan.query_positions is not None else positions
    plan = plan.but(query_length=n, key_length=n, offset=0, query_positions=positions, key_positions=positions, mask="none")
    # No longer than the tokens: another document at positions of its own must not lengthen the context.
    return within_reach(subject, plan).but(extra={"side": side, "pad": min(pad, n)})


@st.composite
def _plans(draw: st.DrawFn, subject: Subject) -> Plan:
    plan = draw(plans(subject, min_queries=2, min_keys=2, contents=("normal",), masks=("none",), far=False, listed=False))
    return _alone(subject, plan, draw(st.sampled_from(_sides(subject, plan))), draw(st.integers(1, 4)))


def _pinned(subject: Subject) -> list[Plan]:
    plan = smoke_plan(subject)
    return [_alone(subject, plan, side, 2) for side in _sides(subject, plan)]


LAW = Law(
    name="L5",
    title="padding never moves a token",
    slug="padding",
    why="Requests are batched with padding; an answer must not depend on who shares the batch or on how long they are.",
    statement="Padding that the mask hides, on either side, and documents packed beside them, leave real tokens as they are.",
    check=check,
    plans=_plans,
    applies=_applies,
    pinned=_pinned,
    share=0.3,
)
