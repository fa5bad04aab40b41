"""Makes a failing input smaller, step by step, as long as the same law fails in the same way.

Hypothesis shrinks what it drew; inputs that are always tried, or walked through, have never been drawn, and sizes that a draw
ties together shrink badly. A fixed number of tries and never a time, so that a message repeats.
"""

import re
from functools import cache
from typing import Any

from relpos.conformance.errors import AdapterError, Raised, Refused, UsageError
from relpos.conformance.expected import forms_levels
from relpos.conformance.faults.api import Fault
from relpos.conformance.judge import LawFailure
from relpos.conformance.laws.base import Law
from relpos.conformance.placing import flat
from relpos.conformance.plan import Plan
from relpos.conformance.planting import plant
from relpos.conformance.searching import Count, attempt
from relpos.conformance.smaller import smaller
from relpos.conformance.subject import Subject

TRIES = 100
NUMBERS = re.compile(r"[\d, ]+")  # that an error names: sizes are what changes


def reduced(law: Law, subject: Subject, failure: LawFailure, count: Count, *, tries: int = TRIES) -> LawFailure:
    """The failure of the smallest input that so many tries come to; of laws that measure or compile, among a few."""
    if law.heavy:
        return _first(law, subject, failure, count)
    right, seen = _right(law, subject), {failure.plan.to_json()}
    if not _fair(law, right, failure.plan):
        right = None  # what it cannot answer as asked, such as in half precision, it cannot witness
    while tries > 0:
        for plan in smaller(subject, failure.plan):
            told = plan.to_json()
            if told in seen or weight(plan) >= weight(failure.plan):
                continue
            if tries == 0:
                return failure
            tries -= 1
            seen.add(told)
            found = _failing(law, subject, plan, count)
            if found is not None and _alike(found, failure) and _fair(law, right, found.plan):
                failure = found
                break
        else:
            return failure
    return failure


def _first(law: Law, subject: Subject, failure: LawFailure, count: Count) -> LawFailure:
    """The failure of the first of the law's own smaller inputs, the smallest first, that fails alike."""
    for plan in law.smaller(subject, failure.plan):
        if weight(plan) < weight(failure.plan):
            found = _failing(law, subject, plan, count)
            if found is not None and _alike(found, failure):
                return found
    return failure


def weight(plan: Plan) -> tuple[int, int, int, int, int]:
    """How much there is to look at: cells (of the longest step), sizes, words, positions, numbers among the settings."""
    queries = max(plan.extra.get("chunks", (plan.query_length,)))
    axes = (plan.batch, plan.heads, queries, plan.key_length, plan.head_dim)
    size = 1
    for n in axes:
        size *= n
    told = len(plan.to_json())
    numbers = sum(_whole(value) for value in (*plan.settings.values(), plan.extra.get("source_window")))
    return size, sum(axes), told, sum(flat(plan.query_positions) + flat(plan.key_positions)), numbers


def _whole(value: Any) -> int:
    """Whole numbers of a setting, added up."""
    if isinstance(value, (tuple, list)):
        return sum(map(_whole, value))
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _failing(law: Law, subject: Subject, plan: Plan, count: Count) -> LawFailure | None:
    """The failure on an input; None where the law holds, it is refused, or the input makes no sense to the law."""
    best = count.best
    try:
        attempt(law, subject, plan, count)
    except LawFailure as failure:
        return failure
    except Exception:  # noqa: BLE001 - a law that cannot lay out such an input has not been broken by it
        count.best = best
    return None


def _alike(found: LawFailure, failure: LawFailure) -> bool:
    """Whether both raise, and the same, or both differ; an input may become one that nobody can be called with."""
    raised = [bool(one.facts.get("raised")) for one in (found, failure)]
    if raised == [True, True]:
        return NUMBERS.sub("", found.says) == NUMBERS.sub("", failure.says)
    return not any(raised) and weight(found.plan) < weight(failure.plan)


@cache
def _definition(scheme: str, level: str, settings: tuple, claims: tuple) -> Subject:
    return plant(scheme, level, Fault("none", "no fault", law="", settings=dict(settings), claims=dict(claims)))


def _right(law: Law, subject: Subject) -> Subject | None:
    """The definition at the same level, if the law speaks of it."""
    if subject.level not in forms_levels(subject.cls):
        return None
    card = subject.card
    claims = {"softmax": card.softmax} if card.softmax == "causal" else {}
    claims |= {"positions": "per_row"} if card.positions == "per_row" else {}
    try:
        right = _definition(subject.scheme, subject.level, tuple(subject.fixed.items()), tuple(claims.items()))
    except (UsageError, AdapterError, TypeError):
        return None
    return right if not (law.applies(right) or law.claimed(right)) else None


def _fair(law: Law, right: Subject | None, plan: Plan) -> bool:
    """Whether the definition itself passes the law there: an input on which it does not tells nothing of anybody."""
    if right is None:
        return True
    try:
        law.check(right, plan)
    except (LawFailure, Raised, Refused, AdapterError):
        return False
    except Exception:  # noqa: BLE001 - the law asks the definition for what it has not got, as of gradients
        return True
    return True
