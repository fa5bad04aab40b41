"""Rotations beyond one width and one length, as defined: scaling by 50 digits, contexts that are stated or shared."""

import mpmath
import numpy as np
import pytest
import torch

from modules_by_definition import D
from relpos.impls import xpos
from relpos.spec.attention import attention, logits
from relpos.spec.contract import PositionError
from relpos.spec.positions import Explicit, Range, in_one_context
from relpos.spec.rope import RoPE
from relpos.spec.xpos import XPos

EPS = 2.0**-52
RULES = {
    "linear": {"scaling": "linear", "factor": 4.0},
    "ntk": {"scaling": "ntk", "factor": 8.0},
    "dynamic": {"scaling": "dynamic", "factor": 4.0, "max_position": 2048},
    "yarn": {"scaling": "yarn", "factor": 16.0, "original_max_position": 4096},
    "paper": {"scaling": "yarn", "factor": 16.0, "original_max_position": 4096, "ramp": "paper"},
    "unrounded": {"scaling": "yarn", "factor": 16.0, "original_max_position": 4096, "truncate": False},
    "llama3": {"scaling": "llama3", "factor": 8.0, "original_max_position": 8192},
}
CONTEXT = 5000
DYNAMIC = RoPE(D, scaling="dynamic", factor=2.0, max_position=3)
DEPENDENT = (DYNAMIC, XPos(D, scale_base=8.0), XPos(D, scale_base=8.0, centre="floor"))
dependent = pytest.mark.parametrize("settings", DEPENDENT, ids=str)


# ---- frequencies and magnitudes


def exact(rule: str, m: int, r: int, base: int) -> mpmath.mpf:
    """θ_m under a rule, from the published formulas."""
    s, f = RULES[rule], mpmath.mpf(RULES[rule]["factor"])
    base = mpmath.mpf(base)
    if rule == "ntk":
        return (base * f ** (mpmath.mpf(r) / (r - 2))) ** (-mpmath.mpf(2 * m) / r)
    if rule == "dynamic":
        α = f * CONTEXT / s["max_position"] - (f - 1)
        return (base * α ** (mpmath.mpf(r) / (r - 2))) ** (-mpmath.mpf(2 * m) / r)
    θ = base ** (-mpmath.mpf(2 * m) / r)
    if rule == "linear":
        return θ / f
    L = s["original_max_position"]
    low, high = (1, 4) if rule == "llama3" else (1, 32)
    kept = (L * θ / (2 * mpmath.pi) - low) / (high - low)
    if rule in ("yarn", "unrounded"):
        a, b = (r * mpmath.log(L / (2 * mpmath.pi * turns)) / (2 * mpmath.log(base)) for turns in (32, 1))
        a, b = (mpmath.floor(a), mpmath.ceil(b)) if rule == "yarn" else (a, b)
        kept = 1 - (m - a) / (b - a)
    kept = min(max(kept, mpmath.mpf(0)), mpmath.mpf(1))
    return kept * θ + (1 - kept) * θ / f


@pytest.mark.parametrize("base", [10000, 500000])
@pytest.mark.parametrize("width", [8, 64, 128])
@pytest.mark.parametrize("rule", RULES)
def test_scaled_frequencies(rule, width, base):
    θ = RoPE(width, base=float(base), **RULES[rule]).frequencies(CONTEXT)
    with mpmath.workdps(50):
        for m, got in enumerate(θ):
            wanted = exact(rule, m, width, base)
            # 16 half-spacings for a power, times 16 where a difference is mixed in with a sixteenth
            assert abs(mpmath.mpf(float(got)) - wanted) <= 128 * EPS * wanted, m


@pytest.mark.parametrize(
    ("given", "μ"),
    [
        ({}, "2.7725887222397812377"),  # 10 (μ − 1) is ln 16
        ({"attention_factor": 0.9}, "-1"),
        ({"mscale": 1.0, "mscale_all_dim": 1.0}, "0"),
    ],
    ids=str,
)
def test_the_magnitude_is_named(given, μ):
    gains = RoPE(8, **RULES["yarn"], **given).gains(Range(5, 2), "key")
    np.testing.assert_allclose(gains, np.full((2, 4), 1 + float(μ) / 10), rtol=4 * EPS)


@pytest.mark.parametrize("rule", [name for name in RULES if name != "dynamic"])
def test_factor_one_is_no_scaling(rule):
    plain = RoPE(8).frequencies()
    np.testing.assert_allclose(RoPE(8, **{**RULES[rule], "factor": 1.0}).frequencies(), plain, rtol=2 * EPS)


def test_dynamic_scaling_begins_past_its_threshold():
    plain, dynamic = RoPE(8).frequencies(), RoPE(8, **RULES["dynamic"])
    assert all(np.array_equal(dynamic.frequencies(n), plain) for n in (None, 1, 2047, 2048))
    assert (dynamic.frequencies(2049)[1:] < plain[1:]).all()


def test_proportional_pairs_are_the_first_of_the_whole_head():
    whole, part = RoPE(8, layout="half"), RoPE(8, 4, layout="half", partial="proportional")
    assert part.pairs() == whole.pairs()[:2]
    assert np.array_equal(part.frequencies(), whole.frequencies()[:2])
    assert RoPE(8, partial="proportional").pairs() == RoPE(8).pairs()


# ---- contexts


@dependent
def test_a_chunk_that_states_its_context_has_the_rows_of_the_whole(settings):
    x = np.random.default_rng(0).standard_normal((9, D))
    for role in ("query", "key"):
        whole = settings.rotate(x, Range(0, 9), role)
        assert np.array_equal(settings.rotate(x[2:4], Range(2, 2, 9), role), whole[2:4])
        assert np.array_equal(settings.rotate(x[2:4], Explicit([2, 3], context_length=9), role), whole[2:4])
        assert not np.allclose(settings.rotate(x[2:4], Range(2, 2), role), whole[2:4])


@dependent
def test_queries_and_keys_are_in_one_context(settings):
    q, k = (np.random.default_rng(0).standard_normal((1, 1, n, D)) for n in (2, 9))
    inside, keys = Range(2, 2), Range(0, 9)
    stated = Range(2, 2, 9), Range(0, 9, 9)
    assert np.array_equal(logits(settings, {}, q, k, inside, keys), logits(settings, {}, q, k, *stated))
    longer = logits(settings, {}, q, k, Range(2, 2, 20), keys)
    assert np.array_equal(longer, logits(settings, {}, q, k, Range(2, 2, 20), Range(0, 9, 20)))


@dependent
def test_a_sample_is_in_a_context_of_its_own(settings):
    """B127: the longest sample does not scale the others."""
    q, k, v = np.random.default_rng(0).standard_normal((3, 2, 1, 4, D))
    rows = Explicit([[0, 1, 2, 3], [9, 8, 7, 6]])
    together = attention(settings, {}, q, k, v, rows, rows)
    for b in range(2):
        alone = attention(settings, {}, *(x[b : b + 1] for x in (q, k, v)), rows.row(b), rows.row(b))
        assert np.array_equal(together[b : b + 1], alone)


def test_contexts_that_disagree_are_refused_in_words():
    with pytest.raises(PositionError) as caught:
        in_one_context(Range(0, 2, 5), Range(0, 2, 6), 1)
    assert str(caught.value) == "positions: `context_length` must be one for queries and keys, got [5, 6]."


def test_xpos_products_do_not_know_the_centre():
    q, k = (np.random.default_rng(0).standard_normal((1, 1, 7, D)) for _ in range(2))
    ceil, floor = (logits(XPos(D, scale_base=4.0, centre=c), {}, q, k, Range(0, 7), Range(0, 7)) for c in ("ceil", "floor"))
    np.testing.assert_allclose(ceil, floor, rtol=64 * EPS, atol=64 * EPS)
    turned = [XPos(D, scale_base=4.0, centre=c).rotate(q, Range(0, 7), "query") for c in ("ceil", "floor")]
    assert not np.allclose(*turned)


def test_xpos_asks_for_a_role_it_knows():
    for rotate in (lambda: XPos(D).rotate(np.ones((1, D)), Range(0, 1), "value"),
                   lambda: xpos.rotate(XPos(D), torch.ones(1, D), torch.arange(1), "value")):  # fmt: skip
        with pytest.raises(ValueError, match="`role` must be 'query' or 'key', got 'value'"):
            rotate()
