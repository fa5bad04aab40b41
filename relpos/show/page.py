"""The page of a scheme for a terminal: idea, formula, symbols, settings, parameters, tables, source."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import fields
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from relpos.show.probing import axes, positions_shown
from relpos.show.reading import definition, setting_words
from relpos.show.tables import tables
from relpos.spec.sizes import byte_count, parameter_count, plain_tensors

CONTEXT = 2048  # length at which the tensors of the plain evaluation are told
MOST_ROWS = 40


def page(settings: Any, origin: dict[str, str]) -> Group:
    """Everything that the definition says, and its tables at these settings."""
    said = definition(type(settings))
    parts: list[RenderableType] = [
        Text.assemble((said.name, "bold"), f" · form {settings.form} · {said.idea}"),
        Panel(Text("\n".join(narrow(said.formula))), title="formula", title_align="left", padding=(1, 2), expand=False),
        _pairs(said.labels.items()),
        *(Text(note) for note in said.notes),
        *_settings(settings, origin),
        *_sizes(settings),
        _pairs([("claims", ", ".join(sorted(getattr(settings, "claims", ()))) or "none")]),
    ]
    for title, head, rows in tables(settings):
        parts.append(_titled(title, _grid(head, rows)))
    parts.append(_pairs([("source", said.source), ("read", f"spec/{said.name}.py")]))
    return Group(*(Padding(part, (0, 0, 1, 0)) for part in parts))


def narrow(formula: tuple[str, ...], columns: int = 72) -> list[str]:
    """Lines that fit: a longer one is broken where the formula leaves a wide gap."""
    lines: list[str] = []
    for line in formula:
        parts = re.split(r"(?<=\S) {4,}(?!=)", line) if len(line) > columns else [line]
        margin = " " * (len(parts[0]) - len(parts[0].lstrip()) + 4)
        lines += [parts[0], *(margin + part for part in parts[1:])]
    return lines


def _settings(settings: Any, origin: dict[str, str]) -> Iterator[RenderableType]:
    words = setting_words(type(settings))
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for heading in ("setting", "value", "", "meaning"):
        table.add_column(heading, overflow="fold", no_wrap=heading == "setting")
    for field in fields(settings):
        value = str(getattr(settings, field.name))
        table.add_row(field.name, value, Text(origin[field.name], style="dim"), Text(words.get(field.name, "")))
    if table.row_count:
        yield table


def _sizes(settings: Any) -> Iterator[RenderableType]:
    rows = [(name, f"{list(shape)}") for name, shape in settings.parameters().items()]
    rows.append(("parameters", f"{parameter_count(settings):,}" if rows else "none: nothing is learned"))
    length = CONTEXT if axes(settings) == 1 else len(positions_shown(settings, 0))
    shapes = plain_tensors(settings, query_length=length, key_length=length, num_heads=8)
    at = f"float32, one sample of {length} positions"
    rows += [(name, f"{list(shape)}, {_bytes(byte_count(shape))} when written out ({at})") for name, shape in shapes.items()]
    yield _pairs(rows)


def _pairs(rows: Iterable[tuple[str, str]]) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(no_wrap=True, style="cyan", min_width=10)
    table.add_column(ratio=1)
    for label, text in rows:
        table.add_row(Text(label), Text(text))
    return table


def _grid(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for n, heading in enumerate(head):
        table.add_column(heading, justify="left" if n == len(head) - 1 and len(head) == 2 else "right")
    for row in rows[:MOST_ROWS]:
        table.add_row(*map(Text, row))
    return table


def _titled(title: str, table: Table) -> Group:
    return Group(Text(title, style="bold"), table)


def _bytes(count: int) -> str:
    """Decimal units: 4.19 MB."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} bytes"
