"""The command line: `check` an implementation, judge `builtins` and `peers`, `show` a scheme, list `laws` and `schemes`."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from relpos.conformance import console
from relpos.conformance.builtins import builtins, definitions
from relpos.conformance.certificate import certificate, certificate_name, dumps
from relpos.conformance.errors import AdapterError, UsageError
from relpos.conformance.isolated import PATIENCE_SECONDS, Request, judge_isolated
from relpos.conformance.laws import law, laws
from relpos.conformance.laws.base import Law
from relpos.conformance.many import judge_many
from relpos.conformance.plan import Plan
from relpos.conformance.profiles import PROFILES, profile
from relpos.conformance.runner import LawResult
from relpos.conformance.verdict import BROKEN, EXIT_CODES, INCOMPLETE, Verdict
from relpos.impls.card import CardError, parse_claims
from relpos.perf.arguments import add_perf
from relpos.show.command import add_show
from relpos.spec.contract import SettingsError
from relpos.spec.registry import UnknownScheme, schemes, settings_class

COMPLAINTS = (UsageError, SettingsError, UnknownScheme, CardError)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    options = parser().parse_args(arguments)
    try:
        return options.run(options)
    except AdapterError as error:
        console.show_broken(str(error))
    except COMPLAINTS as error:
        console.show_broken(str(error), word="wrong usage")
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
    commands = top.add_subparsers(required=True, metavar="command")
    _check_parser(commands.add_parser("check", help="judge one implementation, yours"))
    every = commands.add_parser("builtins", help="judge every implementation that ships with relpos")
    every.add_argument("--scheme", help="only those of one scheme")
    _profile(every, "quick")
    every.add_argument("--certificates", type=Path, metavar="DIR", help="write a certificate for each")
    every.set_defaults(run=run_builtins)
    peers = commands.add_parser("peers", help="judge implementations from PyPI that nobody here wrote")
    _profile(peers, "quick")
    peers.add_argument("--report", type=Path, metavar="FILE", help="write the table, when all come out as recorded")
    peers.set_defaults(run=run_peers)
    add_show(commands)
    add_perf(commands)
    commands.add_parser("laws", help="list the laws").set_defaults(run=run_laws)
    commands.add_parser("schemes", help="list the schemes and their settings").set_defaults(run=run_schemes)
    return top


def _check_parser(check: argparse.ArgumentParser) -> None:
    check.add_argument("implementation", nargs="?", help="package.module:name, or path/to/file.py:name")
    check.add_argument("--impl", help="the same, as an option")
    check.add_argument("--scheme", help=f"one of {', '.join(schemes())}")
    check.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="fix a setting of the scheme")
    check.add_argument("--claim", action="append", default=[], metavar="NAME=VALUE", help="state a claim, as in softmax=causal")
    check.add_argument("--law", action="append", default=[], metavar="L1", help="only this law; may be repeated")
    _profile(check, "default")
    check.add_argument(
        "--json", type=Path, metavar="FILE", help="write the certificate; - for standard output instead of the table"
    )
    check.add_argument("--device", default="cpu", help="where its tensors live")
    check.add_argument("--seed", type=int, help="draw other inputs than the fixed ones")
    check.add_argument(
        "--patience",
        type=float,
        default=PATIENCE_SECONDS,
        metavar="SECONDS",
        help="longest time for one call (default: %(default)g)",
    )
    check.add_argument("--case", metavar="JSON", help="repeat one input that a failure printed (with --law)")
    check.add_argument("--with", action="append", default=[], dest="packages", metavar="PACKAGE", help=argparse.SUPPRESS)
    check.set_defaults(run=run_check)


def _profile(command: argparse.ArgumentParser, default: str) -> None:
    words = "; ".join(f"{p.name}: {p.covers}" for p in PROFILES.values())
    command.add_argument("--profile", default=default, metavar="|".join(PROFILES), help=f"{words} (default: {default})")


def run_check(options: argparse.Namespace) -> int:
    """Judge one implementation, in a process of its own."""
    request = _request(options)
    chosen = [law(name) for name in request.laws] or profile(request.profile).laws()
    with console.progress_bar() as bar:
        task = bar.add_task("smoke gate", total=len(chosen))

        def report(one: Law, result: LawResult | None) -> None:
            bar.update(task, description=f"{one.name} {one.title}", advance=0 if result is None else 1)

        verdict = judge_isolated(request, progress=report)
    return _told(verdict, options.json)


def _request(options: argparse.Namespace) -> Request:
    spec = options.implementation or options.impl
    if spec is None:
        raise UsageError("name an implementation: python -m relpos check my_kernels.py:alibi --scheme alibi")
    if options.packages:
        raise UsageError(
            "--with installs into a separate environment, which nox makes: nox -s conformance -- --impl … --with …; "
            "here, install the package yourself."
        )
    if options.case is not None and not options.law:
        raise UsageError("--case repeats one input of one law: add --law, as the failure printed it.")
    if options.case is not None:
        Plan.from_json(options.case)
    if not options.patience > 0:
        raise UsageError(f"--patience must be a positive number of seconds, got {options.patience:g}.")
    if options.scheme is not None:
        settings_class(options.scheme)
    claims = parse_claims(options.claim)
    return Request(
        spec,
        {"scheme": options.scheme, "claims": claims, "device": options.device},
        settings=tuple(options.set),
        profile=profile(options.profile).name,
        laws=tuple(law(name).name for name in options.law),
        seed=options.seed,
        case=options.case,
        patience_seconds=options.patience,
    )


def _told(verdict: Verdict, path: Path | None) -> int:
    text = "" if path is None else dumps(certificate(verdict))
    if str(path) == "-":
        console.show_certificate(text)
        return verdict.exit_code
    console.show_verdict(verdict)
    if path is not None:
        _write(path, text + "\n")
    return verdict.exit_code


def _write(path: Path, text: str) -> None:
    """After the verdict has been shown: what cannot be written must not take it away."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--json: the certificate could not be written to {path} ({error.strerror}).") from None


def run_builtins(options: argparse.Namespace) -> int:
    """Judge every built-in."""
    if options.scheme is not None:
        settings_class(options.scheme)
    # The definitions first: who judges must pass its own laws.
    jobs = {label: (spec, {}) for label, spec in {**definitions(options.scheme), **builtins(options.scheme)}.items()}
    rows, code = judge_rows(jobs, options.profile)
    if options.certificates is not None:
        options.certificates.mkdir(parents=True, exist_ok=True)
        for label, verdict in rows.items():
            if isinstance(verdict, Verdict) and label in builtins(options.scheme):
                text = dumps(certificate(verdict)) + "\n"
                (options.certificates / certificate_name(label)).write_text(text, encoding="utf-8")
    return code


def judge_rows(jobs: dict[str, tuple[str, dict[str, Any]]], profile_name: str) -> tuple[dict[str, Verdict | str], int]:
    """Judge several, show the matrix and every failure, and say how it ended."""
    profile(profile_name)
    with console.progress_bar() as bar:
        task = bar.add_task(f"{profile_name} profile", total=len(jobs))
        rows, complete = judge_many(
            jobs, profile_name, progress=lambda label, verdict: bar.update(task, description=label, advance=1)
        )
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
    return rows, max(codes, default=0) if complete else EXIT_CODES[INCOMPLETE]


def run_peers(options: argparse.Namespace) -> int:
    """Judge implementations from PyPI."""
    from relpos.conformance.peers.run import run

    return run(options.profile, options.report)


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
