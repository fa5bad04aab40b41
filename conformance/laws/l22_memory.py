"""L22: peak memory grows as is claimed."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from hypothesis import strategies as st

from relpos.conformance.answers import prepared
from relpos.conformance.calling import Instance
from relpos.conformance.judge import LawFailure
from relpos.conformance.laws.base import Law
from relpos.conformance.memory import measured
from relpos.conformance.placing import within_reach
from relpos.conformance.plan import Plan
from relpos.conformance.smoke import smoke_plan
from relpos.conformance.subject import Subject

SHORT, LONG = 256, 1024  # positions: short enough for a quarter of a second, long enough that the leading term leads
# What the claim leaves out: constants, lower terms, alignment. Between claims that differ by a factor of L there is 4.
SLACK = 1.5
KEPT = 1 / 8  # of one head's [L, L] in the working dtype: less than that may stay alive


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
    """From a short to a long call, and from few heads to many, the peak grows no faster than any term of the claim."""
    small, large = Plan.from_json(plan.extra["small"]), plan.but(extra={})
    a, b = _memory(subject, small), _memory(subject, large)
    claim = subject.card.memory
    assert claim is not None
    allowed = max(_product(t, _sizes(large)) / _product(t, _sizes(small)) for t in claim.replace(" ", "").split("+"))
    grown = b.peak_bytes / max(a.peak_bytes, 1)
    if grown > SLACK * allowed:
        raise LawFailure(
            f"peak memory grows {grown:.1f}-fold, from {a.peak_bytes:,} to {b.peak_bytes:,} bytes, where {claim} grows "
            f"{allowed:.1f}-fold at most",
            plan=plan,
        )
    square = KEPT * large.query_length * large.key_length * 4
    if b.retained_bytes > square and large.key_length == LONG:
        raise LawFailure(f"{b.retained_bytes:,} bytes stay alive after the call, as much as a score matrix", plan=plan)
    return 0.0


def _memory(subject: Subject, plan: Plan) -> Any:
    given = prepared(subject, plan)
    instance = Instance(subject, given)
    with torch.no_grad():
        first = measured(lambda: instance.tensors(given)[0])
        fresh = Instance(subject, given) if subject.kind == "decoder" else instance
        # What is built once and kept is no cost of a call, but what takes the place of what was kept stays alive all the same.
        later = measured(lambda: fresh.tensors(given)[0])
    return replace(later, retained_bytes=max(first.retained_bytes, later.retained_bytes))


def _sizes(plan: Plan) -> Sizes:
    return Sizes(plan.batch, plan.heads, plan.query_length, plan.key_length, plan.head_dim)


def _product(term: str, sizes: Sizes) -> float:
    product = 1.0
    for factor in term.split("*"):
        product *= float(factor) if factor.isdigit() else getattr(sizes, factor)
    return product


def _pinned(subject: Subject) -> list[Plan]:
    base = smoke_plan(subject, batch=1, heads=2)
    longest = subject.card.max_length or LONG
    if longest < LONG:
        return []
    found = [_pair(_sized(base, SHORT), _sized(base, LONG))]
    if "num_heads" not in subject.fixed and (subject.level != "contribution" or subject.form == "bias"):
        more = smoke_plan(subject, batch=1, heads=8)
        found.append(_pair(_sized(base, SHORT), _sized(more, SHORT)))
    return [plan for plan in (within_reach(subject, p) for p in found) if plan.key_length in (SHORT, LONG)]


def _pair(small: Plan, large: Plan) -> Plan:
    return large.but(extra={"small": small.to_json()})


def _sized(base: Plan, n: int) -> Plan:
    at = tuple(range(n)) if base.query_positions is not None else None
    return base.but(query_length=n, key_length=n, offset=0, query_positions=at, key_positions=at)


def _applies(subject: Subject) -> str | None:
    if subject.arrays != "torch" or subject.device != "cpu" or subject.kind in ("score_mod", "builder"):
        return "measured for torch on a CPU"
    if subject.on_grid:
        return "measured over lengths, not over windows"
    return None if _pinned(subject) else f"measured at {LONG} positions"


def _claims(subject: Subject) -> str | None:
    return None if subject.card.memory else "no growth of memory is claimed"


LAW = Law(
    name="L22",
    title="memory grows as claimed",
    slug="memory",
    why="A kernel is chosen for its memory; if it keeps a score matrix after all, long contexts run out of it.",
    statement="Peak memory grows with length and heads no faster than the card says, and no score matrix stays alive.",
    check=check,
    plans=lambda subject: st.sampled_from(_pinned(subject)),
    applies=_applies,
    claimed=_claims,
    pinned=_pinned,
    share=0.0,
    heavy=True,
)
