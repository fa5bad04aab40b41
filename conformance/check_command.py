"""`check`: judge one implementation, in a process of its own, and show what comes of it as it comes."""

import argparse
from pathlib import Path
from typing import Any

import torch

from relpos.conformance import console
from relpos.conformance.certificate import certificate, dumps
from relpos.conformance.deviations import read_deviations
from relpos.conformance.errors import UsageError
from relpos.conformance.explain_command import explain_implementation
from relpos.conformance.isolated import PATIENCE_SECONDS, Request, judge_isolated
from relpos.conformance.laws import law
from relpos.conformance.live import Live
from relpos.conformance.plan import Plan
from relpos.conformance.profiles import PROFILES, profile
from relpos.impls.card import parse_claims
from relpos.spec.registry import schemes, settings_class


def add_check(commands: Any) -> None:
    """The command and its options."""
    check = commands.add_parser("check", help="judge one implementation, yours")
    _subject_options(check)
    _profile_options(check)
    check.add_argument("--fail-fast", action="store_true", help="stop at the first law that fails, and shrink its input")
    check.add_argument("--deviations", type=Path, metavar="FILE", help="differences that are accepted, as JSON or TOML")
    check.add_argument("--explain", metavar="LAW", help="judge nothing; say what a law is, and whether it applies here")
    check.set_defaults(run=run_check)


def _subject_options(check: argparse.ArgumentParser) -> None:
    check.add_argument("implementation", nargs="?", help="package.module:name, or path/to/file.py:name")
    check.add_argument("--impl", help="the same, as an option")
    check.add_argument("--scheme", help=f"one of {', '.join(schemes())}")
    check.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="fix a setting of the scheme")
    check.add_argument("--claim", action="append", default=[], metavar="NAME=VALUE", help="state a claim, as in softmax=causal")


def _profile_options(check: argparse.ArgumentParser) -> None:
    check.add_argument("--law", action="append", default=[], metavar="L1", help="only this law; may be repeated")
    add_profile(check, "default")
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


def add_profile(command: argparse.ArgumentParser, default: str) -> None:
    """The option `--profile`."""
    words = "; ".join(f"{p.name}: {p.covers}" for p in PROFILES.values())
    command.add_argument("--profile", default=default, metavar="|".join(PROFILES), help=f"{words} (default: {default})")


def run_check(options: argparse.Namespace) -> int:
    """Judge one implementation; or, with --explain, say what a law asks of it."""
    request = _request(options)
    if options.explain is not None:
        return explain_implementation(options.explain, request)
    quiet = str(options.json) == "-"
    with Live(len(request.laws or profile(request.profile).laws()), quiet=quiet) as live:
        verdict = judge_isolated(request, watch=live)
        live.ended(verdict)
    if options.json is not None:
        text = dumps(certificate(verdict))
        console.show_certificate(text) if quiet else _write(options.json, text + "\n")
    return verdict.exit_code


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
    if options.json is not None and str(options.json) != "-":
        _check_writable(options.json)
    check_device(options.device)
    if not options.patience > 0:
        raise UsageError(f"--patience must be a positive number of seconds, got {options.patience:g}.")
    if options.scheme is not None:
        settings_class(options.scheme)
    plugged = {"scheme": options.scheme, "claims": parse_claims(options.claim), "device": options.device}
    if options.deviations is not None:
        plugged["deviations"] = read_deviations(options.deviations)
    return Request(
        spec,
        plugged,
        settings=tuple(options.set),
        profile=profile(options.profile).name,
        laws=tuple(law(name).name for name in options.law),
        seed=options.seed,
        case=options.case,
        patience_seconds=options.patience,
        fail_fast=options.fail_fast,
    )


def check_device(name: str) -> None:
    """UsageError where there is no such device here: what is asked of the machine is no fault of the implementation."""
    try:
        torch.zeros(1, device=name)
    except (RuntimeError, AssertionError, NotImplementedError):
        raise UsageError(f"--device must be a device on which PyTorch makes tensors here, such as cpu, got {name!r}.") from None


def _check_writable(path: Path) -> None:
    """UsageError before anything is judged, where the certificate could not be kept afterwards."""
    there = path.exists()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8"):
            pass
    except OSError as error:
        raise UsageError(f"--json must be a file that can be written, got {path} ({error.strerror}).") from None
    if not there:
        path.unlink()


def _write(path: Path, text: str) -> None:
    """After the verdict has been shown: what cannot be written must not take it away."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--json: the certificate could not be written to {path} ({error.strerror}).") from None
