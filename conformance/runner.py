"""Runs laws over a subject: pinned inputs, then all of a small scope, then drawn ones, shrunk to the smallest that fails."""

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

from relpos.conformance.deviations import of_witness, staleness, unjudged
from relpos.conformance.errors import UsageError
from relpos.conformance.judge import LawFailure
from relpos.conformance.laws.base import Law
from relpos.conformance.plan import Plan
from relpos.conformance.profiles import Profile
from relpos.conformance.reducing import reduced
from relpos.conformance.scopes import Scope
from relpos.conformance.searching import Count, attempt, drawn
from relpos.conformance.subject import Subject

# Verdicts of one law.
PASS, FAIL, NOT_CLAIMED, NOT_APPLICABLE, REFUSED = "pass", "fail", "not claimed", "not applicable", "refused"
ACCEPTED = "accepted"  # it fails as a declared deviation says, and not otherwise
RESIZING = "L31"  # the one law of what takes a table for one window and gives one for another


@dataclass(frozen=True)
class LawResult:
    """What came of one law: verdict, inputs tried, largest error in units, what was walked through whole, or the failure."""

    law: Law
    verdict: str
    reason: str = ""
    inputs: int = 0
    refused: int = 0
    largest_units: float = 0.0
    seconds: float = 0.0
    failure: LawFailure | None = None
    covered: str = ""


def run_law(
    law: Law,
    subject: Subject,
    profile: Profile,
    *,
    seed_number: int | None = None,
    journal: Callable[[Law, Plan], None] | None = None,
    shrink: bool = True,
) -> LawResult:
    """Try one law on one subject; without shrinking, the failing input is the first that came.

    A failure that an accepted deviation covers is passed over, so that the search goes on for one that is not.
    """
    if (left := _left_out(law, subject)) is not None:
        return (
            LawResult(law, FAIL, failure.says, failure=failure)
            if (failure := unjudged(law.name, subject.accepted, left.reason))
            else left
        )
    started, count = perf_counter(), Count(journal=journal)
    if stale := _stale(law, subject, count):
        return LawResult(law, FAIL, stale.says, count.inputs, 0, count.largest, perf_counter() - started, stale)
    failure = _pinned(law, subject, profile, count)
    if failure is None and profile.scope is not None:
        walked = _walked(law, subject, profile.scope, count)
        if walked is not None:
            walked = reduced(law, subject, walked, count) if shrink else walked
            return _failed(law, walked, count, perf_counter() - started)
    if failure is None:
        failure = drawn(law, subject, profile, seed_number, count, shrink=shrink)
    if failure is not None and shrink and law.shorter is not None:
        # To shrink whole histories takes minutes: first the steps that do nothing go, then the sizes are shrunk.
        failure = _shortened(law, subject, failure, count)
        again = drawn(law, subject, profile, seed_number, count, shrink=shrink, extra=failure.plan.extra)
        failure = failure if again is None else _shortened(law, subject, again, count)
    if failure is not None and shrink:
        failure = reduced(law, subject, failure, count)
    seconds = perf_counter() - started
    if failure is not None:
        return _failed(law, failure, count, seconds)
    if count.inputs and count.refused == count.inputs:
        return LawResult(law, REFUSED, count.refusal, count.inputs, count.refused, 0.0, seconds)
    verdict, reason = _held(count)
    reason = reason or law.note(subject)
    return LawResult(law, verdict, reason, count.inputs, count.refused, count.largest, seconds, covered=count.covered)


def _failed(law: Law, failure: LawFailure, count: Count, seconds: float) -> LawResult:
    failure.law = law.name
    return LawResult(law, FAIL, failure.says, count.inputs, count.refused, count.largest, seconds, failure)


def _held(count: Count) -> tuple[str, str]:
    """The verdict where nothing failed that is not accepted, and what was accepted."""
    return (ACCEPTED, "; ".join(d.summary for d in count.accepted.values())) if count.accepted else (PASS, "")


def _left_out(law: Law, subject: Subject) -> LawResult | None:
    """Why a law is not tried, where it is not."""
    if (subject.kind == "resizer") != (law.name == RESIZING):
        reason = "it resizes tables" if subject.kind == "resizer" else "judged on what resizes a table"
        return LawResult(law, NOT_APPLICABLE, reason)
    for verdict, rule in ((NOT_APPLICABLE, law.applies), (NOT_CLAIMED, law.claimed)):
        if reason := rule(subject):
            return LawResult(law, verdict, reason)
    return LawResult(law, NOT_CLAIMED, "the card does not claim it") if law.name in subject.card.unclaimed else None


def _stale(law: Law, subject: Subject, count: Count) -> LawFailure | None:
    """The first deviation from this law whose witness no longer shows it as declared."""
    for deviation in (d for d in subject.accepted if d.law == law.name):
        failure = None
        try:
            attempt(law, subject.but(accepted=()), Plan.from_json(deviation.witness), count)
        except LawFailure as error:
            failure = error
        except (IndexError, KeyError, ValueError) as error:
            what = f"deviation {deviation.name!r}: its witness is no input of {law.name} ({type(error).__name__}: {error})."
            raise UsageError(f"{what} Take the JSON that a failure of {law.name} printed behind --case.") from None
        if says := staleness(deviation, failure):
            return of_witness(deviation, says, failure)
        count.accepted[deviation.name] = deviation
    return None


def _shortened(law: Law, subject: Subject, failure: LawFailure, count: Count) -> LawFailure:
    """The first shorter input that fails as well, and so on until none does."""
    assert law.shorter is not None
    for plan in law.shorter(failure.plan):
        try:
            attempt(law, subject, plan, count)
        except LawFailure as shorter:
            return _shortened(law, subject, shorter, count)
    return failure


def replay(law: Law, subject: Subject, plan: Plan) -> LawResult:
    """Try one law on one stored plan."""
    count = Count()
    failure = None
    try:
        attempt(law, subject, plan, count)
    except LawFailure as error:
        failure = error
        failure.law = law.name
    verdict, reason = _held(count) if failure is None else (FAIL, failure.says)
    return LawResult(law, verdict, reason, 1, failure=failure)


def _pinned(law: Law, subject: Subject, profile: Profile, count: Count) -> LawFailure | None:
    for plan in [*law.pinned(subject), *(law.rare(subject) if profile.rare else [])]:
        try:
            attempt(law, subject, plan, count)
        except LawFailure as failure:
            return failure
    return None


def _walked(law: Law, subject: Subject, scope: Scope, count: Count) -> LawFailure | None:
    """Every input of the scope, the smallest first: the first that fails is the smallest there is."""
    plans = law.exhausted(subject, scope)
    for plan in plans:
        try:
            attempt(law, subject, plan, count)
        except LawFailure as failure:
            return failure
    count.covered = law.covers(plans)
    return None
