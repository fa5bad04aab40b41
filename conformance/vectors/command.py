"""The command `vectors`: inputs and right answers as JSON and NPZ, for tests in any language."""

import argparse
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from relpos.conformance import console
from relpos.conformance.errors import UsageError
from relpos.conformance.expected import forms_levels
from relpos.conformance.settings import parse_settings
from relpos.conformance.vectors import folder
from relpos.conformance.vectors.build import Request, check_settings, document, key_of, levels_of
from relpos.conformance.verdict import EXIT_CODES, INCOMPLETE
from relpos.spec.registry import schemes, settings_class

FORMATS = {"json": ("json",), "npz": ("npz",), "both": ("json", "npz")}
LEVELS = ("contribution", "logits", "attention")
COUNT, MOST = 6, 200  # drawn inputs per level
WORKERS = 2


def add_vectors(commands: Any) -> None:
    """Add the command to the command line."""
    vectors = commands.add_parser("vectors", help="write inputs and right answers as JSON and NPZ, for tests in any language")
    vectors.add_argument("--scheme", action="append", default=[], help=f"may be repeated; all of {', '.join(schemes())}")
    vectors.add_argument("--out", type=Path, required=True, metavar="DIR", help="a new or empty folder, or one of vectors")
    vectors.add_argument("--level", metavar="|".join(LEVELS), help="only this level (default: all that a scheme has)")
    vectors.add_argument("--format", default="both", metavar="|".join(FORMATS), help="default: both")
    vectors.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="fix a setting (with one --scheme)")
    vectors.add_argument("--seed", type=int, default=0, help="of the drawn inputs (default: 0)")
    vectors.add_argument("--count", type=int, help=f"drawn inputs per level (default: {COUNT}; brief: 0)")
    vectors.add_argument("--brief", action="store_true", help="few vectors, in seconds: one per law, nothing drawn or searched")
    vectors.set_defaults(run=run_vectors)


def run_vectors(options: argparse.Namespace) -> int:
    """Write vectors, scheme by scheme; what is there already and up to date is kept."""
    requests, kinds = _requests(options), FORMATS[options.format]
    index = folder.opened(options.out)
    folder.store(options.out, index, folder.beside())
    waiting = [r for r in requests if not folder.kept(options.out, index, r.scheme, key_of(r, kinds))]
    written: set[str] = set()
    try:
        with console.progress_bar() as bar:
            task = bar.add_task("vectors", total=len(waiting))
            for request, found in _built(waiting):
                _store(options.out, index, request, found, kinds)
                written.add(request.scheme)
                bar.update(task, description=request.scheme, advance=1)
    except KeyboardInterrupt:
        left = [r.scheme for r in waiting if r.scheme not in written]
        console.show_lines([f"interrupted: {', '.join(left)} not written; the same command goes on from here."])
        return EXIT_CODES[INCOMPLETE]
    console.show_lines(_told(options.out, index, requests, written))
    return 0


def _requests(options: argparse.Namespace) -> list[Request]:
    names = list(dict.fromkeys(options.scheme)) or list(schemes())
    for name in names:
        settings_class(name)
    if options.format not in FORMATS:
        raise UsageError(f"--format must be one of {', '.join(FORMATS)}; got {options.format!r}.")
    if options.level is not None and options.level not in LEVELS:
        raise UsageError(f"--level must be one of {', '.join(LEVELS)}; got {options.level!r}.")
    count = options.count if options.count is not None else 0 if options.brief else COUNT
    if not 0 <= count <= MOST:
        raise UsageError(f"--count must be from 0 to {MOST} drawn inputs per level, got {count}.")
    if options.seed < 0:
        raise UsageError(f"--seed must be 0 or more, got {options.seed}.")
    if options.set and len(names) != 1:
        raise UsageError(f"--set fixes a setting of one scheme: name it with --scheme, once; got {len(names)} schemes.")
    if not options.scheme and options.level is not None:  # all that have this level
        names = [name for name in names if options.level in forms_levels(settings_class(name))]
    fixed = parse_settings(names[0], options.set) if options.set else {}
    check_settings(names[0], fixed)
    return [Request(name, levels_of(name, options.level), fixed, count, options.seed, options.brief) for name in names]


def _built(requests: list[Request]) -> Iterator[tuple[Request, dict[str, Any]]]:
    """Documents as they come; one scheme here, several in processes of their own."""
    if len(requests) < 2:
        yield from ((request, document(request)) for request in requests)
        return
    pool = ProcessPoolExecutor(WORKERS, mp_context=get_context("spawn"))
    try:
        yield from zip(requests, pool.map(document, requests), strict=True)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _store(path: Path, index: dict[str, Any], request: Request, found: dict[str, Any], kinds: tuple[str, ...]) -> None:
    folder.checked(found)
    key, makers = key_of(request, kinds), {"json": folder.as_json, "npz": folder.as_npz}
    files = {f"{request.scheme}.{kind}": makers[kind](found) for kind in kinds}
    folder.forget(path, index, request.scheme, set(files))
    told = {name: found[name] for name in ("relpos", "scheme_hash", "levels", "set", "seed", "count", "brief", "coverage")}
    index["schemes"][request.scheme] = {"key": key, "files": sorted(files), "cases": len(found["cases"]), **told}
    folder.store(path, index, files)


def _told(path: Path, index: dict[str, Any], requests: list[Request], written: set[str]) -> Iterator[str]:
    for request in requests:
        entry = index["schemes"][request.scheme]
        seen, there = entry["coverage"]["told_apart"], entry["coverage"]["faults"]
        size = sum((path / name).stat().st_size for name in entry["files"]) // 1000
        state = "" if request.scheme in written else " (kept: up to date)"
        yield f"{request.scheme}: {entry['cases']} vectors, {size} kB; {seen} of {there} faults are told apart by them{state}"
        yield from (f"  not told apart: {name}" for name in entry["coverage"]["missed"])
    yield f"in {path}: {folder.README} says how to read and compare them"
