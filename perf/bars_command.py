"""What `python -m relpos perf --bars` does: measure what the bars are of, in as many rounds as they need, and print each."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import torch

from relpos.conformance import console
from relpos.conformance.errors import UsageError
from relpos.perf import compare
from relpos.perf.arguments import OUT
from relpos.perf.bar_table import table, variants
from relpos.perf.bars import Bar, Reached, held, of_shapes, sized
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
    if options.rounds is not None and options.rounds < ROUNDS:
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
    timed, large = {bar.shape for bar in bars}, sized(bars)
    racing = {
        shape: ([entered[name] for name in labels if name in entered], replace(how, time=shape in timed, memory=shape in large))
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
    """Under the name of each bar a line per variant and place: both statistics, must and aim, and how it ended.

    Then what the limit makes of itself at each place, and why there are figures missing.
    """
    names = list(dict.fromkeys(one.bar.what for one in found))
    found = sorted(found, key=lambda one: names.index(one.bar.what))
    cells = [_cells(one) for one in found]
    widths = [max(map(len, column)) for column in zip(HEAD, *cells, strict=True)]
    yield "\n" + _line(HEAD, widths)
    for what, several in groupby(zip(found, cells, strict=True), key=lambda one: one[0].bar.what):
        yield what
        yield from (_line(each, widths) for _, each in several)
    yield f"{HOLLOW} unstable. A bar of time is missed where the ratio of minima and the median by rounds both miss it."
    floors = {_where(one.bar.shape): "/".join(f"{value:.2f}" for value in one.floor) for one in found if one.floor}
    yield "the limit against itself, the same two: " + ", ".join(f"{where} {values}" for where, values in floors.items())
    for reason in dict.fromkeys(one.reason for one in found if one.reason):
        yield f"not measured: {reason}"


HEAD = ("variant", "where", "ratio", "must/aim", "")
SHORT = {"float32": "f32", "bfloat16": "bf16", "forward": "", "forward_backward": "training"}


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return ("  " + " ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))).rstrip()


def _cells(one: Reached) -> tuple[str, ...]:
    bar = one.bar
    values = (HOLLOW if one.unstable else "") + ("/".join(f"{value:.2f}" for value in one.values) or "–")
    marks = f"{'≥' if bar.at_least else ''}{bar.must:g}/{bar.aim:g}"
    return one.label or bar.labels[0], _where(bar.shape), values, marks, one.word


def _where(s: Shape) -> str:
    words = (str(s.key_length), SHORT[s.dtype], SHORT.get(s.mode, s.mode), "causal" if s.causal and s.mode != "decode" else "")
    return " ".join(word for word in words if word)
