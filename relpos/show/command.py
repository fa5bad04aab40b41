"""The command `show`: a scheme on the console, and drawn with --plot."""

import argparse
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from relpos.conformance import console
from relpos.conformance.errors import UsageError
from relpos.conformance.stated import check_sizes
from relpos.conformance.verdict import BROKEN, EXIT_CODES
from relpos.show.page import page
from relpos.show.probing import shown_settings
from relpos.spec.registry import schemes, settings_class

FORMATS = (".png", ".pdf", ".svg")
NEEDED = "--plot draws with matplotlib, which is not installed here: pip install matplotlib, or pip install 'relpos[plots]'."


def add_show(commands: Any) -> None:
    """Add the command to the command line."""
    show = commands.add_parser("show", help="show what a scheme is: formula, settings, tables; --plot draws it")
    show.add_argument("scheme", help=f"one of {', '.join(schemes())}")
    show.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting; may be repeated")
    show.add_argument("--plot", type=Path, metavar="FILE", help="draw it: .png, .pdf or .svg")
    show.set_defaults(run=run_show)


def run_show(options: argparse.Namespace) -> int:
    """Show a scheme."""
    cls = settings_class(options.scheme)
    settings, origin = shown_settings(cls, options.scheme, options.set)
    check_sizes(options.scheme, settings, {name: getattr(settings, name) for name, of in origin.items() if of == "given"})
    if options.plot is not None and options.plot.suffix not in FORMATS:
        raise UsageError(f"--plot: {options.plot} must end in one of {', '.join(FORMATS)}.")
    if options.plot is not None and find_spec("matplotlib") is None:
        console.show_broken(NEEDED, word="package missing")
        return EXIT_CODES[BROKEN]
    console.show_page(page(settings, origin))
    if options.plot is not None:
        _draw(settings, options.plot)
        console.show_lines([f"drawn in {options.plot}"])
    return 0


def _draw(settings: Any, path: Path) -> None:
    from relpos.show.plot import figure

    drawn = figure(settings)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        drawn.savefig(path)
    except OSError as error:
        raise UsageError(f"--plot: the drawing could not be written to {path} ({error.strerror}).") from None
