"""L22: peak memory grows with length, heads and layers as is claimed, and nothing as large as a score matrix stays alive."""

from collections.abc import Callable
from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from relpos.conformance.answers import prepared
from relpos.conformance.calling import Instance
from relpos.conformance.errors import Raised, Refused
from relpos.conformance.judge import LawFailure
from relpos.conformance.laws.base import Law
from relpos.conformance.memory import Memory, measured
from relpos.conformance.placing import within_reach
from relpos.conformance.plan import Plan
from relpos.conformance.smaller import narrow
from relpos.conformance.smoke import smoke_plan
from relpos.conformance.subject import Subject

# Positions: short enough for a quarter of a second, long enough that the leading term leads.
LENGTHS = (256, 512, 1024)
SHORT, LONG = LENGTHS[0], LENGTHS[-1]
HEADS = (2, 4, 8)
LAYERS = (1, 2, 4)
# What the claim leaves out: constants, lower terms, alignment. Between claims that differ by a factor of L there is 4.
SLACK = 1.5
KEPT = 1 / 8  # of one head's [L, L] in the working dtype: less than that may stay alive
TABLES = 4  # of float32, a row per query and key, may be kept: sine and cosine, each twice as long as was asked for


@dataclass(frozen=True)
class Sizes:
    """What a claim speaks of."""

    B: int
    H: int
    Lq: int
    Lk: int
    D: int

    @property
    def L(self) -> int:
        """Of those who have one length."""
        return self.Lk


def check(subject: Subject, plan: Plan) -> float:
    """The exponent of growth, fitted over a few sizes; and what is left of the very first call."""
    plans = [*map(Plan.from_json, plan.extra["small"]), plan.but(extra={})]
    if plan.extra.get("vary") == "layers":
        return _over_layers(subject, plans[-1], plan)
    vary = "H" if plans[0].heads != plans[-1].heads else "L"
    sizes = [float(p.heads if vary == "H" else p.key_length) for p in plans]
    peaks = [_peak(subject, p) for p in plans]
    claim = subject.card.memory
    assert claim is not None
    terms = claim.replace(" ", "").split("+")
    allowed = max(exponent(sizes, [_product(t, _sizes(p)) for p in plans]) for t in terms)
    _grows(vary, sizes, peaks, allowed, f"{claim} grows like {vary}^{allowed:.2g} at most", plan)
    if vary == "L":
        _kept(subject, plans[-1], plan)
    return 0.0


def exponent(sizes: list[float], values: list[float]) -> float:
    """p of a fit a·size^p by least squares of the logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(np.maximum(values, 1.0)), 1)[0])


def _grows(vary: str, sizes: list[float], peaks: list[float], allowed: float, claimed: str, plan: Plan) -> None:
    found = exponent(sizes, peaks)
    if found > allowed + log(SLACK) / log(sizes[-1] / sizes[0]):
        told = f"peak memory grows like {vary}^{found:.2f}, from {peaks[0]:,.0f} to {peaks[-1]:,.0f} bytes"
        raise LawFailure(f"{told} between {sizes[0]:.0f} and {sizes[-1]:.0f}, where {claimed}", plan=plan)


def _kept(subject: Subject, large: Plan, plan: Plan) -> None:
    """Of a first call, in which caches are filled."""
    kept = _first(subject, large).retained_bytes
    if kept > KEPT * large.query_length * large.key_length * 4 and large.key_length == LONG:
        raise LawFailure(f"{kept:,} bytes stay alive after the call, as much as a score matrix", plan=plan)
    table = 4 * (large.query_length + large.key_length) * _width(subject, large)
    if kept > TABLES * table:
        raise LawFailure(
            f"{kept:,} bytes stay alive after the call, {kept / table:.0f} times what its positions need", plan=plan
        )


def _width(subject: Subject, plan: Plan) -> int:
    """Numbers per position that a table may need: one per head for a bias, one per column for vectors."""
    if subject.level != "contribution":
        return plan.heads + plan.head_dim
    return plan.heads if subject.form == "bias" else plan.head_dim


def _over_layers(subject: Subject, large: Plan, plan: Plan) -> float:
    peaks = [float(_layers(subject, large, n).peak_bytes) for n in LAYERS]
    _grows("layers", [float(n) for n in LAYERS], peaks, 0.0, "one layer after another needs what one needs", plan)
    return 0.0


def _layers(subject: Subject, plan: Plan, count: int) -> Memory:
    """The second pass through some layers, each let go of before the next: what they keep is there already."""
    given = prepared(subject, plan)
    layers = [Instance(subject, given) for _ in range(count)]

    def once() -> None:
        for layer in layers:
            layer.tensors(given)

    with torch.no_grad():
        once()
        return measured(once)


def _peak(subject: Subject, plan: Plan) -> float:
    given = prepared(subject, plan)
    instance = Instance(subject, given)
    with torch.no_grad():
        instance.tensors(given)  # what is built once and kept is no cost of a call
        return float(max(_call(subject, instance, given).peak_bytes, 1))


def _first(subject: Subject, plan: Plan) -> Memory:
    given = prepared(subject, plan)
    with torch.no_grad():
        Instance(subject, given).tensors(prepared(subject, _sized(plan, 2)))  # what a first call of any size loads
        return _call(subject, Instance(subject, given), given)


def _call(subject: Subject, instance: Instance, given: Any) -> Memory:
    fresh = Instance(subject, given) if subject.kind == "decoder" else instance
    return measured(lambda: fresh.tensors(given)[0])


def _sizes(plan: Plan) -> Sizes:
    return Sizes(plan.batch, plan.heads, plan.query_length, plan.key_length, plan.head_dim)


def _product(term: str, sizes: Sizes) -> float:
    product = 1.0
    for factor in term.split("*"):
        product *= float(factor) if factor.isdigit() else getattr(sizes, factor)
    return product


def _pinned(subject: Subject) -> list[Plan]:
    base = smoke_plan(subject, batch=1, heads=HEADS[0])
    if (subject.card.max_length or LONG) < LONG:
        return []
    longer = _series(subject, [_sized(base, n) for n in LENGTHS])
    found = [longer] if longer is not None else []
    if "num_heads" not in subject.fixed and (subject.level != "contribution" or subject.form == "bias"):
        more = _series(subject, [_sized(smoke_plan(subject, batch=1, heads=n), SHORT) for n in HEADS])
        found += [more] if more is not None and more.heads > base.heads else []
    if longer is not None and subject.kind == "module":
        found.append(_sized(longer, SHORT).but(extra={"small": (), "vary": "layers"}))
    return found


def _smaller(subject: Subject, plan: Plan) -> list[Plan]:
    """The same lengths with one head and as few columns as there can be; heads stay where they are what grows."""
    small = [Plan.from_json(text) for text in plan.extra["small"]]
    if plan.extra.get("vary") == "layers" or small[0].heads != plan.heads:
        return []
    found = _series(subject, [narrow(subject, one) for one in (*small, plan.but(extra={}))])
    return [] if found is None else [found]


def _series(subject: Subject, plans: list[Plan]) -> Plan | None:
    reached = [within_reach(subject, p) for p in plans]
    if [p.key_length for p in reached] != [p.key_length for p in plans]:
        return None
    return reached[-1].but(extra={"small": tuple(p.to_json() for p in reached[:-1])})


def _sized(base: Plan, n: int) -> Plan:
    at = tuple(range(n)) if base.query_positions is not None else None
    return base.but(query_length=n, key_length=n, offset=0, query_positions=at, key_positions=at, extra={})


def _applies(subject: Subject) -> str | None:
    if subject.arrays != "torch" or subject.device != "cpu" or subject.kind in ("score_mod", "builder"):
        return "measured for torch on a CPU"
    if subject.on_grid:
        return "measured over lengths, not over windows"
    return None if _pinned(subject) else f"measured at {LONG} positions"


def _claims(subject: Subject) -> str | None:
    return None if subject.card.memory else "no growth of memory is claimed"


def _note(subject: Subject) -> str:
    """Not a failure, but slow: what was kept for a long call is built again after a short one."""
    long = _pinned(subject)[0].but(extra={})
    calls = [prepared(subject, p) for p in (long, within_reach(subject, _sized(long, SHORT)), long)]
    instance: Instance = Instance(subject, calls[0])
    again: Callable[[], Any] = lambda: instance.tensors(calls[2])[0]  # noqa: E731
    try:
        with torch.no_grad():
            for given in calls[:2]:
                instance.tensors(given)
            rebuilt = subject.kind != "decoder" and measured(again).retained_bytes > 4 * SHORT
    except (Raised, Refused):
        return ""  # other laws say so
    return "a table is built anew after every shorter call" if rebuilt else ""


LAW = Law(
    name="L22",
    title="memory grows as claimed",
    slug="memory",
    why="A kernel is chosen for its memory; if it keeps a score matrix after all, long contexts run out of it.",
    statement="Peak memory grows with length, heads and layers no faster than the card says, and no score matrix stays alive.",
    check=check,
    plans=lambda subject: st.sampled_from(_pinned(subject)),
    applies=_applies,
    claimed=_claims,
    pinned=_pinned,
    note=_note,
    share=0.0,
    heavy=True,
    smaller=_smaller,
)
