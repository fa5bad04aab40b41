"""A law explained: in words, why it matters, what is drawn, to whom it applies, what it has caught."""

import pytest

from command_line import FILE, check, fits
from relpos.conformance import explain
from relpos.conformance.laws import law, laws


def said(relpos, *words):
    code, out, err = relpos(*words)
    assert (code, err) == (0, "")
    fits(out)
    return " ".join(out.split())


def test_a_law_is_explained_in_words(relpos):
    text = said(relpos, "explain", "L3")
    assert text.startswith("L3 · a decode step is a row of the whole Rows computed in any chunks, each at its own offset, ")
    assert "Why it matters Text is generated token by token from a cache; if a step differs from training, every model" in text
    assert "What is drawn Inputs by profile: smoke 3, quick 18, default 105, thorough 700, besides some that are fixed." in text
    assert "For example, of alibi at contribution level: · num_heads = " in text and ", chunks = " in text
    assert "To whom it applies contribution level: every scheme logits level: every scheme attention level: every" in text
    assert "Not claimed, it is listed and not judged: --claim unclaimed=L3." in text


def test_what_it_has_caught_is_grouped_by_scheme_with_ids(relpos):
    text = said(relpos, "explain", "L10")
    assert " public reports: " in text or " public report: " in text
    assert "alibi: · " in text and "B001" in text


def test_where_it_does_not_apply_the_reason_is_said(relpos):
    text = said(relpos, "explain", "L22")
    assert "A fixed list of inputs, all of them at every profile (default, thorough)." in text
    assert "no definition of a scheme Where it is not judged: · it does not apply: " in text
    assert "· it is not claimed: no growth of memory is claimed" in text


@pytest.mark.parametrize(("name", "says"), [("L10", "it is judged."), ("L20", "it does not apply: it has no float input.")])
def test_for_an_implementation_it_says_whether_it_is_judged(relpos, name, says):
    text = said(relpos, *check("press", "--explain", name))
    assert f"To whom it applies {FILE}:press (alibi at contribution level): {says} Not claimed, " in text


def test_without_a_name_laws_are_listed(relpos):
    code, out, _ = relpos("explain")
    assert code == 0 and [line.split()[0] for line in out.splitlines()] == [one.name for one in laws()]


@pytest.mark.parametrize("words", [("explain", "L99"), check("press", "--explain", "L99")], ids=["explain", "check"])
def test_a_law_that_there_is_not_is_answered_with_the_list(relpos, words):
    code, out, err = relpos(*words)
    assert code == 2 and not out
    assert err.startswith("wrong usage: there is no law 'L99'. There are:\nL1   equals the definition\nL2   depends on")
    assert err.endswith("L31  a resized table\nNothing was judged (exit 2).\n")


@pytest.mark.parametrize("one", laws(), ids=lambda one: one.name)
def test_why_a_law_matters_is_a_plain_sentence_of_its_own(one):
    assert one.why.endswith(".") and len(one.why) > 40 and one.why != one.statement
    assert len({other.why for other in laws()}) == len(laws())


def test_reports_are_told_in_words():
    caught = explain.explanation(law("L10"))["Real faults it has caught"]
    assert "B001: one geometric series of slopes for every number of heads" in caught
