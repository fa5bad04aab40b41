"""Every fault is caught, at every level it can be planted at, by the very law it names; what is no fault is not."""

import re
from collections import Counter
from dataclasses import replace

import pytest

from relpos.conformance.errors import AdapterError
from relpos.conformance.faults.api import Fault, Planted
from relpos.conformance.faults.kill_table import catches, kill_rows, owed
from relpos.conformance.faults.registry import faults
from relpos.conformance.laws import law, laws
from relpos.conformance.planting import NO_FAULT, levels_of, plant
from relpos.conformance.profiles import profile
from relpos.conformance.verdict import CONFORMS, judge
from relpos.spec.registry import schemes

QUICK, SMOKE = profile("quick"), profile("smoke")
CELLS = [(scheme, fault, level) for scheme in schemes() for fault in faults(scheme) for level in levels_of(scheme, fault)]
SPECIMENS = ("steps-from-zero", "kept-by-length", "in-place", "gradient-not-turned", "along-heads", "values-too", "causal-late")


def cells(found: list[tuple[str, Fault | Planted, str]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("scheme", "fault", "level"), found, ids=[f"{s}-{f.name}-{level}" for s, f, level in found])


def chosen(scheme: str, *names: str) -> list[tuple[str, Fault | Planted, str]]:
    return [cell for cell in CELLS if cell[0] == scheme and cell[1].name in names]


# At home on every change; elsewhere under `-m exhaustive`, in a sample on every change, and in the kill table.
@pytest.mark.parametrize(
    ("scheme", "fault", "level"),
    [
        pytest.param(
            s, f, level, id=f"{s}-{f.name}-{level}", marks=() if level == levels_of(s, f)[0] else pytest.mark.exhaustive
        )
        for s, f, level in CELLS
    ],
)
def test_fault_is_caught_by_the_law_it_names(scheme: str, fault: Fault | Planted, level: str) -> None:
    subject = plant(scheme, level, fault)
    assert catches(owed(fault, subject), subject, QUICK), f"{owed(fault, subject).name} does not see {scheme} with {fault.says}"


@cells(chosen("rope", *SPECIMENS))
def test_fault_never_conforms(scheme: str, fault: Fault | Planted, level: str) -> None:
    assert judge(plant(scheme, level, fault), SMOKE, explain=False).word != CONFORMS


@cells(chosen("alibi", "rounded-heads"))
def test_crash_on_ordinary_inputs_is_a_broken_adapter(scheme: str, fault: Fault | Planted, level: str) -> None:
    with pytest.raises(AdapterError, match="could not be called"):
        judge(plant(scheme, level, fault), SMOKE)


@cells([(scheme, NO_FAULT, level) for scheme in schemes() for level in levels_of(scheme, NO_FAULT)])
def test_no_fault_is_caught_by_no_law(scheme: str, fault: Fault, level: str) -> None:
    subject = plant(scheme, level, fault)
    assert [one.name for one in SMOKE.laws() if catches(one, subject, SMOKE)] == []


@cells([cell for cell in chosen("alibi", "last-key") if cell[2] != "attention"])
def test_constant_per_query_is_forgiven_under_a_causal_softmax(scheme: str, fault: Fault, level: str) -> None:
    subject = plant(scheme, level, replace(fault, claims={"softmax": "causal"}))
    assert [one.name for one in laws() if catches(one, subject, SMOKE)] == []


@pytest.mark.parametrize("scheme", schemes())
def test_faults_are_named_and_filed(scheme: str) -> None:
    found = faults(scheme)
    twice = [name for name, count in Counter(fault.name for fault in found).items() if count > 1]
    assert not twice, f"{scheme} has several faults called {twice}"
    for fault in found:
        assert law(fault.law).name == fault.law
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", fault.name), fault.name
        assert all(re.fullmatch(r"B\d{3}", case) for case in fault.cases), fault.cases


@pytest.mark.parametrize("scheme", schemes())
def test_every_fault_can_be_planted(scheme: str) -> None:
    nowhere = [fault.name for fault in faults(scheme) if not levels_of(scheme, fault)]
    assert not nowhere, f"{scheme} has no level at which to plant {nowhere}"


def test_every_law_catches_something() -> None:
    idle = {one.name for one in laws()} - {owed(fault, plant(scheme, level, fault)).name for scheme, fault, level in CELLS}
    assert not idle, f"no fault is owed to {sorted(idle)}"


def test_kill_table_says_who_caught_what() -> None:
    row = next(kill_rows("none", SMOKE))
    assert (row.scheme, row.fault, row.level, row.cases, row.owed) == ("none", "turned", "logits", ("B129",), "L1")
    assert row.killed
    assert "L1" in row.by
