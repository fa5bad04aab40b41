"""How long a sweep will take, said before it begins: from the time of the limit and of a process here, and what variants cost.

Times over the limit are those of our own variants at 512; a call that would take longer than the most is never made.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from time import perf_counter

from relpos.conformance.errors import UsageError
from relpos.perf.accuracy import rows_compared
from relpos.perf.isolated import measure_isolated
from relpos.perf.measuring import Options
from relpos.perf.point import Shape
from relpos.perf.rows import MEASURED
from relpos.perf.sweep import Sweep

AT = Shape(key_length=512)
PROBED_ROUNDS = 5
OF_ALL = (1.3, 1.8, 2.3, 2.7, 3.3, 4.3, 6.0, 8.0, 12.0, 100.0)  # times the limit, by tenths of all variants
OF_ALL_TRAINED = (1.4, 2.2, 2.4, 2.7, 2.8, 2.9, 3.2, 4.3, 6.5, 60.0)
OF_FASTEST = (0.9, 1.4, 1.7, 1.9, 2.0, 2.4, 2.6, 4.0, 8.0, 10.0)  # of the fastest variant of each scheme
# Of a forward call over all pairs. Most variants form what a causal one does not need; a lone query has one row.
PASSES = {"forward": 1.0, "forward_backward": 3.5, "decode": 0.15, "rotation": 0.1}
CAUSAL = 0.75
CALLS = 6  # besides the rounds: first, warming, twice more for the output, and for memory
TWO = 1.4  # variants of a scheme where it is narrowed down: the fastest is often that of least memory too
ABLE = 0.75  # of all variants, those that can be had at a shape
# Seconds of single-threaded Python where a process that imports everything takes START_S to start.
START_S = 3.0
TRACE_S = 0.25  # memory of a variant: two calls under the profiler, and what it collects
ROW_S = 0.1  # the definition of one query row against 512 keys, all heads
PROBE_S = 0.15  # a variant in the probe for the fastest of its scheme
JUDGE_S = 14.0  # a variant at the smoke profile


@dataclass(frozen=True)
class Pace:
    """How fast it goes here: the limit at 512 by dtype, bidirectional, and a process that imports all there is."""

    limit_ms: Mapping[str, float]
    start_s: float

    @property
    def slowness(self) -> float:
        """Of Python here, over where the constants were measured."""
        return self.start_s / START_S


@dataclass(frozen=True, kw_only=True)
class Crowd:
    """What will be measured at every shape: so many of our variants, of so many schemes.

    fastest   whether one stands for its scheme from the beginning; probed: whether that one has yet to be found among `of`
    judged    variants from elsewhere, which are judged before
    """

    variants: int
    schemes: int
    fastest: bool = False
    probed: bool = False
    of: int = 0
    judged: int = 0


def pace(options: Options, dtypes: Iterable[str], device: str = "cpu") -> Pace:
    """Measured in a process for each dtype, as everything will be; UsageError where not even the limit can be had."""
    how = Options(rounds=PROBED_ROUNDS, threads=options.threads, memory=False)
    found: dict[str, float] = {}
    start_s = 0.0
    for dtype in dtypes:
        began = perf_counter()
        (_, status, figures), *_ = measure_isolated(AT.but(dtype=dtype, device=device), [], how)
        if status not in MEASURED:
            said = f"attention without positions cannot be measured here in {dtype}, and nothing without it"
            raise UsageError(f"{said}: {figures.get('reason', status)}.")
        found[dtype] = figures["latency_ms"]
        spent_s = (2 * PROBED_ROUNDS + CALLS) * found[dtype] / 1000
        start_s = start_s or perf_counter() - began - spent_s
    return Pace(found, max(start_s, 0.0))


def estimate_s(sweep: Sweep, shapes: Iterable[Shape], crowd: Crowd, options: Options, here: Pace) -> float:
    """Seconds that measuring the crowd at these shapes of a sweep will take, judging and probing among them."""
    total = crowd.judged * JUDGE_S * here.slowness
    if crowd.probed:
        total += 2 * (here.start_s + crowd.of * PROBE_S * here.slowness)
    return total + sum(_shape_s(sweep, shape, crowd, options.at(shape), here) for shape in shapes)


def _shape_s(sweep: Sweep, shape: Shape, crowd: Crowd, options: Options, here: Pace) -> float:
    limit_ms, calls = _limit_ms(shape, here), options.rounds + CALLS
    made = [(n, ms) for n, ratio in _racing(sweep, shape, crowd) if (ms := limit_ms * ratio) <= options.most_ms]
    if limit_ms > options.most_ms or not made:
        return 0.0
    number, all_ms = sum(n for n, _ in made), sum(n * ms for n, ms in made)
    row_s = rows_compared(shape.key_length) * ROW_S * shape.key_length / AT.key_length
    python_s = (number * TRACE_S + min(crowd.schemes, number) * row_s) * here.slowness
    checked = sweep.checks(shape) and shape.causal == sweep.directions[0]  # most are, in the first direction
    alone_s = number * here.start_s + 2 * all_ms / 1000 if checked else 0.0
    return here.start_s + calls * (all_ms + 2 * limit_ms) / 1000 + python_s + alone_s


def _racing(sweep: Sweep, shape: Shape, crowd: Crowd) -> list[tuple[float, float]]:
    """How many variants there are of each time over the limit."""
    every = OF_ALL_TRAINED if shape.mode == "forward_backward" else OF_ALL
    able = 1.0 if crowd.fastest else ABLE
    number = min(TWO * crowd.schemes, crowd.variants) if sweep.narrowed(shape) else crowd.variants
    ours = OF_FASTEST if crowd.fastest or sweep.narrowed(shape) else every
    groups = (number * able, ours), (crowd.judged * ABLE, every[:-1])
    return [(share / len(ratios), ratio) for share, ratios in groups for ratio in ratios]


def _limit_ms(shape: Shape, here: Pace) -> float:
    long = shape.key_length / AT.key_length
    area = long if shape.mode in ("decode", "rotation") else long**2
    half = CAUSAL if shape.causal and shape.mode != "decode" else 1.0
    return here.limit_ms[shape.dtype] * area * half * PASSES[shape.mode]


def in_words(seconds: float) -> str:
    """About how long."""
    return f"about {seconds:.0f} s" if seconds < 90 else f"about {seconds / 60:.0f} min"
