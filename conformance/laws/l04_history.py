"""L4: nothing is remembered that should not be."""

from relpos.conformance.history import History
from relpos.conformance.history_calls import extra_output
from relpos.conformance.history_drawing import moved_on, other_dtypes, otherwise_set, tied, unders, updates
from relpos.conformance.history_machine import machine
from relpos.conformance.history_steps import BESIDE, CALL, OVERWRITE, Step, call, shorter
from relpos.conformance.laws.base import Law
from relpos.conformance.plan import Plan
from relpos.conformance.smoke import smoke_plan
from relpos.conformance.strategies import plans
from relpos.conformance.subject import Subject

LONG = 300  # beyond 256, bfloat16 cannot count


def check(subject: Subject, plan: Plan) -> float:
    """One instance answers at every step of a history as a fresh one with its parameters does."""
    history = History(subject, plan)
    for step in plan.extra.get("steps", ({"do": "call"},)):
        history.take(step)
    return history.largest


def _pinned(subject: Subject) -> list[Plan]:
    base = smoke_plan(subject)
    first, other = call(base, base), call(base, base.but(seed=base.seed + 1))
    histories: list[tuple[Step, ...]] = [(first, {"do": how, "seed": 1}, first) for how in updates(subject)]
    modes = [call(base, base, under=under) for under in unders(subject)]
    histories += [(*modes, first), (*reversed(modes), *modes, first)] if modes else []
    do = CALL if subject.built_with is None else BESIDE
    histories.append((first, *(call(base, plan, do=do) for plan in otherwise_set(subject, base)), other))
    histories += [(first, call(base, plan), first) for plan in _longer(subject, base)]
    if (more := extra_output(subject)) is not None and subject.kind != "decoder":
        histories.append((first, call(base, base, more=more), first))
    if subject.kind != "decoder":
        there = call(base, moved_on(subject, base, 1), reused=True)
        histories.append((first, there, first, {"do": OVERWRITE}, first))
        histories += [(call(base, base.but(dtype=d)), first) for d in other_dtypes(subject, base.dtype)]
    return [*(base.but(extra={"steps": steps}) for steps in histories), *_coarse_first(subject)]


def _longer(subject: Subject, base: Plan) -> list[Plan]:
    """A longer call of the same instance: what grew for it must not show in a shorter one."""
    if subject.on_grid or tied(subject):
        return []
    plan = smoke_plan(subject, key_length=base.key_length + 2)
    alike = dict(plan.settings) == dict(base.settings) and plan.key_length > base.key_length
    return [plan] if alike else []


def _coarse_first(subject: Subject) -> list[Plan]:
    """A long call in the coarsest dtype, then a short one in float32: a table kept from the first would show."""
    coarse = next((d for d in ("bfloat16", "float16") if d in subject.dtypes), None)
    if coarse is None or "float32" not in subject.dtypes or subject.level != "contribution" or subject.form == "bias":
        return []
    short = smoke_plan(subject, batch=1, heads=2).but(dtype="float32")
    n = min(LONG, subject.card.max_length or LONG)
    rows = None if short.query_positions is None else tuple(range(n))
    first = short.but(query_length=n, key_length=n, query_positions=rows, key_positions=rows, offset=0, dtype=coarse)
    return [first.but(extra={"steps": (call(first, first), call(first, short))})]


LAW = Law(
    name="L4",
    title="nothing is remembered",
    slug="history",
    why="A server calls one instance at many lengths; what an earlier call left behind must not change a later answer.",
    statement="Calls in any order, size, offset, dtype and mode give what a fresh instance gives; inputs are never changed.",
    check=check,
    plans=lambda subject: plans(subject, contents=("normal",)),
    pinned=_pinned,
    machine=machine,
    shorter=shorter,
    share=0.3,
)
