"""Every public report is planted, a negative control, or left out with a reason; and what bears its id truly is it."""

import re
from collections import Counter
from functools import cache

import numpy as np
import pytest
import torch

import case_inputs as written
import case_inputs_turned as turned
from case_inputs import ROWS, Method, Under, Value
from relpos.conformance.answers import answer
from relpos.conformance.errors import AdapterError, Raised
from relpos.conformance.expected import expected
from relpos.conformance.faults.api import Fault, Planted
from relpos.conformance.faults.cases import case, cases
from relpos.conformance.faults.controls import CONTROLS
from relpos.conformance.faults.registry import faults
from relpos.conformance.history_steps import call
from relpos.conformance.laws import law
from relpos.conformance.plan import Inputs, Plan, inputs
from relpos.conformance.planting import levels_of, plant
from relpos.conformance.profiles import profile
from relpos.conformance.runner import FAIL, replay, run_law
from relpos.spec.registry import schemes, settings_class

ROWS_OF = (*written.ALIBI, *written.TABLES, *written.CONTENT, *turned.ROTATIONS, *turned.SCALING, *turned.WAVES)
WRITTEN_TO = 6e-5  # reports round to four places
NEVER = "nothing is planted"
CRASHES = {
    *("rounded-heads", "unbiased-off-axis", "flat-positions", "eight-heads-alone", "rows-in-float", "grid-fixed"),
    *("square-only", "xlnet-crashes", "crashes-alone", "always-float", "frequencies-of-head", "odd-width", "slice-skipped"),
}


@cache
def bearing(name: str) -> dict[tuple[str, str], Fault | Planted]:
    """Faults with the id of a report, by scheme and name."""
    return {(scheme, f.name): f for scheme in schemes() for f in faults(scheme) if name in f.cases}


def ids(rows: tuple) -> list[str]:
    return [f"{row.case}-{row.scheme}" + (f"-{row.faults[0]}" if row.faults else "") for row in rows]


def found(row) -> list[Fault | Planted]:
    """The faults that a row speaks of."""
    there = [f for (scheme, _), f in bearing(row.case).items() if scheme == row.scheme]
    return [f for f in there if f.name in row.faults] if row.faults else there


# ---- the inventory


@pytest.mark.parametrize("one", cases(), ids=lambda one: one.id)
def test_a_report_is_planted_or_a_control_or_left_out_with_a_reason(one):
    planted, controls = bool(bearing(one.id)), any(one.id in c.cases for c in CONTROLS)
    assert (planted, controls, one.left_out is not None).count(True) == 1
    assert controls == (not one.is_fault)


@pytest.mark.parametrize("one", cases(), ids=lambda one: one.id)
def test_a_report_is_described(one):
    assert re.fullmatch(r"B\d{3}", one.id) and case(one.id) is one
    assert 1 <= one.kind <= 27 and (one.size is None or one.size >= 1)
    assert one.laws and all(re.fullmatch(r"L([1-9]|[12]\d|3[01])", name) for name in one.laws)
    assert 2 <= len(one.summary.split()) <= 12


def test_reports_are_107_in_order_and_every_kind_has_one():
    names = [one.id for one in cases()]
    assert len(names) == 107 and names == sorted(set(names))
    assert {one.kind for one in cases()} == set(range(1, 28))


def test_ids_on_faults_and_controls_are_those_of_reports():
    used = {name for scheme in schemes() for f in faults(scheme) for name in f.cases} | {n for c in CONTROLS for n in c.cases}
    assert used <= {one.id for one in cases()}


def test_every_planted_report_has_an_input():
    without = {one.id for one in cases() if bearing(one.id)} - {row.case for row in ROWS_OF}
    assert not without


# ---- values


def planned(row: Value | Under, fields: dict) -> Plan:
    """Sizes that the settings say need not be said again."""
    said = {axis: row.settings[n] for n, axis in (("num_heads", "heads"), ("head_dim", "head_dim")) if n in row.settings}
    return Plan(settings=row.settings, **{**said, **fields})


def given(row: Value) -> Inputs:
    made = inputs(planned(row, row.plan), row.scheme)
    params = {n: numbered(n, x.shape) for n, x in made.params.items()} if row.params == ROWS else row.params
    made = made if params is None else made.but(params=params)
    shapes = {name: getattr(made, name).shape for name in ("q", "k", "v")}
    shapes["mask"] = (row.plan.get("batch", 1), 1, made.plan.query_length, made.plan.key_length)
    put = {n: np.broadcast_to(np.asarray(x, bool if n == "mask" else float), shapes[n]).copy() for n, x in row.but.items()}
    return made.but(**put)


def numbered(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Row r holds r; tables whose rows come after an axis of heads have them next to last."""
    rows = shape[-2] if name in ("pos_key", "pos_query", "rel_k", "rel_v") else shape[0]
    along = np.arange(float(rows))
    return np.broadcast_to(along[:, None] if len(shape) > 1 else along, shape).copy()


def one_of(results: dict) -> np.ndarray:
    return next(iter(results.values()))


def faulty(row: Value, fault: Fault | Planted, made: Inputs) -> np.ndarray | None:
    """What a fault gives; None where it raises."""
    if isinstance(fault, Fault):
        try:
            return one_of(expected(fault.apply(made), row.level)).value
        except (KeyError, IndexError, ValueError):
            return None
    try:
        return one_of(answer(plant(row.scheme, "itself", fault), made))
    except (Raised, AdapterError):
        return None


VALUES = tuple(row for row in ROWS_OF if isinstance(row, Value))
METHODS = tuple(row for row in ROWS_OF if isinstance(row, Method))
UNDER = tuple(row for row in ROWS_OF if isinstance(row, Under))


@pytest.mark.parametrize("row", VALUES, ids=ids(VALUES))
def test_the_definition_is_right_where_the_fault_is_not(row, monkeypatch):
    made = given(row)
    level = row.level
    whole = one_of(expected(made, level)).value
    if row.right is not None:
        np.testing.assert_allclose(np.asarray(row.pick(whole), float), row.right, atol=WRITTEN_TO)
    if row.compiled:
        for fault in found(row):  # as it is, it is right
            np.testing.assert_allclose(row.pick(faulty(row, fault, made)), row.right, atol=WRITTEN_TO)
        monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert found(row), NEVER
    for fault in found(row):
        wrong = faulty(row, fault, made)
        assert (wrong is None) == (fault.name in CRASHES), fault.name
        if wrong is None:
            continue
        if isinstance(fault, Planted) and wrong.shape != whole.shape:  # it answers at another level
            subject = plant(row.scheme, "itself", fault)
            whole_here = one_of(expected(made, subject.level)).value
            assert not np.allclose(wrong, whole_here, atol=WRITTEN_TO, equal_nan=True), fault.name
            continue
        seen = np.asarray(row.pick(wrong), float) if row.right is not None else wrong
        right = np.asarray(row.pick(whole), float) if row.right is not None else whole
        assert seen.shape != right.shape or not np.allclose(seen, right, atol=WRITTEN_TO), fault.name
    if row.got is not None:
        results = [faulty(row, fault, made) for fault in found(row)]
        shown = [np.asarray(row.pick(r), float) for r in results if r is not None and r.shape == whole.shape]
        assert any(s.shape == np.shape(row.got) and np.allclose(s, row.got, atol=WRITTEN_TO) for s in shown), shown


@pytest.mark.parametrize("row", METHODS, ids=ids(METHODS))
def test_the_settings_say_what_is_right(row):
    settings = settings_class(row.scheme)(**row.settings)
    np.testing.assert_allclose(getattr(settings, row.name)(*row.args), row.right, atol=WRITTEN_TO)
    assert found(row), NEVER
    for fault in found(row):
        wrong = getattr(fault.wrong(settings), row.name)(*row.args)
        assert not np.allclose(wrong, row.right, atol=WRITTEN_TO), fault.name
        if row.got is not None:
            np.testing.assert_allclose(wrong, row.got, atol=WRITTEN_TO)


@pytest.mark.parametrize("row", UNDER, ids=ids(UNDER))
def test_the_law_fails_at_the_report_s_input(row, monkeypatch):
    assert found(row), NEVER
    for fault in found(row):
        subject = plant(row.scheme, levels_of(row.scheme, fault)[0], fault)
        if row.plan is None:
            assert run_law(law(row.law), subject, profile("smoke"), shrink=False).verdict == FAIL, fault.name
            continue
        plan = planned(row, row.plan)
        if row.calls:
            plan = plan.but(extra={"steps": tuple(call(plan, planned(row, one)) for one in (row.plan, *row.calls))})
        if row.compiled:
            assert replay(law(row.law), subject, plan).verdict != FAIL, fault.name
            monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
        assert replay(law(row.law), subject, plan).verdict == FAIL, fault.name


def test_no_row_is_written_twice():
    assert not [name for name, count in Counter(ids(ROWS_OF)).items() if count > 2]
