"""The sweep: which shapes, in which order, how long it will take; rows are written as they come and never measured twice."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from relpos.perf.ahead import Before, settled_ahead
from relpos.perf.isolated import measure_isolated
from relpos.perf.measuring import Found, Options
from relpos.perf.point import ATTENTION, CONTROL, LIMIT, MODES, THE_LIMIT, Shape, Variant
from relpos.perf.rows import MEASURED, OK, append, done, key, row

LENGTHS = (512, 1024, 2048, 4096)
FULL_LENGTHS = (*LENGTHS, 8192, 16384)
ONE_WAY: dict[str, tuple[bool, ...]] = {"decode": (True,), "rotation": (False,)}
PROBE = Shape(key_length=256)  # where the variant that stands for its scheme is found
PROBING = Options(rounds=3, memory=False, accuracy=False)


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """What is measured.

    narrow_beyond   beyond this length two of our variants of a scheme go on, the fastest there and that of least memory; in
                    mode forward_backward beyond half of it
    """

    lengths: tuple[int, ...] = LENGTHS
    dtypes: tuple[str, ...] = ("float32",)
    modes: tuple[str, ...] = ("forward",)
    directions: tuple[bool, ...] = (False, True)
    device: str = "cpu"
    batch: int = 1
    heads: int = 8
    head_dim: int = 64
    narrow_beyond: int | None = None

    def shapes(self) -> Iterator[Shape]:
        """All shapes, short ones first, so that a run that is stopped early has something of everything."""
        base = Shape(device=self.device, batch=self.batch, heads=self.heads, head_dim=self.head_dim)
        for length in sorted(self.lengths):
            for mode in (m for m in MODES if m in self.modes):
                for causal in ONE_WAY.get(mode, self.directions):
                    for dtype in self.dtypes:
                        yield base.but(key_length=length, mode=mode, causal=causal, dtype=dtype)

    def checks(self, shape: Shape) -> bool:
        """Whether memory is checked against a fresh process at this shape: the longest one that all variants come to."""
        plain = shape.mode == "forward" and shape.dtype == self.dtypes[0]
        longer = (shape.but(key_length=n) for n in self.lengths if n > shape.key_length)
        return plain and not self.narrowed(shape) and all(map(self.narrowed, longer))

    def narrowed(self, shape: Shape) -> bool:
        """Whether only two variants of a scheme come to this shape."""
        if self.narrow_beyond is None:
            return False
        return shape.key_length * (2 if shape.mode == "forward_backward" else 1) > self.narrow_beyond

    def last_of_all(self, shape: Shape) -> Shape | None:
        """The shape like this one at the greatest length that all variants come to; None: all come to this one."""
        if not self.narrowed(shape):
            return None
        shorter = (shape.but(key_length=n) for n in sorted(self.lengths, reverse=True))
        return next((one for one in shorter if not self.narrowed(one)), None)


FULL = Sweep(lengths=FULL_LENGTHS, dtypes=("float32", "bfloat16"), modes=ATTENTION, narrow_beyond=2048)

Progress = Callable[[str, int, int], None]
Resident = Callable[[Shape, Variant, Options], int | None]

MIB = 2**20
PAGES_BYTES = 8 * MIB  # stacks, code and arenas that a first call touches besides its tensors
AGREE = 0.25


def representatives(
    variants: list[Variant],
    measure: Callable[..., list[Found]] = measure_isolated,
    known: frozenset[str] = frozenset(),
    options: Options = PROBING,
) -> list[Variant]:
    """One variant of every scheme: one that is `known` from earlier rows, or the fastest of a probe, causal and not.

    options   threads and seed of the probe are theirs
    """
    chosen = {v.scheme: v for v in reversed(variants) if v.label in known}
    racing = [v for v in variants if v.scheme not in chosen]
    spent: dict[str, list[float]] = {}
    probing = replace(PROBING, threads=options.threads, seed=options.seed)
    for causal in (False, True) if racing else ():
        for variant, status, figures in measure(PROBE.but(causal=causal), racing, probing):
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

    resident   growth of a fresh process, asked for once per variant: at the greatest length that all come to
    """
    before, shapes = done(path, facts["machine"]), list(sweep.shapes())
    for number, shape in enumerate(shapes):
        progress(shape.describe(), number, len(shapes))
        how = options.at(shape)
        missing, facts = unmeasured(variants, shape, before, how), {**facts, **_asked(how)}
        settled = list(settled_ahead(missing, shape, before, how, refused=refused, last=sweep.last_of_all(shape)))
        racing = [v for v in missing if v.label not in {one.label for one, _, _ in settled}]
        found = measure(shape, racing, how) if racing else []
        if resident is not None and sweep.checks(shape):
            found = [_checked(one, shape, before, options, resident) for one in found]
        rows = [row(facts, v, shape, status, **figures) for v, status, figures in _new(found, before, facts, shape, settled)]
        if rows:
            append(path, rows)
        before |= {key(one): one for one in rows}
    progress("done", len(shapes), len(shapes))


def unmeasured(variants: Iterable[Variant], shape: Shape, before: Before, how: Options) -> list[Variant]:
    """Those without a row at this shape, or whose row is of another source, seed or number of rounds."""
    rows = ((v, before.get(key(row({}, v, shape, OK)))) for v in variants)
    return [v for v, one in rows if one is None or one.get("source", "") != v.source or _otherwise(one, how)]


def _asked(how: Options) -> dict[str, Any]:
    return {"rounds": how.rounds, "seed": how.seed}


def _otherwise(one: Mapping[str, Any], how: Options) -> bool:
    """Whether a row was asked for with other rounds or another seed; rows of before these were written have as many samples."""
    rounds = one.get("rounds", len(one.get("samples_ms", ())) or how.rounds)
    return (rounds, one.get("seed", how.seed)) != (how.rounds, how.seed)


def _has_grown(variant: Variant, shape: Shape, before: Before) -> bool:
    """Whether a fresh process was grown for it in the other direction."""
    other = before.get(key(row({}, variant, shape.but(causal=not shape.causal), OK)), {})
    return "resident_bytes" in other and other.get("source", "") == variant.source


def _checked(one: Found, shape: Shape, before: Before, options: Options, resident: Resident) -> Found:
    """With the growth of a fresh process beside the profiler's peak, and a note where they disagree."""
    variant, status, figures = one
    if status not in MEASURED or variant.label == CONTROL or _has_grown(variant, shape, before):
        return one
    grown, counted = resident(shape, variant, options), figures.get("first_peak_bytes", figures.get("peak_bytes"))
    if grown is None or counted is None:
        return one
    apart = abs(grown - counted) > max(PAGES_BYTES, AGREE * counted)
    said = f"allocations add up to {counted / MIB:.1f} MiB, a fresh process grew by {grown / MIB:.1f}"
    notes = [figures[name] for name in ("note",) if name in figures] + [said] * apart
    return variant, status, figures | {"resident_bytes": grown} | ({"note": "; ".join(notes)} if notes else {})


def _new(found: list[Found], before: Before, facts: dict[str, Any], shape: Shape, settled: list[Found]) -> Iterator[Found]:
    """Found rows; a limit that was measured with earlier variants of the shape stays, since their ratios are to that one."""
    old = before.get(key(row(facts, THE_LIMIT, shape, OK)))
    have_limit = old is not None and not any(name in old and old[name] != facts[name] for name in ("rounds", "seed"))
    for one in (*found, *settled):
        if not (have_limit and one[0].label in (LIMIT, CONTROL)):
            yield one


def chosen_lengths(texts: Iterable[str]) -> tuple[int, ...]:
    """Lengths from the command line, none where nothing was asked for; ValueError with what is wrong."""
    found = []
    for text in texts:
        parts = text.replace(",", " ").split()
        for part in parts or [text]:
            if not (part.isascii() and part.isdecimal()) or int(part) < 2:
                raise ValueError(f"--lengths takes whole numbers from 2, such as 512,1024; got {part!r}.")
            found.append(int(part))
    return tuple(sorted(set(found)))
