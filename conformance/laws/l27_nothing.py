"""L27: no position where there should be none."""

import numpy as np
from hypothesis import strategies as st

from relpos.conformance.answers import answer, definition, prepared, silenced, undeclared
from relpos.conformance.expected import AXES, axis_of
from relpos.conformance.judge import bound_of, compare_within, demand
from relpos.conformance.laws.base import Law
from relpos.conformance.placing import within_reach
from relpos.conformance.plan import Plan
from relpos.conformance.strategies import plans
from relpos.conformance.subject import Subject
from relpos.conformance.tolerance import C


def check(subject: Subject, plan: Plan) -> float:
    """Keys in another order, with their values, are the same keys; queries in another order give those rows."""
    given = prepared(subject, plan)
    whole, padding = answer(subject, given), undeclared(subject, given)
    order = np.random.default_rng(plan.seed)
    keys, queries = order.permutation(plan.key_length), order.permutation(plan.query_length)
    moved = given.but(q=given.q[:, :, queries], k=given.k[:, :, keys], v=given.v[:, :, keys])
    if given.mask is not None:
        moved = moved.but(mask=given.mask[:, :, queries][..., keys])
    # Told apart by their places, other queries are taken for padding now.
    padding = padding | undeclared(subject, moved)[:, np.argsort(queries)]
    got, whole, largest = silenced(answer(subject, moved), padding[:, queries]), silenced(whole, padding), 0.0
    for name, want in definition(subject, given).items():
        bound, wanted = 2 * bound_of(want, plan.dtype), whole[name]
        for axis, along in (("query", queries), ("key", keys)):
            if axis in AXES[name]:
                bound, wanted = (np.take(a, along, axis=axis_of(name, axis)) for a in (bound, wanted))
        found = compare_within(got[name], wanted, bound, name=name, allowed=C[want.kind], axes=AXES[name])
        says = "queries and keys in another order do not give the same in that order: a position has an effect"
        largest = max(largest, demand(found, says, plan))
    return largest


def _crossed(subject: Subject, plan: Plan) -> Plan:
    """Without a causal mask, which reads positions, and as cross-attention where the scheme knows it."""
    crossed = {**plan.settings, "cross_attention": True} if "cross_attention" in subject.cls.__dataclass_fields__ else {}
    plan = plan.but(causal=False, settings=crossed or plan.settings)
    return within_reach(subject, plan)


@st.composite
def _plans(draw: st.DrawFn, subject: Subject) -> Plan:
    return _crossed(subject, draw(plans(subject, contents=("normal",), min_keys=2, causal=False, far=False)))


def _applies(subject: Subject) -> str | None:
    if subject.card.softmax == "causal" or subject.kind == "decoder":
        return "its causal mask reads positions"
    if subject.form == "none":
        return None
    named = "cross_attention" in subject.cls.__dataclass_fields__
    if not named or ("cross_attention" not in subject.free and not subject.fixed.get("cross_attention")):
        return "it has a position term everywhere"
    return None


LAW = Law(
    name="L27",
    title="no position where there is none",
    slug="no-position",
    why="Cross-attention and layers without a scheme must not see an order that is not there.",
    statement="Where a scheme has no position term (none, cross-attention), the order of queries and keys has no effect.",
    check=check,
    plans=_plans,
    applies=_applies,
    share=0.4,
)
