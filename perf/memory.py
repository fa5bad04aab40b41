"""Memory of one call above its inputs: by replaying the profiler's allocation events, and by a fresh process as a check."""

import gc
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import torch

from relpos.conformance.memory import measured
from relpos.perf.point import Shape

CLEAR, STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")
RESET_PEAK = "5"  # what Linux takes for: forget the highest resident size so far


@dataclass(frozen=True)
class Footprint:
    """Bytes of one call above its inputs.

    peak_bytes      most at one time, output included; extra_bytes: the same without the output
    largest_bytes   the largest single allocation
    retained_bytes  alive after the call and after its output is gone: caches
    backward_bytes  alive between forward and backward, output included; None where there is no backward
    """

    peak_bytes: int
    extra_bytes: int
    largest_bytes: int
    retained_bytes: int
    backward_bytes: int | None = None


def footprint(fresh: Callable[[], Callable[[], Any]], shape: Shape, output_bytes: int) -> Footprint:
    """Measured on the second call of its kind, when caches are filled, and on the first for what they keep."""
    if shape.device.startswith("cuda"):
        return _on_cuda(fresh, output_bytes)
    first = measured(fresh())
    gc.collect()
    again = measured(fresh())
    return Footprint(again.peak_bytes, max(again.peak_bytes - output_bytes, 0), again.largest_bytes, first.retained_bytes)


def kept_for_backward(forward: Callable[[], Any]) -> int:
    """Bytes that a forward call leaves alive while its output lives: what backward will need, the output among it."""
    held: list[Any] = []

    def call() -> None:
        held.append(forward())

    found = measured(call)
    held.clear()
    return found.retained_bytes


def resident_peak_bytes(call: Callable[[], Any]) -> int | None:
    """Growth of the process's resident size at its highest during a call; None where the system does not tell."""
    if not CLEAR.exists():
        return None
    gc.collect()
    try:
        CLEAR.write_text(RESET_PEAK, encoding="ascii")
    except OSError:
        return None
    before = psutil.Process(os.getpid()).memory_info().rss
    result = call()
    peak = _high_water_bytes()
    del result
    return max(peak - before, 0)


def available_bytes() -> int:
    """Memory that can be had without swapping."""
    return psutil.virtual_memory().available


def _high_water_bytes() -> int:
    line = next(line for line in STATUS.read_text(encoding="ascii").splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def _on_cuda(fresh: Callable[[], Callable[[], Any]], output_bytes: int) -> Footprint:
    fresh()()
    call = fresh()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    result = call()
    torch.cuda.synchronize()
    peak = torch.cuda.max_memory_allocated() - before
    del result
    return Footprint(peak, max(peak - output_bytes, 0), peak, torch.cuda.memory_allocated() - before)
