"""What `python -m relpos perf --bars` does: measure what the bars are of, in as many rounds as they need, and print each."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from relpos.conformance import console
from relpos.conformance.errors import UsageError
from relpos.perf import compare
from relpos.perf.arguments import OUT
from relpos.perf.bar_table import table, variants
from relpos.perf.bars import Bar, Reached, held, of_shapes
from relpos.perf.begun import Begun, begun
from relpos.perf.measuring import Options
from relpos.perf.peers import peers
from relpos.perf.point import Shape, Variant
from relpos.perf.rows import latest, read
from relpos.perf.show import HOLLOW
from relpos.perf.sweep import Sweep, run, unmeasured
from relpos.perf.variants import refusals

BARS = Path("perf-bars.jsonl")
ROUNDS = 15
OTHERS = ("full", "scheme", "variant", "impl", "given", "claim", "lengths", "dtype", "mode", "peers", "benchmark_json")


def run_bars(options: argparse.Namespace) -> int:
    """Exit code 5 where a bar is missed, 6 where nothing was measured. UsageError on options that choose other points."""
    asked = [f"--{'set' if name == 'given' else name.replace('_', '-')}" for name in OTHERS if getattr(options, name)]
    if asked or options.device != "cpu":
        raise UsageError(f"--bars measures points of its own, on the CPU: leave out {', '.join(asked) or '--device'}.")
    if 0 < options.rounds < ROUNDS or options.rounds < 0:
        raise UsageError(f"--bars needs {ROUNDS} rounds or more; got --rounds {options.rounds}.")
    out = options.out = BARS if options.out == OUT else options.out
    how = Options(rounds=options.rounds or ROUNDS, seed=options.seed, threads=options.threads or torch.get_num_threads(),
                  accuracy=False)  # fmt: skip
    torch.set_num_threads(how.threads)
    bars, (others, lacking) = table(), peers()
    if lacking:
        console.show_lines([f"without {', '.join(lacking.values())}: bars against it are left out"], style="yellow")
    entered = variants(bars, others)
    start = begun(out, device="cpu", threads=how.threads)
    _race(bars, entered, how, out, start)
    found = list(held(bars, latest(read(out)))) if out.exists() else []
    console.show_lines(bar_lines(found))
    if not any(one.values for one in found):
        return compare.NOTHING
    return compare.SLOWER if any(one.word == "missed" for one in found) else 0


def _race(bars: Sequence[Bar], entered: Mapping[str, Variant], how: Options, out: Path, start: Begun) -> None:
    """Measure what the file does not hold yet, the short shapes first."""
    timed = {bar.shape for bar in bars}
    racing = {
        shape: ([entered[name] for name in labels if name in entered], how if shape in timed else replace(how, time=False))
        for shape, labels in of_shapes(bars).items()
    }
    left = {v.label: v for shape, (several, mine) in racing.items() for v in unmeasured(several, shape, start.before, mine)}
    refused = refusals(left.values())
    console.show_lines([f"{len(bars)} bars: {len(entered)} variants at {len(racing)} shapes, {how.rounds} rounds"])
    with console.progress_bar() as bar:
        task = bar.add_task("", total=len(racing))
        for shape, (several, mine) in sorted(racing.items(), key=lambda one: one[0].key_length):
            bar.update(task, description=shape.describe())
            run(_only(shape), several, mine, out, start.facts, refused=refused)
            bar.advance(task)


def _only(shape: Shape) -> Sweep:
    return Sweep(lengths=(shape.key_length,), dtypes=(shape.dtype,), modes=(shape.mode,), directions=(shape.causal,))


def bar_lines(found: Sequence[Reached]) -> Iterator[str]:
    """A line per bar: what, where, whose, both statistics, the limit against itself, the marks, and how it ended."""
    cells = [_cells(one) for one in found]
    head = ("bar", "where", "variant", "minima / pairs", "A/A", "must", "aim", "")
    widths = [max(map(len, column)) for column in zip(head, *cells, strict=True)]
    for line in (head, *cells):
        yield "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
    yield f"\n{HOLLOW} unstable. A bar is missed where both statistics miss it; A/A: the limit against itself, the same two."
    for reason in dict.fromkeys(one.reason for one in found if one.reason):
        yield f"not measured: {reason}"


def _cells(one: Reached) -> tuple[str, ...]:
    s, bar = one.bar.shape, one.bar
    at_least = "≥ " if bar.at_least else ""
    where = f"{s.mode.replace('_', ' + ')}, {'causal' if s.causal else 'bidirectional'}, {s.dtype}, {s.key_length}"
    pair, floor = (" / ".join(f"{value:.2f}" for value in values) or "–" for values in (one.values, one.floor))
    mark = HOLLOW if one.unstable else ""
    return (bar.what, where, one.label or bar.labels[0], mark + pair, floor, f"{at_least}{bar.must:.2f}", f"{bar.aim:.2f}",
            one.word)  # fmt: skip
