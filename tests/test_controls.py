"""Right implementations that look wrong are left alone; those of reports fail the laws of their kind without their claims."""

import pytest
import torch

from relpos.conformance.faults.api import Control
from relpos.conformance.faults.cases import case
from relpos.conformance.faults.controls import CONTROLS, REPORTED
from relpos.conformance.faults.controls_reported import _skewed
from relpos.conformance.laws import law
from relpos.conformance.profiles import profile
from relpos.conformance.runner import FAIL, PASS, run_law
from relpos.conformance.smoke import smoke
from relpos.conformance.subject import Subject, plug_in
from relpos.spec.registry import schemes

SEEDS = (0, 1, 2)
NAMED = pytest.mark.parametrize("control", CONTROLS, ids=lambda control: f"{control.scheme}-{control.name}")
# What is said otherwise of each report's control, and the laws that must then fail: it is right by its claim alone.
OTHERWISE = {
    "kept-for-more-keys": ({}, {"softmax": "any"}, ("L4", "L6")),
    "one-row": ({}, {"softmax": "any"}, ("L1", "L6")),
    "forty-heads-published": ({"slope_rule": "geometric"}, {}, ("L1", "L10")),
    "forty-heads-geometric": ({"slope_rule": "press"}, {}, ("L1", "L10")),
    "skew-uncut": ({}, {"softmax": "any"}, ("L1",)),
    "shift-uncut": ({}, {"softmax": "any"}, ("L1", "L20")),
    "width-counts": ({"sign": "key_minus_query"}, {}, ("L13",)),
    "sines-first": ({"layout": "interleaved"}, {}, ("L1",)),
    "half-apart": ({"layout": "interleaved"}, {}, ("L1", "L14")),
    "bottom-right": ({}, {"corner": "top-left"}, ("L1", "L7")),
    "top-left": ({}, {"corner": "bottom-right"}, ("L1", "L7")),
}


def plugged(control: Control, settings: dict | None = None, claims: dict | None = None) -> Subject:
    given, claimed = {**control.settings, **(settings or {})}, {**control.claims, **(claims or {})}
    return smoke(plug_in(control.target, spec=control.name, scheme=control.scheme, given=given, claims=claimed))


def accusations(subject: Subject, profile_name: str, number: int | None = None, names: tuple = ()) -> dict[str, str]:
    """What the laws of a profile say against it, or those that are named."""
    there = profile(profile_name)
    tried = [law(name) for name in names] or there.laws()
    results = [run_law(one, subject, there, seed_number=number, shrink=False) for one in tried]
    assert any(r.verdict == PASS for r in results)
    return {r.law.name: r.reason for r in results if r.verdict == FAIL}


@pytest.mark.parametrize("control", REPORTED, ids=lambda control: control.name)
def test_what_reports_took_for_a_fault_is_left_alone(control):
    # Forty heads take their time: on every change the laws of slopes, the others with all controls.
    names = OTHERWISE[control.name][2] if control.name.startswith("forty") else ()
    assert accusations(plugged(control), "smoke", names=names) == {}


@pytest.mark.exhaustive
@pytest.mark.parametrize("number", SEEDS)
@NAMED
def test_no_control_is_accused(control, number):
    assert accusations(plugged(control), "quick", number) == {}


@pytest.mark.parametrize("control", REPORTED, ids=lambda control: control.name)
def test_without_its_claim_it_is_wrong(control):
    settings, claims, names = OTHERWISE[control.name]
    subject = plugged(control, settings, claims)
    results = {name: run_law(law(name), subject, profile("smoke"), shrink=False).verdict for name in names}
    assert results == dict.fromkeys(names, FAIL)


def test_controls_are_named_once_and_bear_ids_of_controls_alone():
    names = [control.name for control in CONTROLS]
    assert len(names) == len(set(names)) and {control.scheme for control in CONTROLS} <= set(schemes())
    assert not [n for control in CONTROLS for n in control.cases if case(n).is_fault]
    assert {control.name for control in REPORTED} == set(OTHERWISE)


def test_a_skew_keeps_what_is_at_or_before_the_query():
    """B042: a report's matrix, and what is right of it."""
    skewed = _skewed(torch.tensor([[11, 12, 13], [21, 22, 23], [31, 32, 33]]))
    assert skewed.tolist() == [[13, 0, 21], [22, 23, 0], [31, 32, 33]]


def test_a_control_that_is_wrong_would_be_accused():
    """The same loop finds a fault: a slope doubled under the most forgiving claim."""
    one_row = next(control for control in REPORTED if control.name == "one-row")

    def twice(settings, key_length):
        return 2 * one_row.target(settings, key_length)

    doubled = Control("doubled", "twice the slope", "alibi", twice, (), one_row.settings, one_row.claims)
    assert {"L1", "L10"} <= set(accusations(plugged(doubled), "smoke"))
