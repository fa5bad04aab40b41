"""Judges in a process of its own: an implementation that hangs, crashes or leaves cannot take the verdict with it.

The parent never imports what it judges. The worker notes every input before it calls the implementation; when it dies, or
says nothing for longer than the patience, that input is the finding, and a new worker goes on with the next law.
"""

import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from relpos.conformance.errors import AdapterError, UsageError
from relpos.conformance.judge import LawFailure
from relpos.conformance.laws import law
from relpos.conformance.patience import Waiting
from relpos.conformance.plan import Plan
from relpos.conformance.profiles import profile
from relpos.conformance.runner import FAIL, LawResult
from relpos.conformance.subject import Subject
from relpos.conformance.verdict import Verdict
from relpos.conformance.watching import Unwatched, Watch

PATIENCE_SECONDS = 60.0
LOOK_SECONDS = 0.2
EXPLAINING = 5  # times the patience of one call
COMPLAINTS = (AdapterError, UsageError, ValueError)


@dataclass(frozen=True)
class Request:
    """What to judge, by name; options are those of `plug_in`, settings are texts as `--set` takes them."""

    spec: str
    options: Mapping[str, Any] = field(default_factory=dict)
    settings: tuple[str, ...] = ()
    profile: str = "default"
    laws: tuple[str, ...] = ()
    seed: int | None = None
    case: str | None = None
    patience_seconds: float = PATIENCE_SECONDS
    fail_fast: bool = False


@dataclass(frozen=True)
class Described:
    """What stands for an implementation in a process that has not imported it."""

    __relpos__: Mapping[str, Any]
    source_hash: str | None


@dataclass
class _State:
    """What the parent knows so far."""

    verdict: Verdict | None = None
    results: dict[str, LawResult] = field(default_factory=dict)
    now: str = ""  # the law in progress; empty: the smoke gate; "explain": the diagnosis
    done: bool = False
    explain: bool = True


def judge_isolated(request: Request, *, watch: Watch | None = None) -> Verdict:
    """The verdict on an implementation, whatever it does; raises what the gate complains of."""
    watch = Unwatched() if watch is None else watch
    named = [law(name) for name in request.laws]
    chosen = [one.name for one in named or profile(request.profile).laws()]
    started, state = time.perf_counter(), _State()
    with TemporaryDirectory(prefix="relpos-") as folder:
        journal = Path(folder, "journal")
        try:
            while not state.done:
                left = tuple(name for name in chosen if name not in state.results)
                _one_worker(replace(request, laws=left), state, journal, watch)
        except KeyboardInterrupt:
            if state.verdict is None:
                raise
            state.verdict = replace(state.verdict, interrupted=True)
    assert state.verdict is not None
    results = tuple(state.results[name] for name in chosen if name in state.results)
    left = tuple(name for name in chosen if name not in state.results)
    return replace(state.verdict, results=results, unjudged=left, seconds=time.perf_counter() - started)


@cache
def _context() -> Any:
    """Forked from a server that has imported the judge and run nothing: quick, and no thread is lost in the fork."""
    if "forkserver" not in get_all_start_methods():
        return get_context("spawn")
    context = get_context("forkserver")
    context.set_forkserver_preload(["relpos.conformance.worker"])
    return context


def _one_worker(request: Request, state: _State, journal: Path, watch: Watch) -> None:
    from relpos.conformance.worker import work

    context = _context()
    ours, theirs = context.Pipe()
    process = context.Process(target=work, args=(request, theirs, str(journal), state.explain), daemon=True)
    process.start()
    theirs.close()
    try:
        ended = _listen(ours, process, request, state, journal, watch)
    finally:
        process.kill()
        process.join()
        ours.close()
    if ended is not None:
        _blame(ended, request, state, journal, watch)


def _listen(ours: Connection, process: Any, request: Request, state: _State, journal: Path, watch: Watch) -> str | None:
    """Take in messages until the worker is done; otherwise how it ended."""
    waiting = Waiting(process.pid)
    while True:
        try:
            if ours.poll(LOOK_SECONDS):
                if _take(ours.recv(), state, watch):
                    return None
                waiting.hear()
                continue
        except (EOFError, OSError):
            process.join()
            return _ending(process.exitcode)
        if journal.exists():
            waiting.hear(time.monotonic() - (time.time() - journal.stat().st_mtime))
        # Explaining tries many readings, each with all laws, and notes none of them.
        patience = request.patience_seconds * (EXPLAINING if state.now == "explain" else 1)
        if waiting.is_over(patience):
            return f"it did not return within {request.patience_seconds:g} s"


def _take(message: tuple[str, Any], state: _State, watch: Watch) -> bool:
    kind, value = message
    if kind == "error":
        raise value
    if kind == "subject":
        if state.verdict is None:
            state.verdict = value
            watch.begun(value)
    elif kind == "law":
        state.now = value
        watch.trying(law(value))
    elif kind == "inputs":
        watch.tried(value)
    elif kind == "result":
        state.results[value.law.name] = value
        watch.judged(value)
    elif kind == "explain":
        state.now = "explain"
        watch.explaining()
    elif kind == "interrupted" and state.verdict is None:
        raise KeyboardInterrupt
    elif kind in ("explained", "interrupted"):
        assert state.verdict is not None
        explained = replace(value, subject=state.verdict.subject) if kind == "explained" else state.verdict
        state.verdict = replace(explained, interrupted=kind == "interrupted")
        state.done = True
    return state.done


def _blame(ended: str, request: Request, state: _State, journal: Path, watch: Watch) -> None:
    """The law in progress fails on the input that was noted last; the gate has no verdict to give."""
    plan = Plan.from_json(journal.read_text(encoding="utf-8")) if journal.exists() else Plan()
    if not state.now:
        raise AdapterError(f"{request.spec}: {ended} on ordinary inputs ({plan.describe()})." if journal.exists() else
                           f"{request.spec}: {ended} while it was imported.")  # fmt: skip
    if state.now == "explain":
        state.explain = False  # no diagnosis of something that ends the process
        return
    one = law(state.now)
    failure = LawFailure(ended, plan=plan, facts={"as drawn": True})
    failure.law = one.name
    state.results[one.name] = LawResult(one, FAIL, ended, failure=failure)
    watch.judged(state.results[one.name])
    state.done = request.fail_fast


def _ending(code: int | None) -> str:
    if code is not None and code < 0:
        return f"it crashed the interpreter ({signal.Signals(-code).name})"
    return f"it ended the process (exit code {code})"


def described(subject: Subject, source_hash: str | None) -> Subject:
    """A subject that can travel to a process which has not imported the implementation."""
    return subject.but(target=Described(dict(getattr(subject.target, "__relpos__", {})), source_hash))
