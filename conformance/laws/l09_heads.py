"""L9: a head's values are its own, wherever the other heads are."""

from typing import Any

import numpy as np
from hypothesis import strategies as st

from relpos.conformance.answers import answer, definition, prepared
from relpos.conformance.expected import AXES, axis_of
from relpos.conformance.judge import bound_of, compare_within, demand
from relpos.conformance.laws.base import Law
from relpos.conformance.plan import Inputs, Plan
from relpos.conformance.smoke import smoke_plan
from relpos.conformance.strategies import plans, takes_groups
from relpos.conformance.subject import Subject
from relpos.conformance.tolerance import C
from relpos.spec.attention import repeated


def check(subject: Subject, plan: Plan) -> float:
    """A shard of heads answers as those heads of all; a shared key head is that key head repeated."""
    given = prepared(subject, plan)
    whole, largest = answer(subject, given), 0.0
    if "head_indices" in subject.asks:
        heads = tuple(plan.extra["heads"])
        says = f"heads {heads[0]} … {heads[-1]} of {plan.heads}, computed alone, differ from the same heads of all"
        if len(heads) == 1:
            says = f"head {heads[0]} of {plan.heads}, computed alone, differs from the same head of all"
        largest = max(largest, _same(subject, given, answer(subject, shard(given, heads)), whole, heads, says))
    if plan.kv_heads not in (None, plan.heads):
        H = plan.heads
        apart = given.but(k=repeated(given.k, H), v=repeated(given.v, H), plan=plan.but(kv_heads=None))
        says = f"{plan.kv_heads} key heads shared by {H} query heads differ from the same key heads repeated"
        largest = max(largest, _same(subject, given, answer(subject, apart), whole, tuple(range(H)), says))
    return largest


def shard(given: Inputs, heads: tuple[int, ...]) -> Inputs:
    """The inputs of some heads: their rows of q, k and v; settings and parameters stay those of all."""
    at = list(heads)
    plan = given.plan.but(kv_heads=None, extra={**given.plan.extra, "head_indices": heads})
    return given.but(q=given.q[:, at], k=repeated(given.k, given.plan.heads)[:, at],
                     v=repeated(given.v, given.plan.heads)[:, at], plan=plan)  # fmt: skip


def _same(subject: Subject, given: Inputs, got: dict, whole: dict, heads: tuple[int, ...], says: str) -> float:
    largest = 0.0
    for name, want in definition(subject, given).items():
        axis = axis_of(name, "head")
        pick = lambda a, axis=axis: np.take(a, heads, axis=axis)  # noqa: E731
        bound = pick(np.broadcast_to(2 * bound_of(want, given.plan.dtype), want.value.shape))
        found = compare_within(got[name], pick(whole[name]), bound, name=name, allowed=C[want.kind], axes=AXES[name])
        largest = max(largest, demand(found, says, given.plan))
    return largest


@st.composite
def _plans(draw: st.DrawFn, subject: Subject) -> Plan:
    plan = draw(plans(subject, contents=("normal",)))
    start = draw(st.integers(0, plan.heads - 1))
    return plan.but(extra={"heads": tuple(range(start, draw(st.integers(start, plan.heads - 1)) + 1))})


def _pinned(subject: Subject) -> list[Plan]:
    """The last heads of six, of which none is where it would be alone; and two query heads on one key head."""
    fixed: dict[str, Any] = subject.fixed
    sizes = {} if "num_heads" in fixed else {"heads": 6}
    plan = smoke_plan(subject, **sizes)
    found = [plan.but(extra={"heads": tuple(range(plan.heads // 2, plan.heads))})]
    if takes_groups(subject) and plan.heads % 2 == 0:
        found.append(plan.but(kv_heads=plan.heads // 2, extra={"heads": (0,)}))
    return found


def _applies(subject: Subject) -> str | None:
    if _claimed(subject) is None or {"k", "v"} & subject.asks:
        return None
    return "it takes neither a shard of heads (`head_indices`) nor keys"


def _claimed(subject: Subject) -> str | None:
    if "head_indices" in subject.asks or takes_groups(subject):
        return None
    return "no heads that share keys (--claim binds=num_kv_heads) and no shard of heads (`head_indices`)"


LAW = Law(
    name="L9",
    title="heads are their own",
    slug="heads",
    why="Heads are split over devices and key heads are shared; every head must stay the one that was trained.",
    statement="Some heads computed alone are those heads of all, and query heads that share a key head see that key head.",
    check=check,
    plans=_plans,
    applies=_applies,
    claimed=_claimed,
    pinned=_pinned,
    share=0.4,
)
