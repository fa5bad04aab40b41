"""What `python -m relpos perf` does: measure, or hold one file of rows against another."""

import argparse
import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import torch

from relpos.conformance import console
from relpos.conformance.errors import UsageError
from relpos.impls.card import parse_claims
from relpos.perf import compare, show
from relpos.perf.benchmark_json import dumps
from relpos.perf.machine import machine, machine_id, run_facts
from relpos.perf.measuring import Options
from relpos.perf.point import Variant
from relpos.perf.rows import RowsError, read
from relpos.perf.sweep import FULL, Sweep, chosen_lengths, representatives, run
from relpos.perf.variants import built_in, gate, judged
from relpos.spec.registry import settings_class


def run_perf(options: argparse.Namespace) -> int:
    """Measure, or compare what was measured."""
    try:
        return _compared(options) if options.compare is not None else _measured(options)
    except (RowsError, compare.OtherMachine) as error:
        console.show_broken(str(error), word="wrong usage")
        return compare.OTHER_MACHINE if isinstance(error, compare.OtherMachine) else 2


def _compared(options: argparse.Namespace) -> int:
    found = compare.changes(read(options.compare), read(options.out), seed=options.seed)
    console.show_lines(show.change_lines(found))
    return compare.exit_code(found)


def _measured(options: argparse.Namespace) -> int:
    sweep, how = _sweep(options), _how(options)
    if options.device.startswith("cuda") and not torch.cuda.is_available():
        raise UsageError("--device cuda: PyTorch sees no GPU here; leave the option out to measure on the CPU.")
    torch.set_num_threads(how.threads)
    record = machine(options.device)
    facts = {"run": uuid4().hex[:8], "machine": machine_id(record), **run_facts()}
    _write_machine(options.out, record)
    variants, refused = _variants(options)
    console.show_lines([show.headline(record, facts, sweep, variants, how)])
    with console.progress_bar() as bar:
        task = bar.add_task("", total=None)

        def report(words: str, number: int, of: int) -> None:
            bar.update(task, description=words, completed=number, total=of)

        try:
            run(sweep, variants, how, options.out, facts, refused=refused, progress=report)
        except KeyboardInterrupt:
            console.show_lines([f"interrupted; {options.out} holds what was measured, the same command goes on from there"])
            return 4
    rows = read(options.out)
    if options.benchmark_json is not None:
        options.benchmark_json.write_text(dumps(rows), encoding="utf-8")
    console.show_lines(show.table_lines(rows))
    return 0 if any(one["status"] == "ok" and one["variant"] != "limit" for one in rows) else compare.NOTHING


def _sweep(options: argparse.Namespace) -> Sweep:
    base = FULL if options.full else Sweep()
    try:
        lengths = chosen_lengths(options.lengths) or base.lengths
    except ValueError as error:
        raise UsageError(str(error)) from None
    dtypes, modes = tuple(options.dtype) or base.dtypes, tuple(options.mode) or base.modes
    return Sweep(lengths=lengths, dtypes=dtypes, modes=modes, device=options.device)


def _how(options: argparse.Namespace) -> Options:
    if options.rounds < 0 or options.threads < 0:
        raise UsageError("--rounds and --threads take positive whole numbers.")
    threads = options.threads or torch.get_num_threads()
    return Options(rounds=options.rounds or (7 if options.full else 5), seed=options.seed, threads=threads)


def _variants(options: argparse.Namespace) -> tuple[list[Variant], dict[str, str]]:
    """What is measured, and why some of it is barred."""
    if options.impl is not None:
        return _strangers(options)
    found = built_in(options.scheme, tuple(options.variant))
    if not options.full and not options.variant:
        found = representatives(found)
    refused = {v.label: why for v in found if (why := gate(v))}
    return found, refused


def _strangers(options: argparse.Namespace) -> tuple[list[Variant], dict[str, str]]:
    if options.scheme is None:
        raise UsageError("--impl is measured as an implementation of a scheme: add --scheme NAME.")
    settings_class(options.scheme)
    claims = tuple(parse_claims(options.claim).items())
    mine = Variant(label=f"{options.scheme}/{options.impl}", spec=options.impl, scheme=options.scheme, claims=claims)
    why = judged(mine, "quick")
    return [mine, *representatives(built_in(options.scheme))], {mine.label: why} if why else {}


def _write_machine(out: Path, record: dict[str, Any]) -> None:
    path = out.with_name(f"{out.stem}.machine-{machine_id(record)}.json")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise RowsError(f"--out: {path} could not be written ({error.strerror}).") from None
