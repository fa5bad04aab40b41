"""Tries one law on one input, and lets Hypothesis search for an input, or a history, on which it fails."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import HealthCheck, Phase, Verbosity, configuration, given, seed, settings, target
from hypothesis.errors import Flaky
from hypothesis.stateful import run_state_machine_as_test

from relpos.conformance.binding import COLUMNS_APART
from relpos.conformance.deviations import Deviation, size_of
from relpos.conformance.errors import AdapterError, Raised, Refused
from relpos.conformance.judge import LawFailure
from relpos.conformance.laws.base import Law
from relpos.conformance.plan import Plan
from relpos.conformance.profiles import Profile
from relpos.conformance.subject import Subject

CLIMBS_FROM = 100  # inputs


@dataclass
class Count:
    """Running totals of one law."""

    inputs: int = 0
    refused: int = 0
    largest: float = 0.0
    refusal: str = ""
    journal: Callable[[Law, Plan], None] | None = None
    best: LawFailure | None = field(default=None)
    covered: str = ""
    accepted: dict[str, Deviation] = field(default_factory=dict)


def attempt(law: Law, subject: Subject, plan: Plan, count: Count, work: Callable[[], float] | None = None) -> float:
    """Largest error of one input in units of the bound; LawFailure where it fails and no deviation covers that.

    work    what to do in place of the law's whole check
    """
    count.inputs += 1
    if count.journal is not None:
        count.journal(law, plan)
    try:
        largest = _checked(law, subject, plan) if work is None else work()
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


def _checked(law: Law, subject: Subject, plan: Plan) -> float:
    try:
        return law.check(subject, plan)
    except Raised as error:
        if (storage := plan.extra.get("storage")) in COLUMNS_APART:
            raise Refused(f"it declines {storage} tensors: {error}") from error
        raise


def _excused(failure: LawFailure, law: Law, subject: Subject, count: Count) -> float:
    """How large an accepted failure is, for the search to climb; any other failure is raised."""
    for deviation in subject.accepted:
        if deviation.accepts(failure, law.name, subject.cls):
            count.accepted[deviation.name] = deviation
            return min(size_of(failure) or 0.0, 1e9)
    count.best = failure
    raise failure from None


def _raised(error: Any) -> str:
    return f"it raised {error}" if isinstance(error, Raised) else str(error)


def drawn(
    law: Law,
    subject: Subject,
    profile: Profile,
    number: int | None,
    count: Count,
    *,
    shrink: bool,
    climb: bool = True,
    extra: Any = None,
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
        phases=_phases(climb and tries >= CLIMBS_FROM, shrink and (law.machine is None or extra is not None)),
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
    law: Law, subject: Subject, repeat: settings, number: int | None, count: Count, extra: Any = None
) -> Callable[[], None]:
    """What Hypothesis runs: a state machine for histories, a function of one plan otherwise."""
    seeded = seed(number) if number is not None else (lambda run: run)
    if law.machine is not None and extra is None:
        machine = seeded(law.machine(subject, lambda plan, work: attempt(law, subject, plan, count, work)))
        return lambda: run_state_machine_as_test(machine, settings=repeat)

    def one(plan: Plan) -> None:
        if extra is None:
            target(attempt(law, subject, plan, count))
        else:
            plan = plan.but(extra=extra)
            attempt(law, subject, plan, count, lambda: _where_it_fits(law, subject, plan))

    return seeded(repeat(given(law.plans(subject))(one)))


def _where_it_fits(law: Law, subject: Subject, plan: Plan) -> float:
    """The steps of one history on another input, which they need not fit."""
    try:
        return law.check(subject, plan)
    except LawFailure:
        raise
    except Exception:  # noqa: BLE001 - then it is not a smaller form of that history
        return 0.0


def _phases(climb: bool, shrink: bool) -> tuple[Phase, ...]:
    """Climbing takes half of all inputs and stays near one of them: it pays where there are many."""
    return (Phase.generate, *((Phase.target,) if climb else ()), *((Phase.shrink,) if shrink else ()))


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


def _flaky(count: Count) -> LawFailure:
    """The same input gave different verdicts: that is itself a finding."""
    assert count.best is not None
    says = f"{count.best.says}; but not every time: the same call gave different results"
    return LawFailure(says, plan=count.best.plan, comparison=count.best.comparison, facts=count.best.facts)
