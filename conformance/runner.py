"""Runs laws over a subject: pinned inputs first, then drawn ones, shrunk to the smallest failing input."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from hypothesis import HealthCheck, Phase, Verbosity, configuration, given, seed, settings, target
from hypothesis.errors import Flaky
from hypothesis.stateful import run_state_machine_as_test

from relpos.conformance.errors import AdapterError, Raised, Refused
from relpos.conformance.judge import LawFailure
from relpos.conformance.laws.base import Law
from relpos.conformance.plan import Plan
from relpos.conformance.profiles import Profile
from relpos.conformance.subject import Subject

# Verdicts of one law.
PASS, FAIL, NOT_CLAIMED, NOT_APPLICABLE, REFUSED = "pass", "fail", "not claimed", "not applicable", "refused"
CLIMBS_FROM = 100  # inputs
RESIZING = "L31"  # the one law of what takes a table for one window and gives one for another


@dataclass(frozen=True)
class LawResult:
    """What came of one law: verdict, inputs tried, largest error in units, or the failure."""

    law: Law
    verdict: str
    reason: str = ""
    inputs: int = 0
    refused: int = 0
    largest_units: float = 0.0
    seconds: float = 0.0
    failure: LawFailure | None = None


@dataclass
class _Count:
    """Running totals of one law."""

    inputs: int = 0
    refused: int = 0
    largest: float = 0.0
    refusal: str = ""
    journal: Callable[[Law, Plan], None] | None = None
    best: LawFailure | None = field(default=None)


def run_law(
    law: Law,
    subject: Subject,
    profile: Profile,
    *,
    seed_number: int | None = None,
    journal: Callable[[Law, Plan], None] | None = None,
    shrink: bool = True,
) -> LawResult:
    """Try one law on one subject; without shrinking, the failing input is the first that came."""
    if (subject.kind == "resizer") != (law.name == RESIZING):
        reason = "it resizes tables" if subject.kind == "resizer" else "judged on what resizes a table"
        return LawResult(law, NOT_APPLICABLE, reason)
    for verdict, rule in ((NOT_APPLICABLE, law.applies), (NOT_CLAIMED, law.claimed)):
        if reason := rule(subject):
            return LawResult(law, verdict, reason)
    if law.name in subject.card.unclaimed:
        return LawResult(law, NOT_CLAIMED, "the card does not claim it")
    started, count = perf_counter(), _Count(journal=journal)
    failure = _pinned(law, subject, count)
    if failure is None or shrink:
        # A drawn input is shrunk, so it tells more than a pinned one.
        failure = _drawn(law, subject, profile, seed_number, count, shrink) or failure
    if failure is not None and shrink and law.shorter is not None:
        # To shrink whole histories takes minutes: first the steps that do nothing go, then the sizes are shrunk.
        failure = _shortened(law, subject, failure, count)
        again = _drawn(law, subject, profile, seed_number, count, shrink, failure.plan.extra)
        failure = failure if again is None else _shortened(law, subject, again, count)
    elif failure is not None and shrink:
        # Sizes that were raised to differ shrink badly; if equal ones fail too, they fail smaller.
        again = _drawn(law, subject.but(spread=False), profile, seed_number, count, shrink)
        failure = min(filter(None, (failure, again)), key=_weight)
    seconds = perf_counter() - started
    if failure is not None:
        failure.law = law.name
        return LawResult(law, FAIL, failure.says, count.inputs, count.refused, count.largest, seconds, failure)
    if count.inputs and count.refused == count.inputs:
        return LawResult(law, REFUSED, count.refusal, count.inputs, count.refused, 0.0, seconds)
    return LawResult(law, PASS, "", count.inputs, count.refused, count.largest, seconds)


def _shortened(law: Law, subject: Subject, failure: LawFailure, count: _Count) -> LawFailure:
    """The first shorter input that fails as well, and so on until none does."""
    assert law.shorter is not None
    for plan in law.shorter(failure.plan):
        try:
            _try(law, subject, plan, count)
        except LawFailure as shorter:
            return _shortened(law, subject, shorter, count)
    return failure


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
    return LawResult(law, FAIL if failure else PASS, failure.says if failure else "", 1, failure=failure)


def _pinned(law: Law, subject: Subject, count: _Count) -> LawFailure | None:
    for plan in law.pinned(subject):
        try:
            _try(law, subject, plan, count)
        except LawFailure as failure:
            return failure
    return None


def _drawn(
    law: Law, subject: Subject, profile: Profile, number: int | None, count: _Count, shrink: bool, extra: Any = None
) -> LawFailure | None:
    """The failure that Hypothesis finds; with `extra`, of the law's plans with these steps of a history."""
    tries = profile.inputs_for(law)
    if tries == 0:
        return None
    repeat = settings(
        max_examples=tries,
        stateful_step_count=profile.steps,
        derandomize=number is None,
        database=None,
        deadline=None,
        phases=_phases(tries, shrink and (law.machine is None or extra is not None)),
        suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.nested_given),
        report_multiple_bugs=False,
        print_blob=False,
        verbosity=Verbosity.quiet,
    )
    try:
        with private_storage():
            _test(law, subject, repeat, number, count, extra)()
    except LawFailure as failure:
        return failure
    except Flaky:
        return _flaky(count) if extra is None else None
    return None


def _test(
    law: Law, subject: Subject, repeat: settings, number: int | None, count: _Count, extra: Any = None
) -> Callable[[], None]:
    """What Hypothesis runs: a state machine for histories, a function of one plan otherwise."""
    seeded = seed(number) if number is not None else (lambda run: run)
    if law.machine is not None and extra is None:
        machine = seeded(law.machine(subject, lambda plan, work: _try(law, subject, plan, count, work)))
        return lambda: run_state_machine_as_test(machine, settings=repeat)

    def attempt(plan: Plan) -> None:
        if extra is None:
            target(_try(law, subject, plan, count))
        else:
            plan = plan.but(extra=extra)
            _try(law, subject, plan, count, lambda: _where_it_fits(law, subject, plan))

    return seeded(repeat(given(law.plans(subject))(attempt)))


def _where_it_fits(law: Law, subject: Subject, plan: Plan) -> float:
    """The steps of one history on another input, which they need not fit."""
    try:
        return law.check(subject, plan)
    except LawFailure:
        raise
    except Exception:  # noqa: BLE001 - then it is not a smaller form of that history
        return 0.0


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


def _try(law: Law, subject: Subject, plan: Plan, count: _Count, work: Callable[[], float] | None = None) -> float:
    count.inputs += 1
    if count.journal is not None:
        count.journal(law, plan)
    try:
        largest = law.check(subject, plan) if work is None else work()
    except Refused as refusal:
        count.refused += 1
        count.refusal = str(refusal)
        return 0.0
    except (Raised, AdapterError) as error:
        count.best = LawFailure(_raised(error), plan=plan, facts={"raised": True})
        raise count.best from None
    except LawFailure as failure:
        count.best = failure
        raise
    count.largest = max(count.largest, largest)
    return min(largest, 1e9)


def _raised(error: Any) -> str:
    return f"it raised {error}" if isinstance(error, Raised) else str(error)
