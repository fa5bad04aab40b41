"""L25: ragged lengths and any storage."""

import numpy as np
from hypothesis import strategies as st

from relpos.conformance.answers import answer, definition, prepared, silenced, undeclared
from relpos.conformance.binding import ALONE, STORAGES
from relpos.conformance.expected import AXES
from relpos.conformance.judge import bound_of, compare, compare_within, demand
from relpos.conformance.laws.base import Law
from relpos.conformance.placing import within_reach
from relpos.conformance.plan import Inputs, Plan
from relpos.conformance.sampling import rows_of, sampled
from relpos.conformance.scopes import Scope
from relpos.conformance.smoke import smoke_plan
from relpos.conformance.strategies import takes_groups
from relpos.conformance.subject import Subject
from relpos.conformance.tolerance import C

LENGTHS = (1, 2, 31, 33, 49, 63, 64, 65, 81, 97, 127, 129, 137, 1025)  # tiles of 48 and 80 have a remainder of 1, too
WHOLE_TILE = 128  # has no remainder and costs as much as its neighbours, so that it is tried where more time is given
RAGGED = (33,)  # one key over a tile of 8, 16 or 32
SEVERAL = 137  # keys over several tiles, the last one ragged
STEPS = (127, 1, 1, 8)  # of a decoder: single tokens beside the edge of a tile, then a chunk
WHOLE = 65  # longest that the definition is evaluated at in full
SWEPT = 160  # every length up to it is walked through, on a few rows: tiles need not be powers of two
EDGES = (32, 64, 128, 1024)  # of the usual tiles
ROWS = {"bias": -2, "logits": -2, "output": -2, "rotated query": -2, "rotated key": -2, "embedding": -2, "embedded": -2}


def check(subject: Subject, plan: Plan) -> float:
    """Around the edges of tiles against the definition, on sampled rows; in another storage, against the plain one."""
    given = prepared(subject, plan)
    return _stored(subject, given) if "storage" in plan.extra else _long(subject, given)


def _long(subject: Subject, given: Inputs) -> float:
    plan, padding, largest = given.plan, undeclared(subject, given), 0.0
    got = silenced(answer(subject, given), padding)
    few = plan.query_length > WHOLE or "rows" in plan.extra
    whole = not few or (subject.level == "contribution" and subject.form == "rotation")
    rows = list(range(plan.query_length)) if whole else rows_of(plan.query_length, EDGES, plan.seed)
    says = f"is wrong at a length of {plan.key_length}" + ("" if whole else f" (of its rows, {_listed(rows)} were looked at)")
    for name, want in definition(subject, given if whole else sampled(given, rows), padding=padding[:, rows]).items():
        if subject.card.softmax == "causal" and name in ("bias", "logits"):
            continue  # right up to a constant per query: L1 says how
        value = got[name] if whole else np.take(got[name], rows, axis=ROWS[name])
        largest = max(largest, demand(compare(value, want, plan.dtype), f"the {name} {says}", plan))
    return largest


def _listed(rows: list[int]) -> str:
    return ", ".join(map(str, rows))


def _stored(subject: Subject, given: Inputs) -> float:
    """The same numbers, stored otherwise."""
    if given.plan.extra["storage"] == "expanded":
        given = given.but(k=_one_head(given.k), v=_one_head(given.v))
    plain = given.but(plan=given.plan.but(extra={}))
    whole, got, largest = answer(subject, plain), answer(subject, given), 0.0
    for name, want in definition(subject, plain).items():
        bound = 2 * bound_of(want, given.plan.dtype)
        found = compare_within(got[name], whole[name], bound, name=name, allowed=C[want.kind], axes=AXES[name])
        storage, only = given.plan.extra["storage"], given.plan.extra.get("only")
        one = f"a {storage} `{only}` gives another {name} than a contiguous one"
        says = one if only else f"{storage} tensors give another {name} than contiguous ones"
        largest = max(largest, demand(found, says, given.plan))
    return largest


def _one_head(x: np.ndarray) -> np.ndarray:
    return np.broadcast_to(x[:, :1], x.shape)


def _pinned(subject: Subject) -> list[Plan]:
    base = smoke_plan(subject, batch=1, heads=2)
    longest = subject.card.max_length or max(LENGTHS)
    found = [_of_length(subject, base, n) for n in LENGTHS if n <= longest]
    if {"q", "k", "x"} & subject.asks and subject.arrays == "torch":
        found += [base.but(extra={"storage": kind}) for kind in STORAGES]
        found += [base.but(extra=told) for told in ALONE if told["only"] in subject.asks]
        # A path for shared keys may go wrong with a mask, at one remainder of a tile, alone.
        masked = "random" if "mask" in subject.asks else "none"
        found += [_of_length(subject, base, n).but(mask=masked, extra={"storage": "expanded"}) for n in RAGGED if n <= longest]
    found += [] if longest < SEVERAL else _around(subject)
    return [within_reach(subject, plan) for plan in found]


def _around(subject: Subject) -> list[Plan]:
    """Several tiles of keys with what a kernel treats apart: samples, shared keys, hidden keys, one query, single steps."""
    if not {"q", "k"} <= subject.asks and subject.kind != "decoder":
        return []
    heads = subject.fixed.get("num_heads", 4)
    plan = _of_length(subject, smoke_plan(subject, batch=2, heads=heads), SEVERAL)
    if takes_groups(subject) and heads % 2 == 0:
        plan = plan.but(kv_heads=2 if heads > 2 else 1)
    hiding = [name for name, asked in (("random", "mask"), ("padding", "padding_mask")) if asked in subject.asks]
    found = [plan, *(plan.but(mask=name) for name in hiding)]
    if "causal" in subject.asks:
        found = [*found, *(p.but(causal=True) for p in found)]
    if subject.kind == "decoder":
        return [plan.but(extra={"chunks": STEPS}) for plan in found]
    last = SEVERAL - 1
    if subject.one_length or (subject.positions == "contiguous" and subject.card.corner != "bottom-right"):
        return found
    return [*found, plan.but(query_length=1, offset=last, query_positions=(last,) if plan.query_positions else None)]


def _exhausted(subject: Subject, scope: Scope) -> list[Plan]:
    """Every length, and one whole tile."""
    if not scope.distance:
        return []
    base, longest = smoke_plan(subject, batch=1, heads=2), subject.card.max_length or SWEPT
    lengths = () if subject.kind == "decoder" else range(1, min(longest, SWEPT) + 1)
    found = [_of_length(subject, base, n).but(extra={"rows": "few"}) for n in lengths]
    found += [_of_length(subject, base, WHOLE_TILE)] if longest >= WHOLE_TILE else []
    return [within_reach(subject, plan) for plan in found]


def _covers(plans: list[Plan]) -> str:
    """What a walk over lengths went through, in words."""
    swept = sum("rows" in plan.extra for plan in plans)
    return f"{swept} lengths" if swept else ""


def _of_length(subject: Subject, base: Plan, n: int) -> Plan:
    explicit = base.query_positions is not None
    at = tuple(range(n)) if explicit else None
    return base.but(query_length=n, key_length=n, offset=0, query_positions=at, key_positions=at, seed=n)


def _applies(subject: Subject) -> str | None:
    return "lengths are those of windows" if subject.on_grid else None


LAW = Law(
    name="L25",
    title="ragged lengths, any storage",
    slug="ragged-tiles",
    why="Kernels work in tiles and on views; the last, incomplete tile is where the numbers go wrong.",
    statement="Lengths around the edges of tiles are right, and strided or expanded tensors give what contiguous ones give.",
    check=check,
    plans=lambda subject: st.sampled_from(_pinned(subject)),
    applies=_applies,
    pinned=_pinned,
    exhausted=_exhausted,
    covers=_covers,
    share=0.0,
)
