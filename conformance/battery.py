"""A fixed set of inputs on which behaviours are told apart: distinct sizes, L = 37, both masks, an offset.

A shrunk input fits many mistakes; these fit few. Every entry is a plan that the subject can be given.
"""

from relpos.conformance.placing import within_reach
from relpos.conformance.plan import Plan
from relpos.conformance.smoke import smoke_plan
from relpos.conformance.subject import Subject

LONG = 37


def battery(subject: Subject, **sizes: int) -> list[Plan]:
    """Plans for one subject, in the order they are tried; `sizes` replaces some of those of the smoke gate."""
    base = smoke_plan(subject, **sizes).but(dtype=subject.dtypes[0], seed=3)
    found = [base]
    if not subject.one_length and subject.kind != "decoder":
        found.append(_one_step(subject, base))
    found.append(_long(subject, base))
    if "causal" in subject.asks and not base.causal:
        found += [plan.but(causal=True) for plan in found[:3]]
    if "mask" in subject.asks:
        found += [found[0].but(mask=kind) for kind in ("random", "empty") if kind == "random" or subject.empty_rows]
    if "scale" in subject.asks:
        found.append(found[0].but(scale=0.5))
    return [within_reach(subject, plan) for plan in found]


def _one_step(subject: Subject, base: Plan) -> Plan:
    """One query at the end of the keys: a decode step."""
    explicit = base.query_positions is not None
    last = base.key_length - 1
    told = subject.positions != "contiguous" or subject.card.corner == "bottom-right"
    return base.but(
        query_length=1, offset=last if told and not explicit else 0, query_positions=(last,) if explicit else None, seed=4
    )


def _long(subject: Subject, base: Plan) -> Plan:
    n = min(LONG, subject.card.max_length or LONG)
    explicit = base.query_positions is not None
    positions = tuple(range(n)) if explicit else None
    return base.but(batch=1, query_length=n, key_length=n, offset=0, query_positions=positions, key_positions=positions, seed=5)
