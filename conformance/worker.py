"""The other side of `isolated.py`: imports the implementation, runs the laws, reports as it goes."""

import os
import signal
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from time import monotonic

import torch

from relpos.conformance.breath import breathing
from relpos.conformance.certificate import source_hash
from relpos.conformance.diagnosis import diagnose
from relpos.conformance.errors import AdapterError, UsageError
from relpos.conformance.isolated import COMPLAINTS, Request, described
from relpos.conformance.laws import law
from relpos.conformance.laws.base import Law
from relpos.conformance.loading import load
from relpos.conformance.plan import Plan
from relpos.conformance.profiles import profile
from relpos.conformance.runner import LawResult, replay, run_law
from relpos.conformance.settings import parse_settings
from relpos.conformance.smoke import smoke, smoke_plan
from relpos.conformance.stated import check_input
from relpos.conformance.subject import Subject, plug_in
from relpos.conformance.verdict import Verdict, assumptions, explained
from relpos.spec.registry import schemes

TELL_SECONDS = 0.5


def work(request: Request, pipe: Connection, journal: str, explain: bool) -> None:
    """Judge what is asked for and send every step."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interruption means
    torch.set_num_threads(1)
    with suppress(BrokenPipeError, ConnectionResetError):  # the parent has gone: nobody is left to tell
        _told(request, pipe, Path(journal), explain)


def _told(request: Request, pipe: Connection, journal: Path, explain: bool) -> None:
    try:
        _judge(request, pipe, journal, explain)
    except COMPLAINTS as error:
        pipe.send(("error", error))
    except KeyboardInterrupt:
        pipe.send(("interrupted", None))
    except Exception as error:  # noqa: BLE001 - a judge that fails says so; it never accuses
        pipe.send(("error", AdapterError(f"{request.spec}: the judge itself failed on it ({type(error).__name__}: {error})")))


def _judge(request: Request, pipe: Connection, journal: Path, explain: bool) -> None:
    subject = plugged_in(request)
    breathing(lambda: _touch(journal))
    note(journal, smoke_plan(subject))
    subject = smoke(subject)
    named = described(subject, source_hash(subject))
    verdict = Verdict(named, profile(request.profile), (), 0.0, assumptions(subject), seed=request.seed)
    pipe.send(("subject", verdict))
    failed = False
    for name in request.laws:
        pipe.send(("law", name))
        result = _one(law(name), subject, request, _Noting(pipe, journal))
        # A deviation that is stale needs no explanation.
        failed = failed or (result.failure is not None and "witness" not in result.failure.facts)
        pipe.send(("result", result))
        if request.fail_fast and result.failure is not None:
            break
    pipe.send(("explain", None))
    pipe.send(("explained", _explained(verdict, subject, request) if explain and failed and request.case is None else verdict))


class _Noting:
    """Writes down every input before the implementation sees it, and now and then tells how many there were."""

    def __init__(self, pipe: Connection, journal: Path) -> None:
        self.pipe, self.journal, self.inputs, self.told = pipe, journal, 0, monotonic()

    def __call__(self, plan: Plan) -> None:
        note(self.journal, plan)
        self.inputs += 1
        if monotonic() - self.told > TELL_SECONDS:
            self.told = monotonic()
            self.pipe.send(("inputs", self.inputs))


def plugged_in(request: Request) -> Subject:
    """The subject that a request names; its scheme is the stated one, or that of the card."""
    target, options = load(request.spec), dict(request.options)
    scheme = options.pop("scheme", None) or getattr(target, "__relpos__", {}).get("scheme")
    if scheme is None:
        there = ", ".join(schemes())
        raise UsageError(f"{request.spec} does not say which scheme it implements; add --scheme, one of {there}.")
    given = dict(options.pop("given", {}))
    given |= parse_settings(scheme, request.settings)
    return plug_in(target, spec=request.spec, scheme=scheme, given=given, **options)


def _one(one: Law, subject: Subject, request: Request, noting: _Noting) -> LawResult:
    if request.case is not None:
        plan = Plan.from_json(request.case)
        _checked_case(one, subject, plan)
        noting(plan)
        return replay(one, subject, plan)
    named = profile(request.profile)
    return run_law(one, subject, named, seed_number=request.seed, journal=lambda _, plan: noting(plan))


def _checked_case(one: Law, subject: Subject, plan: Plan) -> None:
    """A stored input that does not fit is the caller's mistake, not the implementation's."""
    if reason := one.applies(subject):
        raise UsageError(f"--case: {one.name} does not apply ({reason}).")
    check_input("--case", plan)


def _explained(verdict: Verdict, subject: Subject, request: Request) -> Verdict:
    if request.fail_fast:  # in a hurry: what it behaves like, not under which other settings every law would hold
        return replace(verdict, diagnosis=diagnose(subject))
    return replace(explained(replace(verdict, subject=subject)), subject=verdict.subject)


def _touch(journal: Path) -> None:
    with suppress(OSError):  # nothing was noted yet
        os.utime(journal)


def note(journal: Path, plan: Plan) -> None:
    """Write down an input before the implementation sees it."""
    fresh = journal.with_suffix(".new")
    fresh.write_text(plan.to_json(), encoding="utf-8")
    os.replace(fresh, journal)  # never half a line
