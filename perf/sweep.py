"""The sweep: which shapes, in which order, how long it will take; rows are written as they come and never measured twice."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from relpos.perf.isolated import measure_isolated
from relpos.perf.measuring import Found, Options
from relpos.perf.point import CONTROL, LIMIT, MODES, THE_LIMIT, Shape, Variant
from relpos.perf.rows import MEASURED, NOT_CERTIFIED, OK, TOO_SLOW, append, done, key, row

LENGTHS, FULL_LENGTHS = (512, 1024, 2048, 4096), (512, 1024, 2048, 4096, 8192, 16384)
PROBE = Shape(key_length=256)  # where the variant that stands for its scheme is found
PROBING = Options(rounds=3, memory=False, accuracy=False)
GROWTH = 4.0  # of a call's time from one length to twice that: what is too slow here is too slow there


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """What is measured."""

    lengths: tuple[int, ...] = LENGTHS
    dtypes: tuple[str, ...] = ("float32",)
    modes: tuple[str, ...] = ("forward",)
    directions: tuple[bool, ...] = (False, True)
    device: str = "cpu"
    batch: int = 1
    heads: int = 8
    head_dim: int = 64

    def shapes(self) -> Iterator[Shape]:
        """All shapes, short ones first, so that a run that is stopped early has something of everything."""
        base = Shape(device=self.device, batch=self.batch, heads=self.heads, head_dim=self.head_dim)
        for length in sorted(self.lengths):
            for mode in (m for m in MODES if m in self.modes):
                for causal in (True,) if mode == "decode" else self.directions:
                    for dtype in self.dtypes:
                        yield base.but(key_length=length, mode=mode, causal=causal, dtype=dtype)


FULL = Sweep(lengths=FULL_LENGTHS, dtypes=("float32", "bfloat16"), modes=MODES)

Progress = Callable[[str, int, int], None]


def representatives(variants: list[Variant], measure: Callable[..., list[Found]] = measure_isolated) -> list[Variant]:
    """One variant of every scheme: the fastest of a probe, causal and not, among those that can be had at all."""
    spent: dict[str, list[float]] = {}
    for causal in (False, True):
        for variant, status, figures in measure(PROBE.but(causal=causal), variants, PROBING):
            if status in MEASURED:
                spent.setdefault(variant.label, []).append(min(figures["samples_ms"]))
    chosen = []
    for scheme in dict.fromkeys(v.scheme for v in variants):
        able = [v for v in variants if v.scheme == scheme and v.label in spent]
        most = max((len(spent[v.label]) for v in able), default=0)
        able = [v for v in able if len(spent[v.label]) == most]  # who can be had in both directions stands for its scheme
        chosen += [min(able, key=lambda v: sum(spent[v.label]))] if able else []
    return chosen


def estimate_s(sweep: Sweep, variants: int, options: Options, limit_ms_at_512: float) -> float:
    """Seconds that a sweep will take, from the limit's own time: most schemes take a few times as long."""
    total = 0.0
    for shape in sweep.shapes():
        area = (shape.key_length / 512) ** 2 if shape.mode != "decode" else shape.key_length / 512
        passes = 3.5 if shape.mode == "forward_backward" else 0.5 if shape.causal else 1.0
        call_ms = min(limit_ms_at_512 * area * passes * TYPICAL, options.most_ms)
        total += (
            (variants + 2) * (options.rounds + CALLS) * call_ms / 1000 + SETUP_S + variants * CHECK_S * shape.key_length / 512
        )
    return total


TYPICAL = 6.0  # times the limit: between a zero-copy bias and a gathered one
CALLS = 6.0  # besides the rounds: warming, checking, memory
SETUP_S = 4.0  # a process that imports torch
CHECK_S = 0.3  # the definition's loops on sampled rows


def run(
    sweep: Sweep,
    variants: list[Variant],
    options: Options,
    path: Path,
    facts: dict[str, Any],
    *,
    refused: dict[str, str],
    progress: Progress = lambda words, number, of: None,
    measure: Callable[..., list[Found]] = measure_isolated,
) -> list[dict[str, Any]]:
    """Measure all that the file does not hold yet, and write each shape's rows when it is through."""
    before = done(path, facts["machine"])
    shapes = list(sweep.shapes())
    written: list[dict[str, Any]] = []
    for number, shape in enumerate(shapes):
        progress(shape.describe(), number, len(shapes))
        missing = [v for v in variants if key(row(facts, v, shape, OK)) not in before]
        if not missing:
            continue
        barred = [(v, NOT_CERTIFIED, {"reason": refused[v.label]}) for v in missing if v.label in refused]
        slow = [
            (v, TOO_SLOW, words) for v in missing if v.label not in refused and (words := _hopeless(v, shape, before, options))
        ]
        out = {v.label for v, _, _ in (*barred, *slow)}
        racing = [v for v in missing if v.label not in out]
        found = measure(shape, racing, options) if racing else []
        rows = [
            row(facts, v, shape, status, **figures) for v, status, figures in _new(found, before, facts, shape, barred, slow)
        ]
        append(path, rows)
        written += rows
        before |= {key(one): one for one in rows}
    progress("done", len(shapes), len(shapes))
    return written


def _new(found: list[Found], before: dict, facts: dict[str, Any], shape: Shape, *more: list[Found]) -> Iterator[Found]:
    """Found rows; a limit that was measured with earlier variants of the shape stays, since their ratios are to that one."""
    have_limit = key(row(facts, THE_LIMIT, shape, OK)) in before
    for one in (*found, *(one for some in more for one in some)):
        if not (have_limit and one[0].label in (LIMIT, CONTROL)):
            yield one


def _hopeless(variant: Variant, shape: Shape, before: dict, options: Options) -> dict[str, Any] | None:
    """What was too slow at half the length needs not be tried, and what grows by the square will be."""
    half = before.get(key(row({}, variant, shape.but(key_length=shape.key_length // 2), OK)))
    if half is None or half.get("latency_ms") is None:
        return None
    expected_ms = half["latency_ms"] * (GROWTH if half["status"] == TOO_SLOW else 1.0)
    if half["status"] == TOO_SLOW or expected_ms > options.most_ms:
        return {"reason": f"{half['latency_ms']:.0f} ms at half the length"}
    return None


def chosen_lengths(texts: Iterable[str]) -> tuple[int, ...]:
    """Lengths from the command line; ValueError with what is wrong."""
    found = []
    for text in texts:
        for part in text.replace(",", " ").split():
            if not part.isdigit() or int(part) < 2:
                raise ValueError(f"--lengths takes whole numbers from 2, such as 512,1024; got {part!r}.")
            found.append(int(part))
    return tuple(sorted(set(found)))


def with_seed(options: Options, seed: int) -> Options:
    """The same options with another seed of inputs and of the order of rounds."""
    return replace(options, seed=seed)
