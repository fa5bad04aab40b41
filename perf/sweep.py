"""The sweep: which shapes, in which order, how long it will take; rows are written as they come and never measured twice."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
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

    def checks(self, shape: Shape) -> bool:
        """Whether memory is checked against a fresh process at this shape: the longest one of a plain forward call."""
        return shape.mode == "forward" and shape.dtype == self.dtypes[0] and shape.key_length == max(self.lengths)


FULL = Sweep(lengths=FULL_LENGTHS, dtypes=("float32", "bfloat16"), modes=MODES)

Progress = Callable[[str, int, int], None]
Resident = Callable[[Shape, Variant, Options], int | None]
Before = dict[tuple[Any, ...], dict[str, Any]]

MIB = 2**20
PAGES_BYTES = 8 * MIB  # stacks, code and arenas that a first call touches besides its tensors
AGREE = 0.25


def representatives(
    variants: list[Variant], measure: Callable[..., list[Found]] = measure_isolated, known: frozenset[str] = frozenset()
) -> list[Variant]:
    """One variant of every scheme: one that is `known` from earlier rows, or the fastest of a probe, causal and not."""
    chosen = {v.scheme: v for v in reversed(variants) if v.label in known}
    racing = [v for v in variants if v.scheme not in chosen]
    spent: dict[str, list[float]] = {}
    for causal in (False, True) if racing else ():
        for variant, status, figures in measure(PROBE.but(causal=causal), racing, PROBING):
            if status in MEASURED:
                spent.setdefault(variant.label, []).append(min(figures["samples_ms"]))
    for scheme in {v.scheme for v in racing}:
        able = [v for v in racing if v.scheme == scheme and v.label in spent]
        most = max((len(spent[v.label]) for v in able), default=0)
        able = [v for v in able if len(spent[v.label]) == most]  # who can be had in both directions stands for its scheme
        if able:
            chosen[scheme] = min(able, key=lambda v: sum(spent[v.label]))
    return [chosen[scheme] for scheme in dict.fromkeys(v.scheme for v in variants) if scheme in chosen]


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
    resident: Resident | None = None,
) -> None:
    """Measure all that the file does not hold yet, and write each shape's rows when it is through.

    resident   growth of a fresh process, asked for once per variant and direction: at the greatest length
    """
    before = done(path, facts["machine"])
    shapes = list(sweep.shapes())
    for number, shape in enumerate(shapes):
        progress(shape.describe(), number, len(shapes))
        missing = [v for v in variants if not _held(before.get(key(row(facts, v, shape, OK))), v)]
        settled = list(_settled(missing, shape, before, options, refused))
        racing = [v for v in missing if v.label not in {one.label for one, _, _ in settled}]
        found = measure(shape, racing, options) if racing else []
        if resident is not None and sweep.checks(shape):
            found = [_checked(one, shape, options, resident) for one in found]
        rows = [row(facts, v, shape, status, **figures) for v, status, figures in _new(found, before, facts, shape, settled)]
        if rows:
            append(path, rows)
        before |= {key(one): one for one in rows}
    progress("done", len(shapes), len(shapes))


def _held(one: dict[str, Any] | None, variant: Variant) -> bool:
    """Whether a row need not be measured again: it is there, and its source is as it was."""
    return one is not None and one.get("source", "") == variant.source


def _settled(
    missing: list[Variant], shape: Shape, before: Before, options: Options, refused: dict[str, str]
) -> Iterator[Found]:
    """Rows that need no measuring: not certified, or too slow already at half the length."""
    for v in missing:
        if v.label in refused:
            yield v, NOT_CERTIFIED, {"reason": refused[v.label]}
        elif words := _hopeless(v, shape, before, options):
            yield v, TOO_SLOW, words


def _checked(one: Found, shape: Shape, options: Options, resident: Resident) -> Found:
    """With the growth of a fresh process beside the profiler's peak, and a note where they disagree."""
    variant, status, figures = one
    if status not in MEASURED or variant.label == CONTROL:
        return one
    grown, counted = resident(shape, variant, options), figures.get("first_peak_bytes", figures.get("peak_bytes"))
    if grown is None or counted is None:
        return one
    apart = abs(grown - counted) > max(PAGES_BYTES, AGREE * counted)
    said = f"allocations add up to {counted / MIB:.1f} MiB, a fresh process grew by {grown / MIB:.1f}"
    return variant, status, figures | {"resident_bytes": grown} | ({"note": said} if apart else {})


def _new(found: list[Found], before: Before, facts: dict[str, Any], shape: Shape, settled: list[Found]) -> Iterator[Found]:
    """Found rows; a limit that was measured with earlier variants of the shape stays, since their ratios are to that one."""
    have_limit = key(row(facts, THE_LIMIT, shape, OK)) in before
    for one in (*found, *settled):
        if not (have_limit and one[0].label in (LIMIT, CONTROL)):
            yield one


def _hopeless(variant: Variant, shape: Shape, before: Before, options: Options) -> dict[str, Any] | None:
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
