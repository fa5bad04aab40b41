"""Latency of several variants at one shape: warmed first, then in rounds of random order with the limit and its control.

Rounds one after another of one variant would drift with the machine; here every round has all variants within seconds of each
other, so that the ratio of two of them is that of pairs. Raw samples are kept.
"""

import gc
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter_ns

import numpy as np
import torch
from scipy.stats import mannwhitneyu
from torch import Tensor

from relpos.perf.checking import sampled
from relpos.perf.point import CONTROL, LIMIT

Clock = Callable[[Callable[[], object]], tuple[float, object]]
Fresh = Callable[[int], Callable[[], object]]  # round → a call with everything bound, on inputs of that round
WARMING = -1  # the round that nobody is timed in
RAISED = (Exception, KeyboardInterrupt)  # Ctrl-C never comes to who measures: it is the variant that raised it
SPREAD = 0.05  # of the median: more median absolute deviation than that is noise, not a figure
DRIFT = 0.01  # probability below which two halves of a run are not of one kind
TIMER = perf_counter_ns
RESOLUTIONS = 100  # a sample shorter than so many ticks of the timer says nothing
FLUSH_BYTES = 256 * 2**20


@dataclass
class Timed:
    """Samples of one variant in ms, in the order of the rounds; warm_ms is the first call after the one that warmed it up.

    error   what a call raised; nothing is timed from then on
    seen    numbers of the outputs of all rounds
    """

    warm_ms: float
    samples_ms: list[float] = field(default_factory=list)
    error: BaseException | None = None
    seen: list[Tensor] = field(default_factory=list)

    @property
    def median_ms(self) -> float:
        """The middle sample."""
        return statistics.median(self.samples_ms)

    @property
    def reasons(self) -> list[str]:
        """Why these samples are no figure to be ranked; none: they are."""
        found, samples = [], np.array(self.samples_ms)
        if (apart := spread(samples)) > SPREAD:
            found.append(f"median absolute deviation {apart:.0%} of the median")
        half = len(samples) // 2
        if half >= 4 and (p := mannwhitneyu(samples[:half], samples[-half:]).pvalue) < DRIFT:
            found.append(f"the halves of the run differ (p = {p:.1g})")
        if samples.min() * 1e6 < RESOLUTIONS * resolution_ns():
            found.append(f"shorter than {RESOLUTIONS} ticks of the timer")
        return found


def spread(samples: Sequence[float] | np.ndarray) -> float:
    """Median absolute deviation over the median: one round that was disturbed moves neither."""
    middle = np.median(samples)
    return float(np.median(np.abs(np.asarray(samples) - middle)) / middle)


def interleaved(
    calls: Mapping[str, Fresh], *, rounds: int, seed: int, device: str = "cpu", most_ms: float = float("inf")
) -> dict[str, Timed]:
    """Samples by label: every variant is warmed, then each round has all of them in an order of its own.

    A variant whose warm call takes longer than `most_ms` gets no rounds: its samples stay empty. One that raises drops out.
    """
    clock = _cuda_ms if device.startswith("cuda") else _cpu_ms
    found = {label: _warmed(fresh, clock) for label, fresh in calls.items()}
    order = np.random.default_rng(seed)
    with _collecting_between():
        for number in range(rounds):
            for label in order.permutation([name for name, one in found.items() if one.error is None]):
                if found[label].warm_ms <= most_ms:
                    _sample(found[label], calls[label], number, clock)
            gc.collect()
    return found


@contextmanager
def _collecting_between() -> Iterator[None]:
    """No collection while a call is timed; what was there before is not looked through again and again in between."""
    enabled = gc.isenabled()
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.unfreeze()
        if enabled:
            gc.enable()


def _warmed(fresh: Fresh, clock: Clock) -> Timed:
    try:
        clock(fresh(WARMING))
        return Timed(clock(fresh(WARMING))[0])
    except RAISED as error:  # of its row alone, and the others go on
        return Timed(0.0, error=error)


def _sample(one: Timed, fresh: Fresh, number: int, clock: Clock) -> None:
    try:
        took_ms, result = clock(fresh(number))
        one.samples_ms.append(took_ms)
        if (numbers := sampled(result)) is not None:
            one.seen.append(numbers)
    except RAISED as error:  # as above
        one.error = error


def ratios(timed: Mapping[str, Timed], label: str, to: str = LIMIT) -> list[float]:
    """Against the limit, round by round."""
    return [a / b for a, b in zip(timed[label].samples_ms, timed[to].samples_ms, strict=True)]


def uneven(found: Sequence[float]) -> list[str]:
    """Why ratios of rounds are no figure to be ranked, by the rule of samples."""
    apart = spread(found) if found else 0.0
    return [f"ratios to the limit: median absolute deviation {apart:.0%} of the median"] if apart > SPREAD else []


def ratio(timed: Mapping[str, Timed], label: str, to: str = LIMIT) -> tuple[float, float]:
    """Against the limit: the ratio of minima and the median of the ratios round by round."""
    return min(timed[label].samples_ms) / min(timed[to].samples_ms), statistics.median(ratios(timed, label, to))


def floor(timed: Mapping[str, Timed]) -> tuple[float, float]:
    """The limit against itself: what differs no more than this differs by chance."""
    return ratio(timed, CONTROL)


def resolution_ns() -> float:
    """Shortest step that the timer can tell."""
    steps = []
    for _ in range(20):
        start = now = TIMER()
        while now == start:
            now = TIMER()
        steps.append(now - start)
    return min(steps)


def _cpu_ms(call: Callable[[], object]) -> tuple[float, object]:
    """And the result: letting go of it is not part of the call."""
    start = TIMER()
    result = call()
    return (TIMER() - start) / 1e6, result


def _cuda_ms(call: Callable[[], object]) -> tuple[float, object]:
    """By events, after what the cache held has been written over."""
    torch.empty(FLUSH_BYTES, dtype=torch.int8, device="cuda").zero_()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    result = call()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end), result
