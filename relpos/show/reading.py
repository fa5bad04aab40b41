"""Reads the docstring of a definition: idea, formula, what every symbol means, settings in words, source."""

import re
from dataclasses import dataclass, fields
from importlib import import_module
from inspect import cleandoc
from typing import Any

from relpos.spec.contract import scheme_name

# What the docstring of every definition says under these labels, and what the table of spec/README.md is made of.
FACTS = {
    "sign": "which distance is looked up, or that there is none",
    "scale": "what 1/√D multiplies",
    "rows": "how the learned table is laid out (schemes that have one)",
    "beyond": "what happens beyond the range it was made for",
}
LONGEST_FACT = 120


@dataclass(frozen=True)
class Definition:
    """The docstring of a scheme, taken apart.

    idea     the first sentence
    formula  lines as they are written, without their indentation
    labels   {"i, j": "positions of query and key", "scale": "…"}, in order
    notes    paragraphs that have no label
    source   where it is published, and who deviates
    """

    name: str
    idea: str
    formula: tuple[str, ...]
    labels: dict[str, str]
    notes: tuple[str, ...]
    source: str


def definition(cls: type[Any]) -> Definition:
    """The docstring of the module that defines a settings class."""
    name = scheme_name(cls)
    text = cleandoc(import_module(cls.__module__).__doc__ or "")
    text, _, source = text.partition("\nSource:")
    text = text.partition("\nWorked table")[0]
    first, *rest = re.split(r"\n\s*\n", text.strip())
    formula: list[str] = []
    while rest and rest[0].startswith(" "):
        formula += ([""] if formula else []) + rest.pop(0).splitlines()
    labels, notes = {}, []
    for paragraph in rest:
        found = _labels(paragraph)
        labels.update(found)
        if not found:
            notes.append(_flowing(paragraph))
    idea = _flowing(first).partition(": ")[2] or _flowing(first)
    return Definition(name, idea, _undented(formula), labels, tuple(notes), _flowing(source))


def missing_facts(cls: type[Any], *, has_parameters: bool) -> list[str]:
    """Labels of FACTS that a definition owes and does not have, or that are too long for a cell of a table."""
    labels = definition(cls).labels
    owed = [name for name in FACTS if name != "rows" or has_parameters]
    return [name for name in owed if not 0 < len(labels.get(name, "")) <= LONGEST_FACT]


def setting_words(cls: type[Any]) -> dict[str, str]:
    """{setting: what its values mean}, from the docstring of the settings class."""
    names = {field.name for field in fields(cls)}
    words: dict[str, str] = {}
    current: tuple[str, ...] = ()
    for line in cleandoc(cls.__doc__ or "").splitlines()[1:]:
        start = re.match(r"(\w+(?:, \w+)*) {2,}(\S.*)", line)
        if start and set(start[1].split(", ")) <= names:
            current = tuple(start[1].split(", "))
            words.update(dict.fromkeys(current, start[2]))
        elif current and line.startswith(" "):
            words.update({name: f"{words[name]} {line.strip()}" for name in current})
        else:
            current = ()
    return words


def reference(cls: type[Any]) -> str:
    """Authors and year: "Press, Smith & Lewis 2022"; the first words where nobody published it."""
    source = definition(cls).source
    authors, quote, rest = source.partition('"')
    year = re.search(r"\b(?:19|20)\d\d\b", rest)
    if not quote or ". " in authors.replace("et al. ", "") or not year:
        return source.partition(".")[0]
    return f"{authors.strip().rstrip(',')} {year[0]}"


def _labels(paragraph: str) -> dict[str, str]:
    """{label: text} of a paragraph of lines like `scale   1/√D`; empty where it is none. One line may hold several."""
    found: dict[str, str] = {}
    label = ""
    for line in paragraph.splitlines():
        if line.startswith(" "):
            if not label:
                return {}
            found[label] += " " + line.strip()
            continue
        parts = re.split(r" {2,}", line.strip())
        if len(parts) % 2:
            return {}
        found.update(zip(parts[::2], parts[1::2], strict=True))
        label = parts[-2]
    return found


def _flowing(text: str) -> str:
    return " ".join(text.split())


def _undented(lines: list[str]) -> tuple[str, ...]:
    margin = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    return tuple(line[margin:] for line in lines)
