"""How long a sweep will take, said before it begins: from the time of the limit here, and from what other steps cost."""

from collections.abc import Iterable

from relpos.perf.measuring import Options, measure
from relpos.perf.point import Shape
from relpos.perf.rows import MEASURED

AT = Shape(key_length=512)
TYPICAL = 6.0  # times the limit: between a zero-copy bias and a gathered one
CALLS = 7.0  # besides the rounds: warming, checking, memory
PROCESS_S = 4.0  # one that imports torch
CHECK_S = 0.3  # the definition's loops on sampled rows, at 512
JUDGE_S = 20.0  # a variant at the smoke profile


def limit_ms(options: Options) -> float:
    """Time of the limit at 512, float32, bidirectional."""
    ((_, status, figures), *_) = measure(AT, [], Options(rounds=5, threads=options.threads, memory=False))
    assert status in MEASURED, figures
    return figures["latency_ms"]


def estimate_s(shapes: Iterable[Shape], variants: int, options: Options, at_512_ms: float, *, alone: int = 0) -> float:
    """Seconds that measuring so many variants at these shapes will take, `alone` of the points in a process of their own."""
    total = alone * PROCESS_S
    for shape in shapes:
        long = shape.key_length / AT.key_length
        area = long if shape.mode == "decode" else long**2
        passes = 3.5 if shape.mode == "forward_backward" else 0.5 if shape.causal else 1.0
        call_ms = min(at_512_ms * area * passes * TYPICAL, options.most_ms)
        total += PROCESS_S + (variants + 2) * (options.rounds + CALLS) * call_ms / 1000 + variants * CHECK_S * long
    return total


def in_words(seconds: float) -> str:
    """About how long."""
    return f"about {seconds:.0f} s" if seconds < 90 else f"about {seconds / 60:.0f} min"
