"""L18: half precision is rounding, not other positions."""

import numpy as np
import torch
from hypothesis import strategies as st

from relpos.conformance.answers import answer, comparisons, definition, prepared
from relpos.conformance.expected import expected
from relpos.conformance.judge import LawFailure, demand
from relpos.conformance.laws.base import Law
from relpos.conformance.placing import moved, within_reach
from relpos.conformance.plan import Inputs, Plan
from relpos.conformance.precision import largest_number
from relpos.conformance.smoke import smoke_plan
from relpos.conformance.subject import Subject

# The first positions that the dtype cannot tell apart: 257 in bfloat16, 2049 in float16.
BLIND_FROM = {"bfloat16": 256, "float16": 2048}
AUTOCAST = "autocast"
LARGE, FORTY, WIDE = "large", 40.0, 64  # 40·40·64 is more than float16 holds, an eighth of it is not


def check(subject: Subject, plan: Plan) -> float:
    """Past the positions that a dtype can count, and inside autocast, results are those of the definition, rounded.

    What float16 can hold is finite, however large q·k is before it is scaled.
    """
    given = prepared(subject, plan)
    if plan.extra["mode"] == LARGE:
        return _finite(subject, given)
    if plan.extra["mode"] == AUTOCAST:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            got = answer(subject, given)
        # Inputs are float32, sums are bfloat16: the bound is that of bfloat16.
        given = given.but(plan=plan.but(dtype="bfloat16"))
        says = "inside torch.autocast"
    else:
        got, says = answer(subject, given), f"in {plan.dtype}, past position {BLIND_FROM[plan.dtype]},"
    return max(demand(c, f"{says} the {c.name} is off by more than rounding", plan) for c in comparisons(subject, given, got))


def _finite(subject: Subject, given: Inputs) -> float:
    """q and k of 40 everywhere: what the dtype can hold does not become infinite on the way."""
    loud = given.but(q=np.full_like(given.q, FORTY), k=np.full_like(given.k, FORTY))
    most = largest_number(given.plan.dtype)
    if np.abs(expected(loud, "logits")["logits"].value).max() > most:
        return 0.0  # the score itself is more than the dtype holds, as without a scale
    got = answer(subject, loud)
    for name, want in definition(subject, loud).items():
        held = np.abs(want.value) <= most
        if not np.isfinite(got[name][held]).all():
            says = f"where q and k are {FORTY:.0f} everywhere, the {name} overflows {given.plan.dtype} on the way"
            raise LawFailure(says, plan=given.plan)
    return 0.0


def _pinned(subject: Subject) -> list[Plan]:
    found = []
    for dtype, start in BLIND_FROM.items():
        if dtype in subject.dtypes and (plan := _past(subject, start)) is not None:
            found.append(plan.but(dtype=dtype, extra={"mode": "positions"}))
    if subject.arrays == "torch" and "float32" in subject.dtypes and subject.level != "contribution":
        plan = smoke_plan(subject).but(dtype="float32", extra={"mode": AUTOCAST})
        found.append(plan)
    if subject.arrays == "torch" and "float32" in subject.dtypes and (plan := _past(subject, BLIND_FROM["bfloat16"])):
        # Whoever multiplies positions there in a matrix product counts in bfloat16.
        found.append(plan.but(dtype="float32", extra={"mode": AUTOCAST}))
    if "float16" in subject.dtypes and {"q", "k"} <= subject.asks and subject.level != "contribution":
        found.append(smoke_plan(subject, head_dim=WIDE).but(dtype="float16", extra={"mode": LARGE}))
    return [within_reach(subject, plan) for plan in found]


def _past(subject: Subject, start: int) -> Plan | None:
    """The gate's input moved past a position, where the implementation can be told positions."""
    plan = smoke_plan(subject)
    if plan.settings.get("distance") == "key_only" or subject.card.softmax == "causal":
        return None  # m·j itself is rounded there, which is what key-only promises
    if plan.query_positions is not None and plan.key_positions is not None:
        return plan.but(query_positions=moved(plan.query_positions, start), key_positions=moved(plan.key_positions, start))
    alone = subject.level == "contribution" and subject.form in ("rotation", "embedding")
    return plan.but(offset=start) if alone and subject.positions == "offset" else None


def _half(subject: Subject) -> str | None:
    return None if _pinned(subject) else "neither half precision with positions nor autocast concerns it"


LAW = Law(
    name="L18",
    title="half precision counts positions",
    slug="half-precision",
    why="Counted in half precision, neighbouring positions become one: beyond 256 in bfloat16, beyond 2048 in float16.",
    statement="In half precision and inside autocast, results are the definition's up to rounding, at any position it claims.",
    check=check,
    plans=lambda subject: st.sampled_from(_pinned(subject)),
    applies=_half,
    pinned=_pinned,
    share=0.0,
)
