"""What `python -m relpos reports` does: reads, draws and renders beside the old report, then puts the new one in its place."""

import argparse
import json
import os
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from relpos.conformance import console
from relpos.conformance.errors import UsageError
from relpos.conformance.verdict import EXIT_CODES, INCOMPLETE
from relpos.perf.machine import machine_id
from relpos.perf.rows import RowsError
from relpos.reports import figures
from relpos.reports.provenance import doubts
from relpos.reports.render import rendered
from relpos.reports.run import Run
from relpos.reports.source import HOME, ROWS, Source, packed, source

REPORT, DATA, FIGURES = "README.md", "data", "figures"
KILLS = HOME / DATA / "kills.csv"


def run_reports(options: argparse.Namespace) -> int:
    """Make the report; exit code 2 where what came cannot be read or written, 4 if interrupted: the old one then stands."""
    out = options.out or HOME
    try:
        with TemporaryDirectory(prefix="relpos-report-") as folder:
            try:
                made = _made(options.data, out, Path(folder))
            except KeyboardInterrupt:
                console.show_lines([f"interrupted; the report in {out} is as it was"])
                return EXIT_CODES[INCOMPLETE]
            written = _placed(Path(folder), out)
    except RowsError as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        raise UsageError(f"--out: the report could not be written to {out} ({error.strerror}).") from None
    why = list(doubts(made, Run(made.rows)))
    console.show_lines(
        [*map(_near, written), f"report {made.id}: {'preliminary: ' + '; '.join(why) if why else 'to be cited'}"]
    )
    return 0


def _made(data: Path | None, out: Path, folder: Path) -> Source:
    """The whole report in a folder of its own; of the rows, if there are new ones, a copy to be kept."""
    kept = [place / DATA / ROWS for place in (out, HOME) if (place / DATA / ROWS).exists()]
    taken = data if data is not None else kept[0] if kept else None
    found = source(taken)
    if found.rows and taken != out / DATA / ROWS:
        (folder / DATA).mkdir()
        (folder / DATA / ROWS).write_bytes(packed(found.rows, found.cut))
        name = f"{ROWS.partition('.')[0]}.machine-{machine_id(found.machine)}.json"
        (folder / DATA / name).write_text(json.dumps(found.machine, indent=1) + "\n", encoding="utf-8")
    figures.draw(found.rows, KILLS, folder / FIGURES)
    text = rendered(found, figures.listing(folder / FIGURES), out)
    (folder / REPORT).write_text(text, encoding="utf-8")
    return found


def _placed(folder: Path, out: Path) -> list[Path]:
    """Each file at once: who reads or is interrupted meanwhile has the old one. What is no longer drawn goes."""
    written = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        target = out / path.relative_to(folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        beside = target.with_name(target.name + ".part")
        try:
            shutil.copyfile(path, beside)
            os.replace(beside, target)
        finally:
            beside.unlink(missing_ok=True)
        written.append(target)
    for stem in (figure.stem for figure in figures.listing(out / FIGURES) if figures.kind_of(figure.stem)):
        for path in (out / FIGURES / f"{stem}{kind}" for kind in figures.KINDS):
            if path not in written:
                path.unlink()
    for path in (out / DATA).glob(f"{ROWS.partition('.')[0]}.machine-*.json"):
        if path not in written and (folder / DATA).exists():
            path.unlink()
    return written


def _near(path: Path) -> str:
    """A path as it is seen from where the user stands."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
