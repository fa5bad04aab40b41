"""Measures one shape in a process of its own, so that a variant that is killed for memory takes nobody's figures with it.

The child notes which variant is in hand. When it dies, that variant's row says so, and the others are measured again.
"""

import resource
import signal
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

import torch

from relpos.perf.data import Data, limit
from relpos.perf.measuring import Found, Options, measure
from relpos.perf.memory import available_bytes, resident_peak_bytes
from relpos.perf.point import CONTROL, LIMIT, THE_CONTROL, THE_LIMIT, Shape, Variant
from relpos.perf.rows import FAILED, OOM
from relpos.perf.workload import Workload

SHARE = 0.9  # of the memory that is free: who asks for more is refused by the allocator, not killed with its neighbours
KILLED = -9
SHORT = 64  # length of the call that loads what any call needs

Note = Callable[[str], None]
Measure = Callable[[Shape, list[Variant], Options, Note], Any]


def measure_isolated(shape: Shape, variants: list[Variant], options: Options, *, by: Measure = measure) -> list[Found]:
    """Rows of a shape, whatever its variants do to the process."""
    lost: list[Found] = []
    while True:
        left = [v for v in variants if v.label not in {dead.label for dead, _, _ in lost}]
        found, label, code = _child(shape, left, options, by)
        if found is not None:
            return [*found, *lost]
        dead = next((v for v in left if v.label == label), None)
        if dead is None:  # not even the limit can be had here
            return [*((v, *_epitaph(code, label)) for v in (THE_LIMIT, THE_CONTROL, *left)), *lost]
        lost.append((dead, *_epitaph(code, label)))


def resident_isolated(shape: Shape, variant: Variant, options: Options) -> int | None:
    """Growth of a fresh process at the variant's first call at a shape, in bytes; None where that cannot be had."""
    found, _, _ = _child(shape, [variant], options, _resident)
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


def _child(shape: Shape, variants: list[Variant], options: Options, by: Measure) -> tuple[Any, str, int]:
    """What the child found; if nothing, the variant that it had in hand and its exit code."""
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs, shape, variants, options, by), daemon=True)
    process.start()
    theirs.close()
    label = ""
    try:
        while True:
            kind, value = ours.recv()
            if kind == "found":
                return value, "", 0
            label = value
    except EOFError:
        process.join()
        return None, label, process.exitcode or 0
    finally:
        process.kill()
        process.join()
        ours.close()


def _work(pipe: Connection, shape: Shape, variants: list[Variant], options: Options, by: Measure) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent ends this one and says so
    if shape.device == "cpu":
        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        allowed = int(available_bytes() * SHARE)
        resource.setrlimit(resource.RLIMIT_DATA, (allowed if most < 0 else min(allowed, most), most))
    try:
        pipe.send(("found", by(shape, variants, options, lambda label: pipe.send(("now", label)))))
    except Exception:  # noqa: BLE001 - the exit code says it; who reads rows needs no traceback among them
        raise SystemExit(1) from None


def _epitaph(code: int, label: str) -> tuple[str, dict[str, Any]]:
    where = "" if label else ", before any variant was called"
    if code == KILLED:
        return OOM, {"reason": f"killed by the system, most likely for memory{where}", "exit_code": code}
    return FAILED, {"reason": f"it ended the process (exit code {code}){where}", "exit_code": code}
