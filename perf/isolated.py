"""Measures one shape in a process of its own, so that a variant that is killed for memory takes nobody's figures with it.

The child notes which variant is in hand. When it dies, that variant's row says so, and the others are measured again.
"""

import resource
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

from relpos.perf.measuring import Found, Options, measure
from relpos.perf.memory import available_bytes
from relpos.perf.point import Shape, Variant
from relpos.perf.rows import FAILED, OOM

SHARE = 0.9  # of the memory that is free: who asks for more is refused by the allocator, not killed with its neighbours
KILLED = -9

Measure = Callable[[Shape, list[Variant], Options, Callable[[str], None]], list[Found]]


def measure_isolated(shape: Shape, variants: list[Variant], options: Options, *, by: Measure = measure) -> list[Found]:
    """Rows of a shape, whatever its variants do to the process."""
    lost: list[Found] = []
    while True:
        left = [v for v in variants if v.label not in {dead.label for dead, _, _ in lost}]
        found, ended = _child(shape, left, options, by)
        if found is not None:
            return [*found, *lost]
        label, code = ended
        dead = next((v for v in left if v.label == label), None)
        if dead is None:
            raise RuntimeError(f"measuring {shape.describe()} ended with exit code {code} before any variant was in hand")
        lost.append((dead, *_epitaph(code)))


def _child(shape: Shape, variants: list[Variant], options: Options, by: Measure) -> tuple[list[Found] | None, tuple[str, int]]:
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
                return value, ("", 0)
            label = value
    except EOFError:
        process.join()
        return None, (label, process.exitcode or 0)
    finally:
        process.kill()
        process.join()
        ours.close()


def _work(pipe: Connection, shape: Shape, variants: list[Variant], options: Options, by: Measure) -> None:
    if shape.device == "cpu":
        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        allowed = int(available_bytes() * SHARE)
        resource.setrlimit(resource.RLIMIT_DATA, (allowed if most < 0 else min(allowed, most), most))
    pipe.send(("found", by(shape, variants, options, lambda label: pipe.send(("now", label)))))


def _epitaph(code: int) -> tuple[str, dict[str, Any]]:
    if code == KILLED:
        return OOM, {"reason": "killed by the system, most likely for memory"}
    return FAILED, {"reason": f"it ended the process (exit code {code})"}
