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
    retained_bytes  alive after it while the call itself is kept: gradients of its inputs, and what leaks
    """

    peak_bytes: int
    extra_bytes: int
    largest_bytes: int
    retained_bytes: int = 0

    @property
    def figures(self) -> dict[str, int]:
        """Columns of a row."""
        return {name: getattr(self, name) for name in ("peak_bytes", "extra_bytes", "largest_bytes")}


@dataclass(frozen=True)
class First:
    """The first call of all: output, peak, what is alive after it besides the output (caches), and the largest allocation."""

    output: torch.Tensor
    peak_bytes: int | None = None
    retained_bytes: int | None = None
    largest_bytes: int | None = None


def first_call(call: Callable[[], torch.Tensor], *, traced: bool = True) -> First:
    """Call for the first time; what a later call finds in a cache is allocated here."""
    if not traced:
        return First(call())
    held: list[torch.Tensor] = []
    found = measured(lambda: held.append(call()))
    (output,) = held
    retained_bytes = max(found.retained_bytes - output.untyped_storage().nbytes(), 0)
    return First(output, found.peak_bytes, retained_bytes, found.largest_bytes)


def footprint(fresh: Callable[[], Callable[[], Any]], shape: Shape, output_bytes: int) -> Footprint:
    """Measured on a call whose like was there before, when caches are filled."""
    if shape.device.startswith("cuda"):
        peak, kept = _on_cuda(fresh), 0
        largest = peak
    else:
        gc.collect()
        found = measured(fresh())
        peak, largest, kept = found.peak_bytes, found.largest_bytes, found.retained_bytes
    return Footprint(peak, max(peak - output_bytes, 0), largest, kept)


def leaked_bytes(fresh: Callable[[], Callable[[], Any]]) -> int:
    """Bytes more that are alive after a call and all that belonged to it; the smaller figure of two calls, 0: it keeps none."""

    def whole() -> Any:
        found = fresh()()
        gc.collect()
        return found

    return max(min(measured(whole).retained_bytes for _ in range(2)), 0)


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


def _on_cuda(fresh: Callable[[], Callable[[], Any]]) -> int:
    """By the allocator's own peak, which does not tell single allocations."""
    call = fresh()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    result = call()
    torch.cuda.synchronize()
    peak = torch.cuda.max_memory_allocated() - before
    del result
    return peak
