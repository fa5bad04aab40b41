"""The command `faults`: plants every fault, counts in how many seeds its law catches it, and listens for false alarms."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from relpos.conformance import console
from relpos.conformance.errors import UsageError
from relpos.conformance.faults import alarms, cells, controls, registry, report, shares, sizes
from relpos.conformance.faults.alarms import Right, rights
from relpos.conformance.faults.cells import Cell
from relpos.conformance.faults.rows import Row, Rows
from relpos.conformance.faults.run import (
    Kills,
    Listening,
    heard,
    lines_of,
    plan_alarms,
    plan_kills,
    run_alarms,
    run_kills,
    seconds_of,
)
from relpos.conformance.faults.sizes import Size
from relpos.conformance.faults.summary import Line, complaints, kinds
from relpos.conformance.nearest import nearest
from relpos.conformance.verdict import EXIT_CODES, INCOMPLETE
from relpos.conformance.worth import measured
from relpos.spec.registry import schemes, settings_class

SEEDS, ALARM_SEEDS, JOBS = 100, 20, 2
ALARM_SHARE = 20  # of a sample, one right implementation for so many places


def add_faults(commands: Any) -> None:
    """Add the command to the command line."""
    faults = commands.add_parser("faults", help="plant every known fault and see whether its law catches it: the kill table")
    faults.add_argument("--scheme", help=f"only faults of one scheme: {', '.join(schemes())}")
    faults.add_argument("--fault", metavar="NAME", help="only the fault of this name")
    faults.add_argument("--seeds", type=_at_least(1), default=SEEDS, metavar="N", help="seeds for each (default: %(default)s)")
    faults.add_argument(
        "--alarm-seeds", type=_at_least(0), default=ALARM_SEEDS, metavar="N",
        help=f"seeds for right implementations: controls and one variant of each scheme; at most {alarms.FEW} for the others "
        "(default: %(default)s)",
    )  # fmt: skip
    faults.add_argument("--sample", type=_at_least(1), metavar="N", help="only N places, always the same, of all schemes")
    faults.add_argument(
        "--matrix", action="store_true", help="every law on every fault, one seed, not only the law that owes it"
    )
    faults.add_argument(
        "--sizes", action="store_true", help="also shrink one counterexample of each fault, and compare with its public report"
    )
    faults.add_argument("--out", type=Path, metavar="FILE", help="keep rows in this file, and go on from those that are there")
    faults.add_argument("--report", type=Path, metavar="FILE", help="write the table as Markdown")
    faults.add_argument("--kills", type=Path, metavar="FILE", help="write killed shares by kind of fault and law, as CSV")
    faults.add_argument("--worth", type=Path, metavar="FILE", help="write what each law is worth; wants all faults")
    faults.add_argument("--jobs", type=_at_least(1), default=JOBS, metavar="N", help="processes (default: %(default)s)")
    faults.set_defaults(run=run_faults)


def run_faults(options: argparse.Namespace) -> int:
    """Run what is missing, show the table, and say which bars are missed."""
    found, right = _chosen(options)
    for option, path in (("--report", options.report), ("--kills", options.kills), ("--worth", options.worth)):
        _writable(option, path)
    rows = Rows(options.out)
    kills, listening = plan_kills(rows, found, options.seeds), plan_alarms(rows, right, options.alarm_seeds)
    shrunk = sizes.missing_sizes(rows, found) if options.sizes else []
    said = _said(options, found, right)
    console.show_lines([said, _estimate(kills, listening, options.jobs, len(shrunk))])
    try:
        with console.progress_bar() as bar:
            run_kills(rows, kills, options.jobs, bar)
            run_alarms(rows, listening, options.jobs, bar)
            sizes.run_sizes(rows, shrunk, options.jobs, bar)
        complete = True
    except KeyboardInterrupt:
        complete = False
    lines, listened = lines_of(rows, found, options.seeds), heard(rows, right, options.alarm_seeds)
    measured_sizes = sizes.sizes_of(rows, found) if options.sizes else []
    return _ended(options, lines, listened, measured_sizes, said, complete=complete)


def _chosen(options: argparse.Namespace) -> tuple[list[Cell], list[Right]]:
    if options.scheme is not None:
        settings_class(options.scheme)
    if options.worth is not None and (options.scheme or options.fault or options.sample or options.matrix):
        raise UsageError("--worth is made of all faults: leave out --scheme, --fault, --sample and --matrix.")
    found = cells.cells(options.scheme, options.fault)
    if not found:
        there = sorted({f.name for name in ([options.scheme] if options.scheme else schemes()) for f in registry.faults(name)})
        of = f" of {options.scheme}" if options.scheme else ""
        near = nearest(options.fault or "", there)
        hint = f" Did you mean {' or '.join(near)}?" if near else ""
        raise UsageError(f"no fault{of} is called {options.fault!r}.{hint} There are: {', '.join(there)}.")
    found = cells.sampled(found, options.sample)
    right = rights(options.scheme) if options.fault is None and options.alarm_seeds else []
    if options.sample is not None:
        right = right[:: max(1, len(right) * ALARM_SHARE // options.sample)] if right else right
    return cells.matrix(found) if options.matrix else found, right


def _said(options: argparse.Namespace, found: list[Cell], right: list[Right]) -> str:
    which = "all laws" if options.matrix else "the law that owes the kill"
    part = f", a sample of {len(found)}" if options.sample else ""
    of = "".join(f", only {word} {value}" for word, value in (("scheme", options.scheme), ("fault", options.fault)) if value)
    return (
        f"{len(found)} places of faults under {which}{of}{part}, {options.seeds} seeds; {len(right)} right implementations "
        f"({len(controls.CONTROLS)} negative controls there are), {options.alarm_seeds} seeds."
    )


def _estimate(kills: Kills, listening: Listening, jobs: int, shrunk: int) -> str:
    minutes = (seconds_of(kills, listening) + sizes.SECONDS * shrunk) / 60 / jobs
    more = f", {shrunk} counterexamples" if shrunk else ""
    return f"To run: {len(kills)} places, {len(listening)} alarm runs{more}; about {minutes:.0f} min on {jobs} free cores."


def _ended(
    options: argparse.Namespace, lines: list[Line], listened: list[Row], shrunk: list[Size], said: str, *, complete: bool
) -> int:
    missed = complaints(lines, listened)
    console.show_kills(report.KIND_HEAD, [(group.name, *group.cells) for group in kinds(lines)])
    console.show_lines([*report.counts(lines, listened), *sizes.told(shrunk)])
    console.show_lines(missed, style="red")
    if not complete:
        again = "the same command goes on" if options.out else "with --out FILE it could go on"
        console.show_lines([f"incomplete: interrupted; {again} (exit {EXIT_CODES[INCOMPLETE]})"], style="yellow")
        return EXIT_CODES[INCOMPLETE]
    if options.report is not None:
        _write("--report", options.report, report.markdown(lines, listened, said, shrunk))
    if options.kills is not None:
        _write("--kills", options.kills, shares.table(lines))
    if options.worth is not None:
        _write("--worth", options.worth, measured(lines))
    closing = f"{len(missed)} bars missed (exit 1)" if missed else "every bar held (exit 0)"
    console.show_lines([closing], style="red" if missed else "green")
    return 1 if missed else 0


def _writable(option: str, path: Path | None) -> None:
    """Hours before it is written."""
    if path is None:
        return
    there = path.exists()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.open("a", encoding="utf-8").close()
    except OSError as error:
        raise UsageError(f"{option}: {path} could not be written ({error.strerror}).") from None
    if not there:
        path.unlink()


def _write(option: str, path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{option}: {path} could not be written ({error.strerror}).") from None


def _at_least(least: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if not text.strip().isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"must be a whole number, at least {least}; got {text!r}")
        return int(text)

    return number
