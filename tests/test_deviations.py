"""Accepted deviations: what is declared is accepted, nothing else is; what makes no sense is answered in words."""

import json
from dataclasses import replace

import pytest

from command_line import SMOKE, check, fits
from judging import complaint
from relpos import Deviation
from relpos.conformance.certificate import checked
from relpos.conformance.deviations import checked as deviations_checked
from relpos.conformance.deviations import read_deviations
from relpos.conformance.errors import UsageError
from relpos.conformance.laws import law
from relpos.conformance.profiles import profile
from relpos.conformance.runner import ACCEPTED, FAIL, run_law
from relpos.conformance.smoke import smoke
from relpos.conformance.subject import plug_in
from relpos.spec.alibi import ALiBi
from user_kernels import geometric, press, rewarded

WITNESS = '{"settings":{"num_heads":3},"heads":3,"query_length":2,"key_length":2,"query_positions":[0,1],"key_positions":[0,1]}'
SAID = {
    "name": "their slopes",
    "law": "L10",
    "reason": "Old checkpoints have them.",
    "bound": "Numbers of heads that are no power of two.",
    "witness": WITNESS,
    "units": 2e7,
    "also": ("L1", "L11", "L26"),
}
THEIRS = Deviation(**SAID)
HEADS = {"num_heads": [n for n in range(1, 129) if n & (n - 1)]}


def judged(name, *deviations, target=geometric):
    subject = smoke(plug_in(target, spec="k:it", scheme="alibi", deviations=deviations))
    return run_law(law(name), subject, profile("quick"))


def test_a_law_that_fails_as_declared_is_accepted():
    result = judged("L10", THEIRS)
    assert (result.verdict, result.reason) == (ACCEPTED, "their slopes (Old checkpoints have them)")
    assert judged("L1", THEIRS).verdict == ACCEPTED


def test_named_inputs_are_a_bound_as_well():
    assert judged("L10", replace(THEIRS, units=None, at=HEADS)).verdict == ACCEPTED
    few = judged("L10", replace(THEIRS, units=None, at={"num_heads": 3}))
    assert few.verdict == FAIL and few.reason == "the slopes of 5 heads are not those of the rule"


def test_beyond_its_bound_it_fails():
    beyond = replace(THEIRS, units=7e6)  # the witness has less, other numbers of heads have more
    assert judged("L10", beyond).verdict == FAIL
    assert judged("L10", beyond).reason.endswith("heads are not those of the rule")


def test_beside_its_laws_it_fails():
    assert judged("L1", replace(THEIRS, also=())).verdict == FAIL


def test_another_mistake_is_not_taken_for_it():
    result = judged("L10", replace(THEIRS, at=HEADS), target=rewarded)
    assert result.verdict == FAIL and result.reason == "the slopes of 1 head are not those of the rule"


def test_a_stale_one_fails_and_says_so():
    says = "the deviation 'their slopes' is stale: L10 holds on its witness; remove it"
    assert (judged("L10", THEIRS, target=press).verdict, judged("L10", THEIRS, target=press).reason) == (FAIL, says)


def test_one_of_a_law_that_is_not_judged_is_stale():
    result = judged("L14", replace(THEIRS, law="L14"))
    says = "the deviation 'their slopes' is stale: L14 is not judged here (judged on rotations); remove it"
    assert (result.verdict, result.reason) == (FAIL, says)


def test_one_that_fails_otherwise_is_stale():
    says = judged("L10", replace(THEIRS, says="tangents")).reason
    assert says == (
        "the deviation 'their slopes' is stale: on its witness L10 fails otherwise "
        "(the slopes of 3 heads are not those of the rule); it is to say 'tangents'"
    )


NONSENSE = [
    ({"reason": " "}, "deviation 'their slopes': `reason` must be a text that says something, got ' '."),
    ({"units": 0}, "deviation 'their slopes': `units` must be a positive number, got 0."),
    (
        {"units": None},
        "deviation 'their slopes' would accept every failure of L10. Say how far it goes: `units` (largest error), `at` "
        "(inputs) or `says` (part of the message).",
    ),
    ({"law": "L99"}, "deviation 'their slopes': there is no law 'L99'; the laws are L1, L2, "),
    (
        {"witness": "nonsense"},
        "deviation 'their slopes': `witness` must be the JSON that a failure printed behind --case, got 'nonsense'.",
    ),
]


@pytest.mark.parametrize(("change", "says"), NONSENSE, ids=[next(iter(change)) for change, _ in NONSENSE])
def test_a_deviation_that_makes_no_sense_is_refused_in_words(change, says):
    assert complaint(lambda: Deviation(**{**SAID, **change}), UsageError).startswith(says)


UNFIT = [
    ([THEIRS, THEIRS], "two deviations are called 'their slopes'; name each once."),
    ([{}], "deviations are relpos.Deviation objects, got dict."),
    (
        [replace(THEIRS, at={"n_heads": 3})],
        "deviation 'their slopes': `at` names 'n_heads'; an input has batch, bias_max, causal, content, ",
    ),
    ([replace(THEIRS, at={"num_heads": 5})], "deviation 'their slopes': its witness lies outside of `at` ({'num_heads': 5})."),
    (
        [replace(THEIRS, witness='{"settings":{"num_heads":3}}')],
        "deviation 'their slopes': witness: `heads` is 1, but the setting `num_heads` is 3.",
    ),
]


@pytest.mark.parametrize(("given", "says"), UNFIT, ids=["twice", "dict", "unknown", "outside", "sizes"])
def test_deviations_that_do_not_fit_are_refused_in_words(given, says):
    assert complaint(lambda: deviations_checked(given, ALiBi), UsageError).startswith(says)


# ---- files


def written(stand, name, text):
    (stand / name).write_text(text, encoding="utf-8")
    return stand / name


TOML = f"""
[[deviations]]
name = "their slopes"
law = "L10"
also = ["L1", "L11", "L26"]
reason = "Old checkpoints have them."
bound = "Numbers of heads that are no power of two."
units = 2e7
witness = '{WITNESS}'
"""


def test_toml_and_json_say_the_same(tmp_path):
    document = {"deviations": [THEIRS.document]}
    assert read_deviations(written(tmp_path, "d.toml", TOML)) == (THEIRS,)
    assert read_deviations(written(tmp_path, "d.json", json.dumps(document))) == (THEIRS,)


WRONG_FILES = [
    ("d.json", "{", "--deviations: d.json is not JSON: "),
    ("d.toml", "=", "--deviations: d.toml is not TOML: "),
    (
        "d.json",
        "{}",
        "--deviations: d.json: 'deviations' is a required property at its top level. One reads: [[deviations]] name",
    ),
    (
        "d.json",
        '{"deviations": [{"name": 3}]}',
        "--deviations: d.json: 'law' is a required property at deviations/0. One reads",
    ),
]


@pytest.mark.parametrize(("name", "text", "says"), WRONG_FILES, ids=["no json", "no toml", "empty", "no text"])
def test_a_file_that_is_none_is_answered_in_words(relpos, stand, name, text, says):
    written(stand, name, text)
    code, out, err = relpos(*check("press", *SMOKE, "--deviations", name))
    assert code == 2 and not out
    assert " ".join(err.split()).startswith("wrong usage: " + says)


def test_a_file_that_is_not_there_is_named(relpos):
    _, _, err = relpos(*check("press", "--deviations", "no.toml"))
    assert " ".join(err.split()).startswith("wrong usage: --deviations: no.toml could not be read (No such file or directory).")


# ---- the command line


def test_accepted_deviations_are_shown_and_recorded_and_the_exit_code_is_0(relpos, stand):
    written(stand, "d.toml", TOML)
    laws = ("--law", "L10", "--law", "L11", "--deviations", "d.toml", "--json", "c.json")
    code, out, _ = relpos(*check("geometric", *SMOKE, *laws))
    assert code == 0, out
    assert "  ≈  L10  slopes for 1…128 heads" in out and "accepted deviation: their slopes" in " ".join(out.split())
    assert "\nconforms: 0 of 2 laws hold, 2 deviate as accepted (exit 0)\n" in out
    fits(out)
    document = checked(json.loads((stand / "c.json").read_text(encoding="utf-8")))
    assert document["header"]["deviations"] == [THEIRS.document]
    assert [r["verdict"] for r in document["results"]] == ["accepted", "accepted"]


def test_a_stale_deviation_ends_with_1_and_says_what_to_do(relpos, stand):
    written(stand, "d.toml", TOML)
    code, out, _ = relpos(*check("press", *SMOKE, "--law", "L10", "--deviations", "d.toml"))
    assert code == 1 and "\ndoes not conform: 1 of 1 law fails (exit 1)\n" in out
    assert "\nThe deviation 'their slopes' is stale: L10 holds on its witness; remove it.\nWitness: num_heads = 3, " in out
    assert "Looks like" not in out and "Diagnosis" not in out
