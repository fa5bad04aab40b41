"""What `python -m relpos perf` does: measure, or hold one file of rows against another, or draw it."""

import argparse
from pathlib import Path
from time import perf_counter

import torch

from relpos.conformance import console
from relpos.conformance.errors import UsageError
from relpos.conformance.verdict import EXIT_CODES, INCOMPLETE
from relpos.perf import compare, show
from relpos.perf.ahead import Before
from relpos.perf.bars_command import run_bars
from relpos.perf.begun import Begun, begun, write
from relpos.perf.benchmark_json import dumps
from relpos.perf.chosen import Asked, chosen_options, chosen_sweep, chosen_variants
from relpos.perf.complaints import show_nothing
from relpos.perf.estimate import estimate_s, in_words, pace
from relpos.perf.growth import COLUMNS, growth_lines, growths, write_table
from relpos.perf.isolated import resident_isolated
from relpos.perf.measuring import Options
from relpos.perf.point import CONTROL, LIMIT
from relpos.perf.rows import RowsError, broke, latest, read
from relpos.perf.sweep import Sweep, run, unmeasured
from relpos.perf.variants import CERTIFICATES, refusals

KILLS = Path(__file__).resolve().parent.parent / "reports" / "data" / "kills.csv"

MOST_SEED = 2**32 - 1
BROKE = 1  # exit code: all was tried, and some point failed, was killed or has no certificate


def run_perf(options: argparse.Namespace) -> int:
    """Measure, compare what was measured, or draw it; exit code 2 where what came cannot be read or written."""
    if not 0 <= options.seed <= MOST_SEED:
        raise UsageError(f"--seed takes a whole number from 0 to {MOST_SEED}; got {options.seed}.")
    for name in ("rounds", "threads"):
        if (n := getattr(options, name)) is not None and n < 1:
            raise UsageError(f"--{name} takes a positive whole number; got {n}.")
    for name in ("compare", "figures"):
        if options.bars and getattr(options, name) is not None:
            raise UsageError(f"--{name} looks at what --out holds and measures nothing: leave out --bars.")
    try:
        if options.compare is not None:
            return _compared(options)
        if options.figures is not None:
            return _drawn(options)
        return run_bars(options) if options.bars else _measured(options)
    except KeyboardInterrupt:
        console.show_lines([f"interrupted; {options.out} holds what was measured, the same command goes on from there"])
        return EXIT_CODES[INCOMPLETE]
    except compare.OtherMachine as error:
        return show_nothing(str(error), done="compared", word="machine differs", code=compare.OTHER_MACHINE)
    except RowsError as error:
        raise UsageError(str(error)) from None


def _compared(options: argparse.Namespace) -> int:
    old, new = read(options.compare), read(options.out)
    found = compare.changes(old, new, seed=options.seed)
    lacking = zip((options.compare, options.out), compare.lacking(old, new), strict=True)
    console.show_lines(show.change_lines(found, {str(path): points for path, points in lacking if points}))
    return compare.exit_code(found)


def _drawn(options: argparse.Namespace) -> int:
    from relpos.perf.figures import draw, draw_conformance, draw_kills, left_out

    written = draw(read(options.out), options.figures)
    console.show_lines([*map(str, written), *left_out(written)])
    for drawn, source in ((draw_conformance, CERTIFICATES), (draw_kills, KILLS)):
        try:
            console.show_lines(map(str, drawn(source, options.figures)))
        except RowsError as error:  # an installed relpos has neither
            console.show_lines([f"not drawn: {error}"])
    return 0 if written else compare.NOTHING


def _measured(options: argparse.Namespace) -> int:
    sweep, how, asked = chosen_sweep(options), chosen_options(options), chosen_variants(options)
    torch.set_num_threads(how.threads)
    start = begun(options.out, device=options.device, threads=how.threads)
    try:
        return _all(options, sweep, how, start, asked)
    except UsageError:
        start.undo(options.out)
        raise


def _all(options: argparse.Namespace, sweep: Sweep, how: Options, start: Begun, asked: Asked) -> int:
    before = start.before
    known = frozenset(variant for variant, *_ in before)
    words, seconds = _estimate(asked, known, sweep, how, before)
    console.show_lines([words])
    began = perf_counter()
    variants = asked.settled(known, how)
    left = [v for v in variants if any(unmeasured([v], shape, before, how.at(shape)) for shape in sweep.shapes())]
    refused = refusals(left)
    console.show_lines([show.plan_line(sweep, variants, how)])
    with console.progress_bar() as bar:
        task = bar.add_task("", total=None)

        def report(words: str, number: int, of: int) -> None:
            bar.update(task, description=words, completed=number, total=of)

        run(sweep, variants, how, options.out, start.facts, refused=refused, progress=report, resident=resident_isolated)
    if seconds:
        console.show_lines([f"it took {in_words(perf_counter() - began)}; estimated were {in_words(seconds)}"])
    return _reported(options)


def _estimate(asked: Asked, known: frozenset[str], sweep: Sweep, how: Options, before: Before) -> tuple[str, float]:
    """How long what is missing will take, in words and in seconds."""
    likely = asked.likely(known)
    left = [shape for shape in sweep.shapes() if unmeasured(likely, shape, before, how.at(shape))]
    if not left:
        return "all of it was measured before: nothing is measured again", 0.0
    here = pace(how, sweep.dtypes, sweep.device)
    seconds = estimate_s(sweep, left, asked.crowd(known), how, here)
    took = ", ".join(f"{ms:.2f} ms in {dtype}" for dtype, ms in here.limit_ms.items())
    return f"the limit takes {took} at L = 512; what is to be measured will take {in_words(seconds)}", seconds


def _reported(options: argparse.Namespace) -> int:
    """Tables and growth of all rows of the file; the exit code says whether there is a figure, and whether a point broke."""
    rows = read(options.out)
    if options.benchmark_json is not None:
        write(options.benchmark_json, dumps(rows), "--benchmark-json")
    console.show_lines(show.table_lines(rows))
    found = growths(rows, seed=options.seed)
    console.show_lines(growth_lines(found))
    if found:
        write_table(options.out.with_name(f"{options.out.stem}.growth.csv"), COLUMNS, found)
    ours = [one for one in latest(rows).values() if one["variant"] not in (LIMIT, CONTROL)]
    if not any("samples_ms" in one for one in ours):
        return compare.NOTHING
    return BROKE if any(map(broke, ours)) else 0
