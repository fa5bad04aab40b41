"""The command line: `check` an implementation, judge `builtins` and `peers`, plant `faults`, `show` a scheme, list `laws`."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from relpos.conformance import console
from relpos.conformance.builtins import builtins_named, definitions
from relpos.conformance.certifying import Folder
from relpos.conformance.check_command import add_check, add_profile
from relpos.conformance.errors import AdapterError, UsageError
from relpos.conformance.explain_command import add_explain
from relpos.conformance.faults.command import add_faults
from relpos.conformance.laws import laws
from relpos.conformance.many import judge_many
from relpos.conformance.profiles import profile
from relpos.conformance.vectors.command import add_vectors
from relpos.conformance.verdict import BROKEN, EXIT_CODES, INCOMPLETE, Verdict
from relpos.impls._operators import OPERATORS
from relpos.impls.card import CardError
from relpos.perf.arguments import add_perf
from relpos.show.command import add_show
from relpos.spec.contract import SettingsError
from relpos.spec.registry import UnknownScheme

DONE = {"show": "shown", "vectors": "written", "faults": "planted"}  # what other commands do than to judge
COMPLAINTS = (UsageError, SettingsError, UnknownScheme, CardError)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    options = parser().parse_args(arguments)
    done = DONE.get(options.command, "judged")
    try:
        return options.run(options)
    except AdapterError as error:
        console.show_broken(str(error), done=done)
    except COMPLAINTS as error:
        console.show_broken(str(error), word="wrong usage", done=done)
    except KeyboardInterrupt:
        console.show_interrupted()
        return EXIT_CODES[INCOMPLETE]
    return EXIT_CODES[BROKEN]


def parser() -> argparse.ArgumentParser:
    """The argument parser."""
    top = argparse.ArgumentParser(
        prog="python -m relpos",
        description="Is an implementation of a position encoding right? Exit codes: 0 conforms, 1 does not, 2 broken adapter "
        "or wrong usage, 3 undecided between named settings, 4 incomplete.",
    )
    commands = top.add_subparsers(required=True, metavar="command", dest="command")
    add_check(commands)
    every = commands.add_parser("builtins", help="judge every implementation that ships with relpos")
    every.add_argument("--scheme", help="only those of one scheme")
    add_profile(every, "quick")
    every.add_argument("--variant", action="append", default=[], metavar="NAME", help="this implementation; may be repeated")
    every.add_argument("--certificates", type=Path, metavar="DIR", help="write a certificate for each that has none that holds")
    every.set_defaults(run=run_builtins)
    peers = commands.add_parser("peers", help="judge implementations from PyPI that nobody here wrote")
    add_profile(peers, "quick")
    peers.add_argument("--report", type=Path, metavar="FILE", help="write the table, when all come out as recorded")
    peers.set_defaults(run=run_peers)
    add_show(commands)
    add_explain(commands)
    add_faults(commands)
    add_vectors(commands)
    add_perf(commands)
    commands.add_parser("laws", help="list the laws").set_defaults(run=run_laws)
    commands.add_parser("impls", help="say which private operators are used, and why").set_defaults(run=run_operators)
    commands.add_parser("schemes", help="list the schemes and their settings").set_defaults(run=run_schemes)
    return top


def run_builtins(options: argparse.Namespace) -> int:
    """Judge every built-in, or those named; with certificates, those that have none of this profile that still holds."""
    profile(options.profile)
    mine, folder = builtins_named(options.scheme, options.variant), None
    left = dict(mine)
    if options.certificates is not None:
        folder = Folder(options.certificates)
        left = {label: spec for label, spec in mine.items() if not folder.has(label, spec, options.profile)}
        if len(left) < len(mine):
            said = f"{len(mine) - len(left)} of {len(mine)} have a certificate in {folder.path} that holds: not judged again"
            console.show_lines([said])
        if not left:
            return 0
    # The definitions first: who judges must pass its own laws.
    judges = {} if options.variant else definitions(options.scheme)

    def keep(label: str, verdict: Verdict | str) -> None:
        if folder is not None and label in left:
            folder.write(label, verdict)

    code = judge_rows({label: (spec, {}) for label, spec in {**judges, **left}.items()}, options.profile, keep=keep)
    return max(code, folder.exit_code() if folder else 0)


def judge_rows(
    jobs: dict[str, tuple[str, dict[str, Any]]], profile_name: str, *, keep: Callable[[str, Verdict | str], None]
) -> int:
    """Judge several, hand every verdict to `keep` as it comes, show the matrix and every failure, and say how it ended."""
    with console.progress_bar() as bar:
        task = bar.add_task(f"{profile_name} profile", total=len(jobs))

        def reached(label: str, verdict: Verdict | str) -> None:
            keep(label, verdict)
            bar.update(task, description=label, advance=1)

        rows, complete = judge_many(jobs, profile_name, progress=reached)
    console.show_matrix(rows)
    codes = [EXIT_CODES[BROKEN] if isinstance(v, str) else v.exit_code for v in rows.values()]
    for label, verdict in rows.items():
        if isinstance(verdict, str):
            console.show_broken(f"{label}: {verdict}")
        elif verdict.exit_code:
            console.show_verdict(verdict)
    passed = codes.count(0)
    inputs = sum(r.inputs for v in rows.values() if isinstance(v, Verdict) for r in v.results)
    console.show_lines(
        [f"{passed} of {len(jobs)} implementations conform, {inputs} inputs" + ("" if complete else "; interrupted")]
    )
    return max(codes, default=0) if complete else EXIT_CODES[INCOMPLETE]


def run_peers(options: argparse.Namespace) -> int:
    """Judge implementations from PyPI."""
    from relpos.conformance.peers.run import run

    return run(options.profile, options.report)


def run_operators(options: argparse.Namespace) -> int:
    """Say which private operators of PyTorch the implementations use, why, and what stands in for them."""
    del options
    for one in OPERATORS:
        how = "used" if one.used else "not used"
        console.show_lines([f"{one.name}: {how}, {one.reason}", f"  for      {one.purpose}", f"  instead  {one.instead}"])
    return 0


def run_laws(options: argparse.Namespace) -> int:
    """List the laws."""
    del options
    console.show_lines(f"{one.name:<4} {one.title}: {one.statement}" for one in laws())
    return 0


def run_schemes(options: argparse.Namespace) -> int:
    """List the schemes, their form and their settings with the values that have names."""
    del options
    console.show_schemes()
    return 0
