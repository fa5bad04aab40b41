"""What a ✓ is worth: shares that come from runs alone, never rounded up, and nothing where there are none."""

import json

import jsonschema
import pytest

from relpos.conformance import console, worth
from relpos.conformance.faults.cells import Cell
from relpos.conformance.faults.killing import Attempt
from relpos.conformance.faults.summary import Line
from relpos.conformance.laws import law, laws
from relpos.conformance.runner import PASS, LawResult


def line(name, *attempts, pinned=False):
    cell = Cell("alibi", name, "contribution", "contribution", "L1", "L1")
    return Line(cell, tuple(Attempt(inputs, killed, 0.1) for inputs, killed in attempts), pinned)


@pytest.fixture
def known(monkeypatch):
    """Two faults: one pinned at the second input, one killed at the fifth, at the ninth, and twice not in 20."""
    found = [line("a", *[(2, True)] * 4, pinned=True), line("b", (5, True), (9, True), (20, False), (20, False))]
    document = json.loads(worth.measured(found))
    monkeypatch.setattr(worth, "data", lambda: document["laws"])
    return document


@pytest.mark.parametrize(
    ("inputs", "share"), [(1, 0.0), (2, 0.5), (4, 0.5), (5, 0.625), (8, 0.625), (9, 0.75), (20, 0.75), (1000, 0.75)]
)
def test_every_fault_counts_alike_with_its_share_of_seeds(known, inputs, share):
    assert worth.share_caught("L1", "contribution", inputs) == share


def test_percent_are_never_rounded_up(known):
    assert worth.percent_caught("L1", "contribution", 5) == 62
    found = [line(str(n), (1, True)) for n in range(299)] + [line("never", (20, False))]
    known["laws"]["L1"] = json.loads(worth.measured(found))["laws"]["L1"]
    assert worth.percent_caught("L1", "contribution", 20) == 99


def test_all_is_all(known):
    found = [line(str(n), (1, True), (2, True), (3, True)) for n in range(7)]
    known["laws"]["L1"] = json.loads(worth.measured(found))["laws"]["L1"]
    assert [worth.percent_caught("L1", "contribution", n) for n in (1, 2, 3)] == [33, 66, 100]


def test_nothing_is_said_of_what_was_never_planted(known):
    assert worth.percent_caught("L1", "logits", 20) is None and worth.percent_caught("L2", "contribution", 20) is None


def test_it_stands_beside_the_sign_of_the_law(known):
    result = LawResult(law("L1"), PASS, inputs=9, largest_units=0.31)
    beside = "9 inputs, worst 0.31 units · catches 75 % of planted faults of this kind"
    assert console._detail(result, "contribution") == beside
    assert console._detail(result, "logits") == "9 inputs, worst 0.31 units"


def test_refused_inputs_catch_nothing(known):
    result = LawResult(law("L1"), PASS, inputs=9, refused=5)
    assert "catches 50 %" in console._detail(result, "contribution")


def test_what_is_stored_keeps_to_its_schema_and_grows():
    stored = json.loads((worth.HERE / "worth.json").read_text(encoding="utf-8"))
    jsonschema.validate(stored, worth.schema())
    assert set(stored["laws"]) <= {one.name for one in laws()}
    for levels in stored["laws"].values():
        for known in levels.values():
            assert known["inputs"] == sorted(set(known["inputs"])) and known["shares"] == sorted(known["shares"])
            assert len(known["inputs"]) == len(known["shares"])


def test_stored_data_are_checked(monkeypatch, tmp_path):
    (tmp_path / "worth.json").write_text('{"laws": {"L1": {"contribution": {"faults": 0}}}}', encoding="utf-8")
    schema = worth.schema()
    monkeypatch.setattr(worth, "HERE", tmp_path)
    monkeypatch.setattr(worth, "schema", lambda: schema)
    with pytest.raises(jsonschema.ValidationError):
        worth.data.__wrapped__()
