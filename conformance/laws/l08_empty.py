"""L8: empty rows are zero and poison stays behind the mask."""

from math import sqrt

import numpy as np
from hypothesis import strategies as st

from relpos.conformance.answers import answer, definition, prepared
from relpos.conformance.calling import Instance
from relpos.conformance.expected import AXES, scale_of, visible
from relpos.conformance.gradients import backward, float_names
from relpos.conformance.judge import LawFailure, bound_of, compare_within, demand
from relpos.conformance.laws.base import Law
from relpos.conformance.plan import Inputs, Plan
from relpos.conformance.precision import rounded, torch_dtype
from relpos.conformance.smoke import smoke_plan
from relpos.conformance.strategies import plans
from relpos.conformance.subject import Subject
from relpos.conformance.tolerance import POISON_FRACTION, C

WIDE = ("float64", "float32")
LOW = 100_000.0  # beyond −65504, the least number of float16
SMALLEST = 1 / 1024  # of a scale
APART = 8.0  # between values of hidden keys
MASKS = ("empty", "padding", "random")


def check(subject: Subject, plan: Plan) -> float:
    """Empty rows give 0 with finite gradients; what hidden keys hold changes nothing, nor how low the others score."""
    given = prepared(subject, plan)
    out = answer(subject, given)["output"]
    _empty_rows(out, given)
    if subject.arrays == "torch" and subject.card.gradient is not False and subject.kind != "decoder":
        _finite_gradients(subject, given)
    poisons = ("huge", "nan") if subject.card.masked_nan else ("huge",)
    return max(_low(subject, given), *(_poisoned(subject, given, out, poison) for poison in poisons))


def _empty_rows(out: np.ndarray, given: Inputs) -> None:
    for b, h, i in np.argwhere(~visible(given).any(axis=-1)):
        row = out[b, h, i]
        if not np.all(row == 0):
            came = ", ".join(f"{x:.3g}" for x in row)
            raise LawFailure(f"query {i} may attend to no key, so its output must be 0; got {came}", plan=given.plan)


def _finite_gradients(subject: Subject, given: Inputs) -> None:
    names = frozenset(float_names(subject, given))
    found = backward(Instance(subject, given), given, names, {"output": np.ones(given.q.shape)})
    for name, gradient in found.items():
        if gradient is not None and not np.isfinite(gradient).all():
            raise LawFailure(f"the gradient of `{name}` is not finite beside a row without keys", plan=given.plan)


def _poisoned(subject: Subject, given: Inputs, out: np.ndarray, poison: str) -> float:
    """Content of keys that no query of any head may see."""
    import torch

    hidden = ~visible(given).any(axis=(1, 2))
    top = POISON_FRACTION * torch.finfo(torch_dtype(given.plan.dtype)).max
    q_size = max(float(np.abs(given.q).sum(axis=-1).max(initial=0)), 1.0)
    huge = {"huge": (top / q_size, top), "nan": (np.nan, np.nan)}[poison]
    k, v = given.k.copy(), given.v.copy()
    for b, j in np.argwhere(hidden):
        k[b, :, j], v[b, :, j] = huge[0], huge[1]
    found = answer(subject, given.but(k=rounded(k, given.plan.dtype), v=rounded(v, given.plan.dtype)))["output"]
    want = definition(subject, given)["output"]
    says = f"{'NaN' if poison == 'nan' else 'a huge finite value'} in keys that are hidden from every query changes the output"
    bound = 2 * bound_of(want, given.plan.dtype)
    return demand(compare_within(found, out, bound, name="output", allowed=C["output"], axes=AXES["output"]), says, given.plan)


def _low(subject: Subject, given: Inputs) -> float:
    """Other values of hidden keys where all content scores far below what stands in for −∞ in half precision."""
    if given.plan.dtype not in WIDE:
        return 0.0
    per_column = sqrt(LOW / (given.q.shape[-1] * max(abs(scale_of(given)), SMALLEST)))
    low = given.but(q=rounded(np.full_like(given.q, per_column), given.plan.dtype),
                    k=rounded(np.full_like(given.k, -per_column), given.plan.dtype))  # fmt: skip
    v = given.v.copy()
    for b, j in np.argwhere(~visible(given).any(axis=(1, 2))):
        v[b, :, j] += APART
    out, found = (answer(subject, one)["output"] for one in (low, low.but(v=rounded(v, given.plan.dtype))))
    says = f"hidden keys are seen where the others score {-LOW:,.0f}: the mask is a finite number"
    bound = 2 * bound_of(definition(subject, low)["output"], given.plan.dtype)
    return demand(compare_within(found, out, bound, name="output", allowed=C["output"], axes=AXES["output"]), says, low.plan)


def _applies(subject: Subject) -> str | None:
    if subject.level != "attention":
        return "judged at attention level"
    return None if {"mask", "padding_mask"} & subject.asks else "no mask is asked for"


@st.composite
def _plans(draw: st.DrawFn, subject: Subject) -> Plan:
    """A mask of padding hides the same keys from all queries: no row of it is empty, poison it can hide."""
    return draw(plans(subject, min_keys=2, masks=_masks(subject), contents=("normal",), scales=False))


def _pinned(subject: Subject) -> list[Plan]:
    return [smoke_plan(subject).but(mask=mask) for mask in _masks(subject)]


def _masks(subject: Subject) -> tuple[str, ...]:
    return MASKS if "mask" in subject.asks else ("padding",)


LAW = Law(
    name="L8",
    title="empty rows, poison in masked keys",
    slug="empty-rows",
    why="One row of NaN, or one huge number behind a mask, is enough to end a training run.",
    statement="A query without keys gives 0 with finite gradients; what hidden keys hold has no effect.",
    check=check,
    plans=_plans,
    applies=_applies,
    pinned=_pinned,
    share=0.4,
)
