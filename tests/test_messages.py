"""Failure messages, word by word: `failure_messages.txt` holds what a user reads of every law, for `culprits.py`.

A changed message is read, judged and written down anew: `python tests/test_messages.py`.
"""

import shlex
from pathlib import Path

import numpy as np
import pytest

import culprits
import culprits_paths
import culprits_state
import culprits_traced
from judging import plugged, tried
from relpos.conformance.diagnosis import Diagnosis, diagnose
from relpos.conformance.judge import LawFailure, compare_within
from relpos.conformance.laws import law, laws
from relpos.conformance.message import diagnosis_lines, failure_lines, headline, table_lines
from relpos.conformance.plan import Plan
from relpos.conformance.runner import FAIL, replay

FILE = Path(__file__).with_name("failure_messages.txt")
CULPRITS = [
    ("L1", "clipped"), ("L1", "two_mistakes"), ("L1", "unheard_of"), ("L2", "first_query_differs"),
    ("L3", "offset_lost"), ("L4", "Kept"), ("L4", "HandsOut"), ("L4", "writes_into_q"), ("L4", "KeptInEval"),
    ("L5", "first_key_open"), ("L6", "key_only"), ("L7", "wrong_corner"), ("L8", "uniform_when_empty"),
    ("L8", "nan_when_empty"), ("L8", "poisoned"),
    ("L9", "first_rank"), ("L10", "geometric"), ("L11", "rewarded"), ("L11", "exchanged"),
    ("L12", "last_bucket_late"), ("L13", "height_for_width"), ("L14", "lengthened"), ("L15", "other_frequencies"),
    ("L16", "exponent_unread"), ("L17", "scaled_at_once"), ("L18", "counted_in_dtype"), ("L19", "short_integers"),
    ("L20", "no_gradient_of_k"), ("L20", "half_a_gradient"), ("L21", "samples_mixed"), ("L22", "scores_formed"),
    ("L23", "NotSaved"), ("L24", "eight_keys_compiled"), ("L25", "whole_tiles"), ("L26", "even_only"),
    ("L20", "weights_held"), ("L22", "KeptScores"), ("L24", "eight_keys_exported"), ("L24", "written_into_one"),
    ("L27", "later_keys_louder"), ("L28", "flag_alone"), ("L28", "UnbiasedInTraining"), ("L28", "fused_clipped"),
    ("L29", "scaled_twice"), ("L30", "counted_on"), ("L31", "cut_to_size"),
]  # fmt: skip
WRONG = {**vars(culprits), **vars(culprits_paths), **vars(culprits_state), **vars(culprits_traced)}
every_culprit = pytest.mark.parametrize(("name", "culprit"), CULPRITS, ids=[f"{law}-{name}" for law, name in CULPRITS])


def written() -> dict[str, str]:
    """The messages of the file, by culprit."""
    sections = FILE.read_text(encoding="utf-8").split("==== ")[1:]
    return {section.partition("\n")[0]: section.partition("\n")[2].strip() for section in sections}


def said(name: str, culprit: str, plan: Plan | None = None) -> str:
    """What the judge says of a culprit: on a stored input, or on the smallest that it finds."""
    subject, one = plugged(WRONG[culprit]), law(name)
    result = replay(one, subject, plan) if plan is not None else tried(subject, name)[name]
    assert result.verdict == FAIL and result.failure is not None
    lines = [headline(one), *failure_lines(one, result.failure, subject)]
    if name != "L8":  # attention that nothing explains: hundreds of pairs of mistakes are tried, for seconds
        lines += diagnosis_lines(diagnose(subject), (), (), subject.scheme)
    return "\n".join(lines)


def input_of(message: str) -> Plan:
    """The input that a message says how to repeat."""
    (line,) = [line for line in message.splitlines() if line.startswith("Again:")]
    words = shlex.split(line)
    return Plan.from_json(words[words.index("--case") + 1])


@every_culprit
def test_the_message_says_it_in_these_words(name, culprit):
    expected = written()[culprit]
    assert said(name, culprit, input_of(expected)) == expected


@every_culprit
def test_a_culprit_is_caught_by_the_law_it_breaks(name, culprit):
    assert tried(plugged(WRONG[culprit]), name)[name].verdict == FAIL


def test_every_law_has_a_message():
    assert {name for name, _ in CULPRITS} == {one.name for one in laws()}
    assert set(written()) == {culprit for _, culprit in CULPRITS}


@pytest.mark.parametrize("culprit", [c for _, c in CULPRITS])
def test_tables_fit_on_eighty_columns(culprit):
    lines = written()[culprit].splitlines()
    assert all(len(line) <= 80 for line in lines if line.startswith("  "))


@pytest.mark.parametrize("last", [1.0, -1.23456e-3, 1e30, np.nan, -np.inf])
@pytest.mark.parametrize("labels", [(), ("a long label of a row, of forty characters",) * 6])
def test_any_table_fits_on_eighty_columns_and_marks_the_worst(last, labels):
    got = np.full((2, 6, 9), -1.2345e-5)
    got[1, 4, 7] = last
    found = compare_within(got, np.zeros(got.shape), np.ones(got.shape), name="it", allowed=1.0, axes=("head", "query", "key"))
    title, head, *rows = table_lines(found if not labels else _labelled(found, labels))
    assert all(len(row) <= 80 for row in (head, *rows))
    marked = [row for row in rows if row.endswith("◄")]
    assert len(marked) == 1 and f"{last:.3g}" in marked[0] and f"got {last:.6g}, expected 0" in title


def _labelled(found, labels):
    from dataclasses import replace

    return replace(found, labels=labels)


def test_a_message_survives_the_way_between_processes():
    import pickle

    failure = LawFailure("it differs", plan=Plan(extra={"chunks": (1, 2)}), facts={"table": "t"})
    failure.law = "L1"
    again = pickle.loads(pickle.dumps(failure))
    assert (again.says, again.plan, again.facts, again.law) == ("it differs", failure.plan, {"table": "t"}, "L1")


# ---- the diagnosis

NOTHING, KEYS = Diagnosis(), Diagnosis(settings=("distance=key_only",))
BOTH = Diagnosis(("a first head of slope 1", "slopes reversed"))
PASSES = "Every law passes if --claim softmax=causal; it is not a pass until you say so."
SAID = [
    ((None, (), ()), []),
    ((NOTHING, (), ()), []),
    ((Diagnosis(("slopes reversed",)), (), ()), ["Looks like: alibi with slopes reversed."]),
    ((KEYS, (), ()), ["Looks like: alibi with distance=key_only."]),
    ((BOTH, (), ()), ["Looks like one of: alibi with a first head of slope 1; alibi with slopes reversed."]),
    ((Diagnosis(hint="no known mistake matches"), (), ()), ["Diagnosis: no known mistake matches."]),
    ((NOTHING, (), ("softmax=causal",)), [PASSES]),
]


@pytest.mark.parametrize(("given", "expected"), SAID, ids=[str(n) for n in range(len(SAID))])
def test_the_diagnosis_says_it_in_these_words(given, expected):
    assert diagnosis_lines(*given, "alibi") == expected


def test_another_setting_that_fits_is_named_with_what_to_type():
    lines = diagnosis_lines(KEYS, ("distance=key_only", "slope_rule=geometric scale_bias=True"), (), "alibi")
    text = " ".join(lines)
    assert "Every law passes under distance=key_only or under slope_rule=geometric scale_bias=True" in text
    assert "--set distance=key_only or --set slope_rule=geometric --set scale_bias=True." in text
    assert "Looks like" not in text  # it is said already


if __name__ == "__main__":
    FILE.write_text(
        "\n\n".join(f"==== {culprit}\n{said(name, culprit)}" for name, culprit in CULPRITS) + "\n", encoding="utf-8"
    )
