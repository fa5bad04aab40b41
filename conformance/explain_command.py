"""`explain`: a law in words, alone or for one implementation."""

import argparse
from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from relpos.conformance import console
from relpos.conformance.errors import UsageError
from relpos.conformance.explain import explanation
from relpos.conformance.isolated import Request
from relpos.conformance.laws import law as law_by_name
from relpos.conformance.laws import laws
from relpos.conformance.laws.base import Law
from relpos.conformance.smoke import smoke


def add_explain(commands: Any) -> None:
    """The command and its options."""
    explain = commands.add_parser("explain", help="say what a law is, why it matters and what it has caught")
    explain.add_argument("law", nargs="?", help="as in L3; without one, the laws are listed")
    explain.set_defaults(run=run_explain)


def run_explain(options: argparse.Namespace) -> int:
    """Explain a law, or list them."""
    if options.law is None:
        console.show_lines(listed())
        return 0
    console.show_page(laid_out(explanation(known(options.law))))
    return 0


def explain_implementation(name: str, request: Request) -> int:
    """Explain a law and say whether an implementation is judged by it; nothing is judged."""
    from relpos.conformance.worker import plugged_in

    subject = smoke(plugged_in(request))
    console.show_page(laid_out(explanation(known(name), subject)))
    return 0


def known(name: str) -> Law:
    """A law by name; UsageError with the list of all."""
    try:
        return law_by_name(name)
    except UsageError:
        raise UsageError("\n".join([f"there is no law {name!r}. There are:", *listed()])) from None


def listed() -> list[str]:
    """Every law in a line."""
    return [f"{one.name:<4} {one.title}" for one in laws()]


def laid_out(paragraphs: Mapping[str, Iterable[str]]) -> Group:
    """Headings with what stands below them; a line that begins with a dot is part of a list."""
    found: list[RenderableType] = []
    for heading, lines in paragraphs.items():
        found.append(Text(f"\n{heading}", style="bold"))
        for line in lines:
            in_list = line.startswith("· ")
            table = Table(box=None, show_header=False, padding=0, pad_edge=False)
            table.add_column(width=4 if in_list else 2)
            table.add_column(ratio=1)
            table.add_row("  ·" if in_list else "", Text(line.removeprefix("· ")))
            found.append(table)
    return Group(*found)
