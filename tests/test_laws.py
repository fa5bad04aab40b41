"""The laws judge the definitions first, then right implementations in unusual styles, then what must be told apart."""

import numpy as np
import pytest
import torch

import culprits
from judging import failing, plugged, tried
from relpos.conformance.expected import forms_levels
from relpos.conformance.laws import l10_slopes, law, laws
from relpos.conformance.loading import load
from relpos.conformance.plan import Plan
from relpos.conformance.planting import plant
from relpos.conformance.profiles import PROFILES
from relpos.conformance.rewritings import REWRITINGS
from relpos.conformance.runner import FAIL, PASS, replay
from relpos.conformance.smoke import smoke
from relpos.conformance.verdict import judge
from relpos.spec.attention import attention, softmax
from relpos.spec.none import NoPE
from relpos.spec.positions import Range
from relpos.spec.registry import schemes, settings_class
from relpos.spec.rope import RoPE
from relpos.spec.sinusoidal import Sinusoidal

NAMES = [one.name for one in laws()]
EVERYWHERE = [(scheme, level) for scheme in schemes() for level in forms_levels(settings_class(scheme))]
FIRST = dict(reversed(EVERYWHERE))  # the others are judged by what judges every built-in, too


@pytest.mark.parametrize(
    ("scheme", "level"),
    [
        pytest.param(*case, id="-".join(case), marks=() if FIRST[case[0]] == case[1] else pytest.mark.exhaustive)
        for case in EVERYWHERE
    ],
)
def test_the_definition_passes_its_own_laws(scheme, level, monkeypatch):
    if level != "contribution":
        monkeypatch.setattr(l10_slopes, "MOST_HEADS", 16)  # loops over 128 heads take their time there
    found = tried(smoke(plant(scheme, level)), *NAMES, profile_name="smoke")
    assert {name: r.reason for name, r in found.items() if r.verdict == FAIL} == {}
    assert found["L1"].verdict == PASS


@pytest.mark.parametrize("target", REWRITINGS, ids=lambda target: target.__name__)
def test_no_right_implementation_is_accused(target):
    verdict = judge(plugged(target), PROFILES["smoke"], explain=False)
    assert {r.law.name: r.reason for r in verdict.failures} == {}
    assert verdict.word == "conforms"


@pytest.mark.parametrize("one", laws(), ids=lambda one: one.name)
def test_a_law_says_what_it_is(one):
    assert law(one.name.lower()) is one and one.name == f"L{one.number}"
    assert one.statement.endswith(".") and len(one.title) <= 37 and 0 <= one.share <= 1


def test_laws_come_in_the_order_of_their_numbers():
    assert [one.number for one in laws()] == sorted({one.number for one in laws()})


# ---- negative controls: what is no fault, and what must fail


def test_raw_sinusoids_are_not_relative():
    here, there = (Sinusoidal(8).encode(Range(start, 4)) for start in (0, 1))
    assert np.abs(here - there).max() > 0.5
    np.testing.assert_allclose(here @ here.T, there @ there.T, atol=2.0**-44)  # their dot products are


@pytest.mark.parametrize("levels", [("contribution",), ("logits", "attention")])
def test_raw_sinusoids_claim_no_relative_law_for_their_values(levels):
    for level in levels:
        applies = law("L2").applies(plant("sinusoidal", level))
        assert (applies is None) == (level == "contribution")  # there, dot products are judged


def test_key_only_alibi_is_wrong_until_a_causal_softmax_is_declared():
    """The authors' own form."""
    assert {"L1", "L6"} <= failing(plugged(culprits.key_only), "L1", "L6")
    assert not failing(plugged(culprits.key_only, softmax="causal"), *NAMES)


def test_a_causal_claim_does_not_forgive_a_wrong_slope():
    def doubled(num_heads, key_positions):
        return torch.tensor(culprits.slopes(num_heads)).view(-1, 1, 1) * key_positions * 2

    assert {"L1", "L10"} <= failing(plugged(doubled, "alibi", softmax="causal"), *NAMES)


def test_layouts_give_equal_scores_once_columns_are_reordered():
    q, k = np.random.default_rng(0).standard_normal((2, 1, 1, 3, 4))
    half, woven = RoPE(4, layout="half"), RoPE(4)
    order = [0, 2, 1, 3]
    there = [half.rotate(x, Range(5, 3), "query") for x in (q, k)]
    here = [woven.rotate(x[..., order], Range(5, 3), "query") for x in (q, k)]
    np.testing.assert_allclose(there[0] @ there[1].swapaxes(-1, -2), here[0] @ here[1].swapaxes(-1, -2), atol=2.0**-48)


def test_a_reader_of_unmasked_terms_sees_no_leak():
    """No influence of future keys on the output, whatever stands beyond the diagonal."""
    q, k, v = np.random.default_rng(0).standard_normal((3, 1, 1, 4, 2))
    out = attention(NoPE(), {}, q, k, v, Range(0, 4), Range(0, 4), causal=True)
    v[:, :, 3] = 1e6
    np.testing.assert_array_equal(
        out[:, :, :3], attention(NoPE(), {}, q, k, v, Range(0, 4), Range(0, 4), causal=True)[:, :, :3]
    )


def test_a_constant_per_query_is_free_under_softmax():
    score = np.random.default_rng(0).standard_normal((1, 2, 3, 4))
    moved = score + np.arange(3)[:, None]
    every = np.ones(score.shape, dtype=bool)
    np.testing.assert_allclose(softmax(score, every), softmax(moved, every), atol=2.0**-50)


def test_a_shard_of_heads_at_positions_per_sample_is_no_shard_of_samples():
    rows = {"query_positions": ((8, 9), (5, 6)), "key_positions": ((8, 9, 10), (3, 4, 5))}
    plan = Plan(settings={"num_heads": 3}, batch=2, heads=3, query_length=2, key_length=3, extra={"heads": (1,)}, **rows)
    subject = plugged(load("relpos.impls.alibi:shard"))
    assert replay(law("L9"), subject, plan).verdict == PASS
