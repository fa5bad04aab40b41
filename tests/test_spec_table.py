"""The tables of all schemes in spec/README.md are those of the code.

After a change of a definition, a golden or a peer they are written anew: `python tests/test_spec_table.py`. Where the extra
`peers` is not installed, the column of deviations stays as it is.
"""

from collections import Counter
from typing import Any

import pytest

from documents import HERE
from relpos.conformance.peers.run import recorded
from relpos.show.probing import any_length, axes, rows_read, shown_settings
from relpos.show.reading import FACTS, LONGEST_FACT, definition, missing_facts, reference
from relpos.spec.positions import Range
from relpos.spec.registry import schemes, settings_class
from test_goldens import NOT_EXPRESSIBLE, explainer, outputs

FILE = HERE / "spec" / "README.md"
BEGIN, END = "<!-- written by tests/test_spec_table.py -->", "<!-- end of what is written -->"
RELATIVE = {
    "relative": "yes",
    "row_relative": "up to a constant per query",
    "relative_dot": "e · e′ alone",
}
WHAT = ("scheme", "form", "learned tensors", *FACTS)
HINT = "write them anew: python tests/test_spec_table.py"
HELD = ("scheme", "of i − j alone", "at any length", "source", "goldens matched", "public deviations")


def example(scheme: str) -> Any:
    """Settings of a scheme, as `show` shows them."""
    return shown_settings(settings_class(scheme), scheme, [])[0]


def what(scheme: str) -> tuple[str, ...]:
    """A row of the first table: what the scheme is."""
    cls = settings_class(scheme)
    labels = definition(cls).labels
    learned = " ".join(cls.parameters.__doc__.split()).rstrip(".")
    learned = "none" if learned == "No learned tensors" else learned
    return (f"[{scheme}]({scheme}.py)", cls.form, learned, *(labels.get(name, "–") for name in FACTS))


def held(scheme: str, deviations: dict[str, str]) -> tuple[str, ...]:
    """A row of the second table: what it was held against."""
    settings, claims = example(scheme), getattr(example(scheme), "claims", frozenset())
    relative = next((words for claim, words in RELATIVE.items() if claim in claims), "no")
    length = "yes" if any_length(settings) else "no"
    return (scheme, relative, length, reference(type(settings)), goldens(scheme), deviations.get(scheme, "–"))


def goldens(scheme: str) -> str:
    """How many files and arrays of other people's code the definition gives; how many it cannot express."""
    matched = [name for name, _ in outputs() if explainer(name)[1] == scheme]
    excused = sum(explainer(name)[1] == scheme for name, _ in NOT_EXPRESSIBLE)
    if not matched:
        return "–"
    left = f", {excused} not expressible" if excused else ""
    return f"{len(matched)} arrays of {len(set(matched))} files{left}"


def recorded_deviations() -> dict[str, str]:
    """{scheme: the deviations on record, by package}, of all peers whose package is installed."""
    found: dict[str, dict[str, list[str]]] = {}
    for peer in recorded()[0]:
        of_package = found.setdefault(peer.scheme, {}).setdefault(peer.package, [])
        of_package += [d.name for d in peer.deviations if d.name not in of_package]
    return {scheme: _by_package(packages) for scheme, packages in found.items()}


def _by_package(packages: dict[str, list[str]]) -> str:
    return "; ".join(f"{package}: {', '.join(names) or 'none'}" for package, names in sorted(packages.items()))


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A table in Markdown."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines)


def both(deviations: dict[str, str]) -> str:
    """What stands between the marks."""
    first, second = [what(scheme) for scheme in schemes()], [held(scheme, deviations) for scheme in schemes()]
    return f"\n\n{table(WHAT, first)}\n\n{table(HELD, second)}\n\n"


def written() -> str:
    """What stands there now."""
    text = FILE.read_text(encoding="utf-8")
    assert text.count(BEGIN) == text.count(END) == 1
    return text.partition(BEGIN)[2].partition(END)[0]


def written_deviations() -> dict[str, str]:
    """The last column as it stands there."""
    rows = [line.strip("| ").split(" | ") for line in written().rpartition("\n\n| scheme")[2].splitlines()[2:]]
    return {row[0]: row[-1].replace(r"\|", "|") for row in rows if len(row) == len(HELD)}


@pytest.mark.parametrize("scheme", schemes())
def test_a_definition_says_its_facts(scheme):
    cls = settings_class(scheme)
    missing = missing_facts(cls, has_parameters=bool(example(scheme).parameters()))
    said = "; ".join(f"`{name}` ({FACTS[name]})" for name in missing)
    assert not missing, f"the docstring of spec/{scheme}.py lacks a line, of at most {LONGEST_FACT} characters: {said}"


def test_the_tables_are_those_of_the_code():
    assert written() == both(written_deviations()), HINT


@pytest.mark.filterwarnings("ignore")  # theirs, on import
def test_deviations_are_those_on_record():
    missing = recorded()[1]
    if missing:
        pytest.skip(f"needs {', '.join(sorted(set(missing.values())))} (the extra `peers`)")
    there = {scheme: text for scheme, text in written_deviations().items() if text != "–"}
    assert there == recorded_deviations(), HINT


def test_a_missing_fact_is_seen(monkeypatch):
    cls = settings_class("shaw")
    monkeypatch.setattr("relpos.show.reading.FACTS", {**FACTS, "colour": "which one"})
    assert missing_facts(cls, has_parameters=True) == ["colour"]


@pytest.mark.parametrize("scheme", schemes())
def test_the_sign_said_is_the_sign_in_force(scheme):
    settings, said = example(scheme), definition(settings_class(scheme)).labels.get("sign", "")
    name = next(iter(settings.parameters()), "")
    if axes(settings) > 1 or not said.upper().startswith(("KEY MINUS QUERY", "QUERY MINUS KEY")):
        return  # nothing is looked up by a distance on a line
    rows = rows_read(settings, name, Range(2, 1), Range(0, 4))
    if rows is not None:
        two_before, before, _, after = rows[0].tolist()
        rises = after > before if after >= 0 else before > two_before
        assert said.upper().startswith("KEY MINUS QUERY" if rises else "QUERY MINUS KEY")


def test_every_family_of_goldens_is_counted():
    counted = Counter(explainer(name)[1] for name, _ in outputs())
    assert set(counted) <= set(schemes()) and sum(counted.values()) == len(outputs())


if __name__ == "__main__":
    deviations = written_deviations() if recorded()[1] else recorded_deviations()
    before, _, rest = FILE.read_text(encoding="utf-8").partition(BEGIN)
    FILE.write_text(before + BEGIN + both(deviations) + END + rest.partition(END)[2], encoding="utf-8")
