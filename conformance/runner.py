"""Runs laws over a subject: pinned inputs, then all of a small scope, then drawn ones, shrunk to the smallest that fails."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from hypothesis import HealthCheck, Phase, configuration, given, seed, settings, target
from hypothesis.errors import Flaky

from relpos.conformance.deviations import Deviation, of_witness, size_of, staleness, unjudged
from relpos.conformance.errors import AdapterError, Raised, Refused, UsageError
from relpos.conformance.judge import LawFailure
from relpos.conformance.laws.base import Law
from relpos.conformance.plan import Plan
from relpos.conformance.profiles import Profile
from relpos.conformance.scopes import Scope
from relpos.conformance.subject import Subject

# Verdicts of one law.
PASS, FAIL, NOT_CLAIMED, NOT_APPLICABLE, REFUSED = "pass", "fail", "not claimed", "not applicable", "refused"
ACCEPTED = "accepted"  # it fails as a declared deviation says, and not otherwise
CLIMBS_FROM = 100  # inputs
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


@dataclass
class _Count:
    """Running totals of one law."""

    inputs: int = 0
    refused: int = 0
    largest: float = 0.0
    refusal: str = ""
    journal: Callable[[Law, Plan], None] | None = None
    best: LawFailure | None = field(default=None)
    covered: str = ""
    accepted: dict[str, Deviation] = field(default_factory=dict)


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
    started, count = perf_counter(), _Count(journal=journal)
    if stale := _stale(law, subject, count):
        return LawResult(law, FAIL, stale.says, count.inputs, 0, count.largest, perf_counter() - started, stale)
    failure = _pinned(law, subject, count)
    if failure is None and profile.scope is not None:
        walked = _walked(law, subject, profile.scope, count)
        if walked is not None:
            return _failed(law, walked, count, perf_counter() - started)
    if failure is None or shrink:
        # A drawn input is shrunk, so it tells more than a pinned one.
        failure = _drawn(law, subject, profile, seed_number, count, shrink) or failure
    if failure is not None and shrink:
        # Sizes that were raised to differ shrink badly; if equal ones fail too, they fail smaller.
        again = _drawn(law, subject.but(spread=False), profile, seed_number, count, shrink)
        failure = min(filter(None, (failure, again)), key=_weight)
    seconds = perf_counter() - started
    if failure is not None:
        return _failed(law, failure, count, seconds)
    if count.inputs and count.refused == count.inputs:
        return LawResult(law, REFUSED, count.refusal, count.inputs, count.refused, 0.0, seconds)
    return LawResult(law, *_held(count), count.inputs, count.refused, count.largest, seconds, covered=count.covered)


def _failed(law: Law, failure: LawFailure, count: _Count, seconds: float) -> LawResult:
    failure.law = law.name
    return LawResult(law, FAIL, failure.says, count.inputs, count.refused, count.largest, seconds, failure)


def _held(count: _Count) -> tuple[str, str]:
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


def _stale(law: Law, subject: Subject, count: _Count) -> LawFailure | None:
    """The first deviation from this law whose witness no longer shows it as declared."""
    for deviation in (d for d in subject.accepted if d.law == law.name):
        failure = None
        try:
            _try(law, subject.but(accepted=()), Plan.from_json(deviation.witness), count)
        except LawFailure as error:
            failure = error
        except (IndexError, KeyError, ValueError) as error:
            what = f"deviation {deviation.name!r}: its witness is no input of {law.name} ({type(error).__name__}: {error})."
            raise UsageError(f"{what} Take the JSON that a failure of {law.name} printed behind --case.") from None
        if says := staleness(deviation, failure):
            return of_witness(deviation, says, failure)
        count.accepted[deviation.name] = deviation
    return None


def _weight(failure: LawFailure) -> tuple[int, int]:
    """How much there is to look at in the input of a failure."""
    plan = failure.plan
    return plan.batch * plan.heads * plan.query_length * plan.key_length * plan.head_dim, len(plan.to_json())


def replay(law: Law, subject: Subject, plan: Plan) -> LawResult:
    """Try one law on one stored plan."""
    count = _Count()
    failure = None
    try:
        _try(law, subject, plan, count)
    except LawFailure as error:
        failure = error
        failure.law = law.name
    verdict, reason = _held(count) if failure is None else (FAIL, failure.says)
    return LawResult(law, verdict, reason, 1, failure=failure)


def _pinned(law: Law, subject: Subject, count: _Count) -> LawFailure | None:
    for plan in law.pinned(subject):
        try:
            _try(law, subject, plan, count)
        except LawFailure as failure:
            return failure
    return None


def _walked(law: Law, subject: Subject, scope: Scope, count: _Count) -> LawFailure | None:
    """Every input of the scope, the smallest first: the first that fails is the smallest there is."""
    plans = law.exhausted(subject, scope)
    for plan in plans:
        try:
            _try(law, subject, plan, count)
        except LawFailure as failure:
            return failure
    count.covered = law.covers(plans)
    return None


def _drawn(law: Law, subject: Subject, profile: Profile, number: int | None, count: _Count, shrink: bool) -> LawFailure | None:
    tries = profile.inputs_for(law)
    if tries == 0:
        return None
    repeat = settings(
        max_examples=tries,
        derandomize=number is None,
        database=None,
        deadline=None,
        phases=_phases(tries, shrink),
        suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.nested_given),
        report_multiple_bugs=False,
        print_blob=False,
    )

    def attempt(plan: Plan) -> None:
        target(_try(law, subject, plan, count))

    run = repeat(given(law.plans(subject))(attempt))
    if number is not None:
        run = seed(number)(run)
    try:
        with private_storage():
            run()
    except LawFailure as failure:
        return failure
    except Flaky:
        return _flaky(count)
    return None


def _phases(tries: int, shrink: bool) -> tuple[Phase, ...]:
    """Climbing takes half of all inputs and stays near one of them: it pays where there are many."""
    climb = (Phase.target,) if tries >= CLIMBS_FROM else ()
    return (Phase.generate, *climb, *((Phase.shrink,) if shrink else ()))


@contextmanager
def private_storage() -> Iterator[None]:
    """Hypothesis keeps notes in `.hypothesis` where the process stands; ours go away again, the user's stay theirs."""
    before = vars(configuration).get("__hypothesis_home_directory")
    with TemporaryDirectory(prefix="relpos-") as folder:
        configuration.set_hypothesis_home_dir(folder)
        try:
            yield
        finally:
            configuration.set_hypothesis_home_dir(before)


def _flaky(count: _Count) -> LawFailure:
    """The same input gave different verdicts: that is itself a finding."""
    assert count.best is not None
    says = f"{count.best.says}; but not every time: the same call gave different results"
    return LawFailure(says, plan=count.best.plan, comparison=count.best.comparison, facts=count.best.facts)


def _try(law: Law, subject: Subject, plan: Plan, count: _Count) -> float:
    count.inputs += 1
    if count.journal is not None:
        count.journal(law, plan)
    try:
        largest = law.check(subject, plan)
    except Refused as refusal:
        count.refused += 1
        count.refusal = str(refusal)
        return 0.0
    except (Raised, AdapterError) as error:
        return _excused(LawFailure(_raised(error), plan=plan, facts={"raised": True}), law, subject, count)
    except LawFailure as failure:
        return _excused(failure, law, subject, count)
    count.largest = max(count.largest, largest)
    return min(largest, 1e9)


def _excused(failure: LawFailure, law: Law, subject: Subject, count: _Count) -> float:
    """How large an accepted failure is, for the search to climb; any other failure is raised."""
    for deviation in subject.accepted:
        if deviation.accepts(failure, law.name, subject.cls):
            count.accepted[deviation.name] = deviation
            return min(size_of(failure) or 0.0, 1e9)
    count.best = failure
    raise failure from None


def _raised(error: Any) -> str:
    return f"it raised {error}" if isinstance(error, Raised) else str(error)
