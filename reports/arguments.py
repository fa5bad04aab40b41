"""Options of `python -m relpos reports`. What renders is imported only then: it needs packages that judging does not."""

import argparse
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from relpos.perf.complaints import answered, show_nothing

PACKAGES = ("jinja2", "scipy", "psutil", "threadpoolctl", "matplotlib")


def add_reports(commands: Any) -> None:
    """Add `reports` to the commands."""
    reports = commands.add_parser("reports", help="make the report, tables and figures, from measured rows and certificates")
    said = "rows of a run of perf (.jsonl or .jsonl.gz), kept beside the report; default: those that it has already"
    reports.add_argument("--data", type=Path, metavar="FILE", help=said)
    reports.add_argument("--out", type=Path, metavar="DIR", help="where README.md, figures/ and data/ go; default: reports/")
    reports.set_defaults(run=run_reports)


def run_reports(options: argparse.Namespace) -> int:
    """Make the report, if what it takes is installed."""
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        return show_nothing(
            f"a report needs {', '.join(missing)}: pip install 'relpos[perf]'.", done="made", word="package missing"
        )
    from relpos.reports.command import run_reports as run

    return answered(run, options, done="made")
