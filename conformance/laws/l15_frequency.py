"""L15: frequencies follow the formula and do not depend on how long a table is."""

import numpy as np
from hypothesis import strategies as st

from relpos.conformance.answers import answer, definition, prepared
from relpos.conformance.expected import AXES
from relpos.conformance.judge import bound_of, compare_within, demand
from relpos.conformance.laws.base import Law
from relpos.conformance.plan import Inputs, Plan
from relpos.conformance.smoke import smoke_plan
from relpos.conformance.strategies import plans
from relpos.conformance.subject import Subject
from relpos.conformance.tolerance import C


def check(subject: Subject, plan: Plan) -> float:
    """The angle of each pair at position 1 is its frequency; the first rows of a longer call are the shorter call."""
    given = prepared(subject, plan)
    return max(_frequencies(subject, given), _capacity(subject, given))


def _frequencies(subject: Subject, given: Inputs) -> float:
    x, pairs = _probe(given)
    name = next(iter(definition(subject, given)))
    probe = given.but(q=x)
    got = answer(subject, probe)[name].reshape(-1, *x.shape[-2:])[0, 1]
    want = definition(subject, probe)[name]
    bound = bound_of(want, given.plan.dtype).reshape(-1, *x.shape[-2:])[0, 1]
    kept = [(a, b) for a, b in pairs if max(a, b) < x.shape[-1]]
    if not kept:
        return 0.0
    a, b = (np.array(column) for column in zip(*kept, strict=True))
    θ, gains = _prescribed(given)
    found, θ = np.arctan2(got[b], got[a]), θ[: len(kept)]
    expected, loose = np.arctan2(np.sin(θ), np.cos(θ)), (bound[a] + bound[b]) / gains[: len(kept)]
    comparison = compare_within(found, expected, loose, name="frequency", allowed=C[want.kind], axes=("pair",))
    scaled = getattr(given.settings, "scaling", "none")
    formula = "base^(−2m/width)" if scaled == "none" else f"those of scaling={scaled}"
    return demand(comparison, f"the frequencies, read off at position 1, are not {formula}", given.plan)


def _prescribed(given: Inputs) -> tuple[np.ndarray, np.ndarray]:
    """Frequencies, and what lengths are multiplied by at position 1."""
    if given.settings.form == "embedding":
        return given.settings.frequencies(), np.ones(len(given.settings.frequencies()))
    positions = given.query_positions.row(0)
    return given.settings.frequencies(positions.context()), given.settings.gains(positions, "query")[1]


def _probe(given: Inputs) -> tuple[np.ndarray, list[tuple[int, int]]]:
    """Content that shows the angle: ones in the first column of each pair; nothing beside an embedding."""
    x = np.zeros_like(given.q)
    if given.settings.form == "embedding":
        return x, [(cosine, sine) for sine, cosine in given.settings.columns()]
    pairs = given.settings.pairs()
    for a, _ in pairs:
        x[..., a] = 1.0
    return x, pairs


def _capacity(subject: Subject, given: Inputs) -> float:
    plan, n = given.plan, given.plan.query_length
    more = min(n + plan.extra["longer"], subject.card.max_length or n + plan.extra["longer"])
    dependent = getattr(given.settings, "length_dependent", False)
    if more <= n or (dependent and not subject.told_length):
        return 0.0
    if dependent:
        plan = plan.but(context_length=more)
        given = prepared(subject, plan)
    positions = None if plan.query_positions is None else tuple(range(more))
    longer = prepared(subject, plan.but(query_length=more, key_length=more, query_positions=positions, key_positions=positions))
    longer.q[:, :, :n], longer.k[:, :, :n] = given.q, given.k
    name = next(iter(definition(subject, given)))
    got, whole = answer(subject, given)[name], answer(subject, longer)[name]
    bound = 2 * bound_of(definition(subject, given)[name], plan.dtype)
    comparison = compare_within(
        got, whole[..., :n, :], bound, name=name, allowed=C[definition(subject, given)[name].kind], axes=AXES[name]
    )
    return demand(comparison, f"{n} positions alone differ from the first {n} of {more}", plan)


def _applies(subject: Subject) -> str | None:
    told = subject.form in ("rotation", "embedding") and subject.level == "contribution" and hasattr(subject.cls, "frequencies")
    return None if told else "judged on rotations and sinusoids"


@st.composite
def _plans(draw: st.DrawFn, subject: Subject) -> Plan:
    plan = draw(
        plans(subject, min_queries=2, min_keys=2, contents=("normal",), dtypes=subject.dtypes[:1], far=False, listed=False)
    )
    return _from_zero(subject, plan, draw(st.integers(1, 40)))


def _from_zero(subject: Subject, plan: Plan, longer: int) -> Plan:
    n = max(plan.query_length, 2)
    positions = tuple(range(n)) if subject.positions == "arbitrary" else None
    return plan.but(
        query_length=n,
        key_length=n,
        offset=0,
        query_positions=positions,
        key_positions=positions,
        extra={"longer": longer},
    )


LAW = Law(
    name="L15",
    title="frequencies",
    slug="frequencies",
    why="A frequency that is slightly off is harmless at the start of a text and ruins its far end.",
    statement="The frequency of pair m is the formula's, and rows do not depend on how many were asked for.",
    check=check,
    plans=_plans,
    applies=_applies,
    pinned=lambda subject: [_from_zero(subject, smoke_plan(subject), 30)],
    share=0.3,
)
