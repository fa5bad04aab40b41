"""What `python -m relpos perf` does: measure, or hold one file of rows against another, or draw it."""

import argparse
import json
from pathlib import Path
from time import perf_counter
from typing import Any
from uuid import uuid4

import torch

from relpos.conformance import console
from relpos.conformance.errors import UsageError
from relpos.conformance.verdict import EXIT_CODES, INCOMPLETE
from relpos.perf import compare, show
from relpos.perf.ahead import Before
from relpos.perf.benchmark_json import dumps
from relpos.perf.chosen import Asked, chosen_options, chosen_sweep, chosen_variants
from relpos.perf.complaints import show_nothing
from relpos.perf.estimate import estimate_s, in_words, pace
from relpos.perf.growth import COLUMNS, growth_lines, growths, write_table
from relpos.perf.isolated import resident_isolated
from relpos.perf.machine import machine, machine_id, run_facts
from relpos.perf.measuring import Options
from relpos.perf.point import CONTROL, LIMIT
from relpos.perf.rows import RowsError, broke, cut_lines, done, latest, read, text_of
from relpos.perf.sweep import Sweep, run, unmeasured
from relpos.perf.variants import CERTIFICATES, gate

KILLS = Path(__file__).resolve().parent.parent / "reports" / "data" / "kills.csv"

MOST_SEED = 2**32 - 1
BROKE = 1  # exit code: all was tried, and some point failed, was killed or has no certificate


def run_perf(options: argparse.Namespace) -> int:
    """Measure, compare what was measured, or draw it; exit code 2 where what came cannot be read or written."""
    if not 0 <= options.seed <= MOST_SEED:
        raise UsageError(f"--seed takes a whole number from 0 to {MOST_SEED}; got {options.seed}.")
    try:
        if options.compare is not None:
            return _compared(options)
        return _drawn(options) if options.figures is not None else _measured(options)
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
    record = machine(options.device)
    facts = {"run": uuid4().hex[:8], "machine": machine_id(record), **run_facts()}
    before = done(options.out, facts["machine"])
    fresh = _write_machine(options.out, record)
    console.show_lines([show.machine_line(record, facts, how.threads), *_cut(options.out)])
    try:
        return _all(options, sweep, how, facts, before, asked)
    except UsageError:
        if fresh is not None and not options.out.exists():  # nothing is left behind of what measured nothing
            fresh.unlink(missing_ok=True)
        raise
    except KeyboardInterrupt:
        console.show_lines([f"interrupted; {options.out} holds what was measured, the same command goes on from there"])
        return EXIT_CODES[INCOMPLETE]


def _cut(path: Path) -> list[str]:
    """What to say of rows that were cut off; nothing: there are none."""
    number = len(cut_lines(text_of(path))) if path.exists() else 0
    return [f"{path}: {number} cut-off line{'s' * (number != 1)} left out"] if number else []


def _all(options: argparse.Namespace, sweep: Sweep, how: Options, facts: dict[str, Any], before: Before, asked: Asked) -> int:
    known = frozenset(variant for variant, *_ in before)
    words, seconds = _estimate(asked, known, sweep, how, before)
    console.show_lines([words])
    began = perf_counter()
    variants = asked.settled(known, how)
    left = [v for v in variants if any(unmeasured([v], shape, before, how.at(shape)) for shape in sweep.shapes())]
    refused = {v.label: why for v in left if (why := gate(v))}
    console.show_lines([show.plan_line(sweep, variants, how)])
    with console.progress_bar() as bar:
        task = bar.add_task("", total=None)

        def report(words: str, number: int, of: int) -> None:
            bar.update(task, description=words, completed=number, total=of)

        run(sweep, variants, how, options.out, facts, refused=refused, progress=report, resident=resident_isolated)
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
        _write(options.benchmark_json, dumps(rows), "--benchmark-json")
    console.show_lines(show.table_lines(rows))
    found = growths(rows, seed=options.seed)
    console.show_lines(growth_lines(found))
    if found:
        write_table(options.out.with_name(f"{options.out.stem}.growth.csv"), COLUMNS, found)
    ours = [one for one in latest(rows).values() if one["variant"] not in (LIMIT, CONTROL)]
    if not any("samples_ms" in one for one in ours):
        return compare.NOTHING
    return BROKE if any(map(broke, ours)) else 0


def _write_machine(out: Path, record: dict[str, Any]) -> Path | None:
    """Beside the rows; its path, unless it was there before."""
    path = out.with_name(f"{out.stem}.machine-{machine_id(record)}.json")
    fresh = None if path.exists() else path
    _write(path, json.dumps(record, indent=1) + "\n", "--out")
    return fresh


def _write(path: Path, text: str, option: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{option}: {path} could not be written ({error.strerror}).") from None
