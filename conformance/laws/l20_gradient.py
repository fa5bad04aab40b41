"""L20: gradients are those of the definition, whichever inputs need one."""

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from relpos.conformance.answers import definition, prepared, silenced, undeclared, weighed
from relpos.conformance.binding import ALONE, STORAGES
from relpos.conformance.calling import Instance
from relpos.conformance.expected import Expected
from relpos.conformance.gradients import ARRIVALS, backward, float_names, prescribed
from relpos.conformance.judge import LawFailure, compare, demand
from relpos.conformance.laws.base import Law
from relpos.conformance.placing import within_reach
from relpos.conformance.plan import Plan
from relpos.conformance.precision import rounded
from relpos.conformance.second_gradients import twice
from relpos.conformance.settings import sized
from relpos.conformance.smoke import smoke_plan
from relpos.conformance.strategies import plans
from relpos.conformance.subject import Subject

# Of the inputs, as a message calls them; a learned table has rows and columns.
GRADIENT_AXES = {
    **dict.fromkeys(("q", "x of the query"), ("batch", "head", "query", "column")),
    **dict.fromkeys(("k", "v", "x of the key"), ("batch", "head", "key", "column")),
    "x": ("batch", "position", "column"),
}


MOST_NAMES = 5  # up to so many inputs every subset of them is tried, of more some are drawn
SUBSETS = 2**12 - 1  # more names than any scheme has
SHORT, LONG = 3, 67  # queries and keys, or the other way round: whole tiles of 16, 32 or 64, and three more


def check(subject: Subject, plan: Plan) -> float:
    """Backward of Σ result · cotangent, for one subset of the float inputs, and once more on the same instance."""
    given = prepared(subject, plan)
    names = float_names(subject, given)
    wanted = tuple(n for bit, n in enumerate(names) if plan.extra["subset"] >> bit & 1) or names
    generator = np.random.default_rng(plan.seed + 1)
    shapes = {name: want.value.shape for name, want in definition(subject, given).items()}
    cotangents = {name: rounded(_drawn(generator, shape, plan), plan.dtype) for name, shape in shapes.items()}
    cotangents = silenced(cotangents, undeclared(subject, given))
    cotangents = {name: weighed(subject, given, name, value) for name, value in cotangents.items()}
    instance, largest = Instance(subject, given), 0.0
    want = prescribed(given, subject.level, wanted, cotangents)
    for again in (False, True):
        got = backward(instance, given, frozenset(wanted), cotangents)
        beside = _beside(wanted, names, plan) + ", in a second backward" * again
        for name in wanted:
            largest = max(largest, _one(got[name], want[name], name, beside, plan))
    if subject.card.double_backward and plan.extra.get("second"):
        largest = max(largest, twice(subject, given, wanted, cotangents, plan))
    return largest


def _drawn(generator: np.random.Generator, shape: tuple[int, ...], plan: Plan) -> np.ndarray:
    arrives = plan.extra.get("arrives")
    if arrives == "expanded over columns":
        return np.repeat(generator.standard_normal((*shape[:-1], 1)), shape[-1], axis=-1)
    return np.ones(shape) if arrives == "expanded" else generator.standard_normal(shape)


def _beside(wanted: tuple[str, ...], names: tuple[str, ...], plan: Plan) -> str:
    frozen = [f"`{_spoken(n)}`" for n in names if n not in wanted]
    beside = f" while {', '.join(frozen)} {'is' if len(frozen) == 1 else 'are'} frozen" if frozen else ""
    beside += " where inputs come from a layer below" if plan.extra.get("computed") else ""
    stored = f"`{plan.extra['only']}` is" if "only" in plan.extra else "tensors are"
    beside += f" where {stored} {plan.extra['storage']}" if "storage" in plan.extra else ""
    return beside + (f" where the gradient that arrives is {plan.extra['arrives']}" if "arrives" in plan.extra else "")


def _one(got: np.ndarray | None, want: Expected, name: str, beside: str, plan: Plan) -> float:
    if got is None:
        if not np.any(want.value):
            return 0.0
        raise LawFailure(f"no gradient reaches `{_spoken(name)}`{beside}", plan=plan)
    found = compare(got, want, plan.dtype)
    axes = GRADIENT_AXES.get(name, ("row", "column"))
    found = replace(found, axes=axes) if len(axes) == got.ndim else found
    return demand(found, f"the gradient of `{_spoken(name)}` is wrong{beside}", plan)


def _spoken(name: str) -> str:
    return name.removesuffix(" of the query").replace("x of the key", "x (a key)")


@st.composite
def _plans(draw: st.DrawFn, subject: Subject) -> Plan:
    plan = draw(plans(subject, contents=("normal", "one_hot"), far=False, small=True))
    extra: dict = {"subset": draw(st.integers(0, SUBSETS))}
    if draw(st.booleans()):
        extra["computed"] = True
    if subject.card.double_backward and draw(st.booleans()):
        extra["second"] = True
    return plan.but(extra=extra)


def _applies(subject: Subject) -> str | None:
    if subject.kind == "decoder":
        return "decoders owe no gradient through steps"
    if subject.kind == "score_mod":
        return "its q and k are not its own"
    floats = {"q", "k", "v", "x", "params"} | set(subject.cls(**_settings(subject)).parameters())
    told = floats & subject.asks or (subject.owns_parameters and subject.cls(**_settings(subject)).parameters())
    return None if told else "it has no float input"


def _pinned(subject: Subject) -> list[Plan]:
    """Every subset of few inputs, of many each alone and all; a table shorter than the keys, so that rows repeat."""
    plan = smoke_plan(subject, batch=2, heads=2, query_length=3, key_length=4, head_dim=4)
    count = len(float_names(subject, prepared(subject, plan)))
    each = range(2**count - 1) if count <= MOST_NAMES else (0, *(1 << bit for bit in range(count)))
    found = [plan.but(extra={"subset": subset}) for subset in each]
    found.append(plan.but(extra={"subset": 0, "computed": True}))
    if subject.empty_rows:
        found.append(plan.but(mask="empty", extra={"subset": 0}))
    if subject.card.double_backward:
        found += [plan.but(extra={"subset": subset, "second": True}) for subset in each[: count + 1]]
    if subject.form == "embedding" and plan.query_positions is not None and plan.key_positions is not None:
        # Packed documents: tokens at one position share a row.
        again = {n: tuple(p // 2 for p in getattr(plan, n)) for n in ("query_positions", "key_positions")}
        found.append(plan.but(**again, extra={"subset": 0}))
    return found + _laid(subject, plan) + _over_a_tile(subject)


def _laid(subject: Subject, plan: Plan) -> list[Plan]:
    """Gradients arrive as the next layer leaves them, and inputs are views."""
    arrive = [{"arrives": kind} for kind in ARRIVALS if kind != "contiguous"]
    stored = [{"storage": kind} for kind in STORAGES if kind != "expanded"] if {"q", "k", "x"} & subject.asks else []
    stored += [told for told in ALONE if told["only"] in subject.asks]
    return [plan.but(extra={"subset": 0, **told}) for told in (*arrive, *stored)]


def _over_a_tile(subject: Subject) -> list[Plan]:
    """More keys, or more queries, than a tile holds: what a backward drops at the edge of one is not seen within it."""
    if subject.on_grid or (subject.card.max_length or LONG) < LONG:
        return []
    wide = smoke_plan(subject, batch=1, heads=2, query_length=SHORT, key_length=LONG, head_dim=2)  # queries too if one length
    found = [wide.but(extra={"subset": 0})]
    if wide.causal:
        return found  # a query that sees no key adds nothing
    if "causal" in subject.asks:
        found.append(found[0].but(causal=True))
    if subject.positions != "contiguous" and not subject.one_length:
        at = {"query_positions": tuple(range(LONG)), "key_positions": tuple(range(SHORT))}
        told = at if wide.query_positions is not None else {}
        found.append(found[0].but(query_length=LONG, key_length=SHORT, offset=0, **told))
    return [within_reach(subject, plan) for plan in found]


def _settings(subject: Subject) -> dict:
    return sized(subject.cls, subject.fixed)


def _claimed(subject: Subject) -> str | None:
    if subject.card.gradient is False:
        return "gradient=no"
    return None if subject.arrays == "torch" else "gradients are claimed for torch tensors only"


LAW = Law(
    name="L20",
    title="gradients",
    slug="gradients",
    why="A gradient that is missing or wrong trains something else than what is written, and the loss still falls.",
    statement="The gradient of every input equals the definition's, for every subset of inputs that need one.",
    check=check,
    plans=_plans,
    applies=_applies,
    pinned=_pinned,
    claimed=_claimed,
    share=0.5,
)
