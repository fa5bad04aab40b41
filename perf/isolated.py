"""Measures one shape in a process of its own, so that a variant that is killed or hangs takes nobody's figures with it.

The child notes which variant is in hand. When it dies, or says nothing for too long and is ended, that variant's row says so,
and the others are measured again.
"""

import os
import resource
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from time import monotonic
from typing import Any

import torch

from relpos.perf.data import Data, limit
from relpos.perf.measuring import Found, Options, measure
from relpos.perf.memory import available_bytes, resident_peak_bytes
from relpos.perf.point import CONTROL, LIMIT, THE_CONTROL, THE_LIMIT, Shape, Variant
from relpos.perf.rows import FAILED, OOM, TOO_SLOW
from relpos.perf.workload import Workload

SHARE = 0.9  # of the memory that is free: who asks for more is refused by the allocator, not killed with its neighbours
KILLED = -9
LEAST_S = 60.0  # that a process is waited for, whatever the options say
GENEROUS = 2.0  # times what a right variant may take between two notes: a machine that is busy cuts nobody
CALLS = 5  # at most between two notes: for its output, at another address, for its memory
LOOK_S = 0.5  # between two looks whether a process is alive: what it has started may hold its pipe open
SHORT = 64  # length of the call that loads what any call needs

Note = Callable[[str], None]
Measure = Callable[[Shape, list[Variant], Options, Note], Any]


@dataclass(frozen=True)
class End:
    """How a process ended that found nothing: which variant it had in hand, and its exit code.

    silent_s   seconds after which it was ended; 0: it ended by itself
    """

    label: str = ""
    code: int = 0
    silent_s: float = 0.0


def patience_s(options: Options) -> float:
    """How long a process is waited for between two notes: more than building a variant and its calls may take."""
    return max(LEAST_S, GENEROUS * (options.most_s + CALLS * options.most_ms / 1000))


def measure_isolated(shape: Shape, variants: list[Variant], options: Options, *, by: Measure = measure) -> list[Found]:
    """Rows of a shape, whatever its variants do to the process."""
    lost: list[Found] = []
    while True:
        left = [v for v in variants if v.label not in {dead.label for dead, _, _ in lost}]
        found, end = _child(shape, left, options, by)
        if found is not None:
            return [*found, *lost]
        dead = next((v for v in left if v.label == end.label), None)
        if dead is None:  # not even the limit can be had here
            return [*((v, *_epitaph(end)) for v in (THE_LIMIT, THE_CONTROL, *left)), *lost]
        lost.append((dead, *_epitaph(end)))


def resident_isolated(shape: Shape, variant: Variant, options: Options) -> int | None:
    """Growth of a fresh process at the variant's first call at a shape, in bytes; None where that cannot be had."""
    found, _ = _child(shape, [variant], options, _resident)
    return found


def _resident(shape: Shape, variants: list[Variant], options: Options, note: Note) -> int | None:
    del note
    torch.set_num_threads(options.threads)
    (variant,) = variants
    short, data = shape.but(key_length=SHORT), Data(shape, options.seed)
    if variant.label in (LIMIT, CONTROL):
        limit(short, Data(short, 0))()
        return resident_peak_bytes(limit(shape, data))
    Workload(variant, short).call(Data(short, 0))()
    return resident_peak_bytes(Workload(variant, shape).call(data))


def _child(shape: Shape, variants: list[Variant], options: Options, by: Measure) -> tuple[Any, End]:
    """What the child found; if nothing, how it ended."""
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs, shape, variants, options, by), daemon=True)
    process.start()
    theirs.close()
    label, patience = "", patience_s(options)
    try:
        while _says(ours, process, monotonic() + patience):
            kind, value = ours.recv()
            if kind == "found":
                return value, End()
            label = value
        return None, End(label, KILLED, patience)
    except EOFError:
        process.join()
        return None, End(label, process.exitcode or 0)
    finally:
        _end(process)
        ours.close()


def _says(pipe: Connection, process: BaseProcess, deadline: float) -> bool:
    """Whether there is a message before the deadline; EOFError: the process is dead, whoever else holds the pipe."""
    while not pipe.poll(LOOK_S):
        if process.exitcode is not None and not pipe.poll():
            raise EOFError
        if monotonic() > deadline:
            return False
    return True


def _end(process: BaseProcess) -> None:
    """With all that it has started."""
    if process.pid is not None:
        with suppress(OSError):  # it is gone, or had no time to begin a group
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.join()


def _work(pipe: Connection, shape: Shape, variants: list[Variant], options: Options, by: Measure) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent ends this one and says so
    os.setpgid(0, 0)  # a group of its own: it is ended with all that it has started
    if shape.device == "cpu":
        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        allowed = int(available_bytes() * SHARE)
        resource.setrlimit(resource.RLIMIT_DATA, (allowed if most < 0 else min(allowed, most), most))
    try:
        pipe.send(("found", by(shape, variants, options, lambda label: pipe.send(("now", label)))))
    except (Exception, KeyboardInterrupt):  # noqa: BLE001 - the exit code says it; who reads rows needs no traceback
        raise SystemExit(1) from None


def _epitaph(end: End) -> tuple[str, dict[str, Any]]:
    where, code = "" if end.label else ", before any variant was called", {"exit_code": end.code}
    if end.silent_s:
        return TOO_SLOW, {"reason": f"did not return within {end.silent_s:.0f} s{where}", **code}
    if end.code == KILLED:
        return OOM, {"reason": f"killed by the system, most likely for memory{where}", **code}
    return FAILED, {"reason": f"it ended the process (exit code {end.code}){where}", **code}
