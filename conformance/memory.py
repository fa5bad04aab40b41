"""Peak memory of one call, from the profiler's allocation events: deterministic, and it sees what kernels allocate inside."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import Any

from torch.profiler import ProfilerActivity, profile

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the tracer would report every start and stop on standard error


# What PyTorch says, in C++, of a block that was there before and is let go of: nothing that a reader can act on.
UNKNOWN = b"Memory block of unknown size"


@dataclass(frozen=True)
class Memory:
    """Bytes above what was alive before the call.

    peak_bytes      most at one time, the result among it
    largest_bytes   the largest single allocation
    retained_bytes  what is alive after the call and after its result is gone
    """

    peak_bytes: int
    largest_bytes: int
    retained_bytes: int


def measured(call: Callable[[], Any]) -> Memory:
    """Replay the allocations of one call, and of letting go of what it returned."""
    with _without(UNKNOWN), profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        result = call()
        del result
    found: Any = record.profiler.kineto_results.events()  # type: ignore[union-attr]
    events = [event for event in found if event.name() == "[memory]"]
    alive = peak = largest = 0
    for event in sorted(events, key=lambda e: e.start_ns()):
        alive += event.nbytes()
        peak, largest = max(peak, alive), max(largest, event.nbytes())
    return Memory(peak, largest, alive)


@contextmanager
def _without(unwanted: bytes) -> Iterator[None]:
    """Standard error of the whole process without some lines; the others are passed on at the end."""
    with TemporaryFile() as kept:
        before = os.dup(2)
        os.dup2(kept.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(before, 2)
            kept.seek(0)
            for line in kept:
                if unwanted not in line:
                    os.write(2, line)
            os.close(before)
