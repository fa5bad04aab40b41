"""A failing input is made smaller while the law fails in the same way, in a bounded number of tries, and never otherwise."""

import json
from dataclasses import replace

import pytest

from judging import plugged, tried
from relpos.conformance.errors import UsageError
from relpos.conformance.faults import cells, sizes
from relpos.conformance.judge import LawFailure
from relpos.conformance.laws import law
from relpos.conformance.laws.base import Law
from relpos.conformance.plan import Plan
from relpos.conformance.planting import plant
from relpos.conformance.profiles import profile
from relpos.conformance.reducing import TRIES, reduced, weight
from relpos.conformance.runner import FAIL, replay, run_law
from relpos.conformance.searching import Count
from relpos.conformance.smaller import smaller
from relpos.conformance.smoke import smoke_plan

# Fault, and the size of the smallest input of its public report.
SMALLEST = [
    ("alibi", "one-series", 3),
    ("alibi", "first-rank", 2),
    ("alibi", "cached-from-zero", 7),
    ("sinusoidal", "base-1000", 4),
    ("deberta", "always-float", 16),
    ("none", "masked-after-softmax", 2),
    ("none", "strides-assumed-ragged", 66),
    ("swin", "resized-by-cutting", 16),
    ("rope", "keeps-turned-keys", 25),
]


def broken(holds, *, raises=None) -> Law:
    """A law that fails on every input but those where `holds`."""

    def check(subject, plan):
        if raises is not None and (error := raises(plan)) is not None:
            raise error
        if not holds(plan):
            raise LawFailure("it differs", plan=plan)
        return 0.0

    return replace(law("L1"), check=check, applies=lambda subject: "made up" if subject.spec.endswith("none") else None)


def first(one, subject, plan) -> LawFailure:
    with pytest.raises(LawFailure) as caught:
        one.check(subject, plan)
    return caught.value


@pytest.mark.parametrize(("scheme", "fault", "size"), SMALLEST, ids=[fault for _, fault, _ in SMALLEST])
def test_a_counterexample_is_as_small_as_that_of_the_report(scheme, fault, size):
    (cell,) = sizes.homes(cells.cells(scheme, fault))
    assert 1 <= sizes.measure(cell)["size"] <= size


def test_one_number_of_heads_is_found_whose_slopes_are_wrong():
    subject = plant("alibi", "contribution", sizes.homes(cells.cells("alibi", "one-series"))[0].planted())
    result = run_law(law("L10"), subject, profile("quick"), seed_number=0)
    assert result.failure is not None and result.failure.plan.heads == 3


@pytest.mark.parametrize(("scheme", "fault"), [("alibi", "last-key"), ("t5", "top-left")])
def test_what_is_left_still_fails_when_it_is_read_from_its_json(scheme, fault):
    (cell,) = sizes.homes(cells.cells(scheme, fault))
    subject, one = plant(scheme, cell.level, cell.planted()), law(cell.law)
    failure = run_law(one, subject, profile("quick"), seed_number=0).failure
    assert failure is not None
    assert replay(one, subject, Plan.from_json(failure.plan.to_json())).verdict == FAIL
    assert replay(one, plant(scheme, cell.at), failure.plan).verdict != FAIL  # the definition is right there


def test_every_axis_comes_down_to_what_the_law_needs():
    subject = plant("alibi", "attention")
    one = broken(lambda plan: plan.query_length < 2 or plan.key_length < 3 or plan.batch < 2)
    plan = reduced(one, subject, first(one, subject, smoke_plan(subject)), Count()).plan
    assert (plan.batch, plan.heads, plan.query_length, plan.key_length, plan.head_dim) == (2, 1, 2, 3, 1)
    assert plan.settings["num_heads"] == 1 and len(plan.query_positions) == 2 and len(plan.key_positions) == 3


@pytest.mark.parametrize("most", [0, 1, 5, TRIES])
def test_tries_are_bounded(most):
    subject = plant("alibi", "attention")
    one, count = broken(lambda plan: plan.heads % 2 == 0), Count()
    reduced(one, subject, first(one, subject, smoke_plan(subject)), count, tries=most)
    assert count.inputs <= most


def test_an_input_on_which_nothing_else_fails_stays_as_it_is():
    subject = plant("alibi", "attention")
    start = smoke_plan(subject)
    one, count = broken(lambda plan: plan != start), Count()
    assert reduced(one, subject, first(one, subject, start), count, tries=10**6).plan == start
    assert count.inputs < 200  # each is tried once


@pytest.mark.parametrize("error", [UsageError("no such input"), IndexError("out of range"), TypeError("no such step")])
def test_an_input_of_which_the_law_can_make_nothing_is_no_smaller_one(error):
    subject = plant("alibi", "attention")
    one = broken(lambda plan: False, raises=lambda plan: error if plan.heads < 3 else None)
    plan = reduced(one, subject, first(one, subject, smoke_plan(subject)), Count()).plan
    assert plan.heads == 3 and plan.batch == 1


def fussy(num_heads, q, k):
    """Right for no input, but it takes none of less than three tokens."""
    if q.shape[2] < 3:
        raise NotImplementedError("at least 3 queries are needed")
    return q @ k.transpose(-1, -2)


def test_where_it_begins_to_decline_or_to_raise_the_input_gets_no_smaller():
    result = tried(plugged(fussy, "alibi"), "L1")["L1"]
    assert result.failure is not None and result.failure.plan.query_length == 3 and "NotImplemented" not in result.reason


@pytest.mark.parametrize(
    ("scheme", "level"), [("alibi", "contribution"), ("rope", "logits"), ("t5", "attention"), ("swin", "contribution")]
)
def test_every_smaller_input_is_one_that_the_definition_answers(scheme, level):
    subject = plant(scheme, level)
    plan, one = smoke_plan(subject), law("L1")
    offered = list(smaller(subject, plan))
    assert offered and all(replay(one, subject, p).verdict != FAIL for p in offered)
    assert any(weight(p) < weight(plan) for p in offered)


# ---- the distribution


def test_sizes_are_rows_that_are_kept_and_a_table_of_those_that_are_larger(relpos, stand, monkeypatch):
    words = ("faults", "--scheme", "alibi", "--fault", "one-series", "--seeds", "1", "--alarm-seeds", "0", "--sizes")
    code, out, _ = relpos(*words, "--jobs", "1", "--out", "rows.jsonl", "--report", "table.md")
    assert code == 0 and "1 counterexamples" in out and "1 are as small as that, or smaller" in " ".join(out.split())
    assert "None is larger than its report's." in (stand / "table.md").read_text(encoding="utf-8")
    (row,) = [
        r for r in map(json.loads, (stand / "rows.jsonl").read_text(encoding="utf-8").splitlines()) if r["block"] == "size"
    ]
    assert row["size"] == 3 and row["law"] == "L10"
    monkeypatch.setattr(sizes, "measure", lambda cell: pytest.fail("it is known"))
    again = relpos(*words, "--jobs", "1", "--out", "rows.jsonl")
    assert again[0] == 0 and "counterexamples;" not in again[1]


def test_a_counterexample_that_is_larger_than_its_reports_is_listed():
    cell = sizes.homes(cells.cells("alibi", "one-series"))[0]
    found = [sizes.Size(cell, 4, 0.1), sizes.Size(cell, None, 0.1), sizes.Size(cell, 3, 0.1)]
    assert [row[3] for row in sizes.larger(found)] == ["4", "none"]
    assert "4 at worst" in sizes.told(found)[0] and "Of 2 with" in sizes.told(found)[1] and not sizes.told([])


def test_a_decode_is_as_large_as_its_longest_step():
    plan = Plan(settings={"num_heads": 1}, query_length=3, key_length=3, extra={"chunks": (2, 1)})
    whole = plan.but(extra={})
    assert [sizes.size_of("L3", plant("alibi", "contribution"), one) for one in (plan, whole)] == [6, 9]
    turned = plan.but(settings={"head_dim": 2}, head_dim=2)
    assert sizes.size_of("L3", plant("rope", "contribution"), turned) == 4  # a step turns its own tokens alone


@pytest.mark.parametrize(
    ("scheme", "fault", "name", "size"), [("t5", "slice-skipped", "L24", 2), ("alibi", "keeps-scores", "L22", 2**20)]
)
def test_an_input_of_a_law_that_measures_or_compiles_is_made_smaller_in_a_few_tries(scheme, fault, name, size):
    (cell,) = [one for one in sizes.homes(cells.cells(scheme, fault)) if one.law == name]
    one, subject, count = law(name), plant(scheme, cell.level, cell.planted()), Count()
    failure = next(found for plan in one.pinned(subject) if (found := replay(one, subject, plan).failure) is not None)
    small = reduced(one, subject, failure, count)
    assert sizes.size_of(name, subject, small.plan) == size and count.inputs <= 3
    assert replay(one, subject, Plan.from_json(small.plan.to_json())).verdict == FAIL
