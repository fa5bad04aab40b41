"""Schemes of windows: rows and regions, other people's code, what a failure says, gradients."""

from itertools import product

import numpy as np
import pytest
import torch

import strangers_vision as s
from judging import failing, plugged, tried
from relpos.conformance.gradients import prescribed
from relpos.conformance.judge import LawFailure
from relpos.conformance.laws import l13_axes, laws
from relpos.conformance.message import failure_lines
from relpos.conformance.plan import Plan, inputs
from relpos.conformance.runner import PASS
from relpos.impls import swin, swin_v2
from relpos.spec.attention import attention, logits
from relpos.spec.beit import BEiT
from relpos.spec.positions import Explicit, Grid
from relpos.spec.swin import Swin
from relpos.spec.swin_v2 import SwinV2
from test_gradients import difference
from vision_examples import EXAMPLES, drawn, tensors

NAMES = [one.name for one in laws()]


# ---- rows


def test_rows_of_a_flat_window_are_one_to_one_with_the_width_alone():
    """B069: with 5 there are 15 of 15 rows, with 4 there are 13, with the height, 3, there are 11."""
    offsets = list(product(range(-1, 2), range(-2, 3)))
    for multiplier, distinct in ((5, 15), (4, 13), (3, 11)):
        assert len({(dy + 1) * multiplier + dx + 2 for dy, dx in offsets}) == distinct
    assert sorted({Swin(1, (2, 3)).row(d, (0, 0)) for d in product(range(-1, 2), range(-2, 3))}) == list(range(15))
    assert not failing(plugged(swin.bias, given={"window_size": (2, 3)}), "L13")


@pytest.mark.parametrize("settings", [Swin(1, (4, 3)), BEiT(1, (4, 3))], ids=repr)
def test_an_offset_keeps_its_row_in_part_of_a_window_and_elsewhere(settings):
    whole, part = settings.rows(Grid((4, 3)), Grid((4, 3))), settings.rows(Grid((2, 3)), Grid((2, 3)))
    assert np.array_equal(whole[:6, :6], part)
    away = Explicit(Grid((2, 3)).array() + np.array([5, 7]), axes=2)
    assert np.array_equal(settings.rows(away, away), part)


def test_a_token_without_a_position_has_no_bias_in_swin():
    for settings, ours in ((Swin(2, (2, 3)), swin.bias), (SwinV2(2, (2, 3), hidden=5), swin_v2.bias)):
        params, at = drawn(settings), Grid((2, 3), special=1)
        bias = settings.bias(params, at, at)
        assert not bias[:, 0].any() and not bias[:, :, 0].any() and bias[:, 1:, 1:].all()
        learned = {"params": tensors(params)} if ours is swin_v2.bias else tensors(params)
        found = ours(
            settings, query_positions=torch.from_numpy(at.array()), key_positions=torch.from_numpy(at.array()), **learned
        )
        np.testing.assert_allclose(found.numpy(), bias, atol=2.0**-45)


def test_a_pair_beyond_the_window_is_nan_not_somebody_elses_number():
    at = torch.tensor([[0, 0], [0, 3], [2, 0]])
    bias = swin.bias(Swin(1, (2, 3)), torch.randn(15, 1), at, at)
    assert torch.isnan(bias[0]).tolist() == [[False, True, True], [True, False, True], [True, True, False]]


def test_regions_of_shifted_windows_are_hidden_like_the_authors_minus_100():
    settings, params = Swin(2, (2, 2)), drawn(Swin(2, (2, 2)))
    at = settings.windows((4, 4), shift=1)
    q, k, v = np.random.default_rng(1).standard_normal((3, 4, 2, 4, 8))
    hidden = attention(settings, params, q, k, v, at, at)
    score = logits(settings, params, q, k, at, at)
    regions = np.stack([at.segment(b) for b in range(4)])
    score = score - 100.0 * (regions[:, :, None] != regions[:, None])[:, None]
    weights = np.exp(score - score.max(-1, keepdims=True))
    np.testing.assert_allclose(hidden, weights / weights.sum(-1, keepdims=True) @ v, atol=2.0**-40)
    mask = swin.same_region(torch.from_numpy(regions))
    ours = swin.attention(settings, tensors(params)["table"], *map(torch.from_numpy, (q, k, v, *[at.array()] * 2)), mask=mask)
    np.testing.assert_allclose(ours.numpy(), hidden, atol=2.0**-40)


# ---- other people's code


STRANGERS = (s.SwinTransformer, s.max_vit, s.windows, s.beit, s.swin_v2, s.timm_resize)


@pytest.mark.parametrize("target", STRANGERS, ids=lambda target: target.__name__)
def test_right_code_of_others_is_not_accused(target):
    given = {"window_size": (2, 3)}  # the authors' code knows two axes
    results = tried(plugged(target, given=given), *NAMES, profile_name="smoke")
    assert {name: r.reason for name, r in results.items() if r.verdict == "fail"} == {}
    assert results["L31" if target is s.timm_resize else "L1"].verdict == PASS


def test_the_sign_of_max_vit_is_right_by_name_alone():
    assert "L13" in failing(plugged(_as_authors, given={"window_size": (2, 3)}), "L13")


def _as_authors(table, window_size, num_heads):
    return s.max_vit(table, window_size, num_heads)


_as_authors.__relpos__ = {"scheme": "swin", "settings": {"sign": "query_minus_key"}}


def test_a_failure_says_where_the_tokens_are():
    subject = plugged(_as_authors, given={"window_size": (2, 3)})
    with pytest.raises(LawFailure) as caught:
        l13_axes.check(subject, l13_axes._pinned(subject)[0])
    lines = failure_lines(l13_axes.LAW, caught.value, subject)
    assert any("query 0 at (0, 0), key 1 at (0, 1)" in line for line in lines), lines
    assert "query − key = (-1, 0)" in caught.value.says or "query − key = (0, -1)" in caught.value.says


# ---- gradients


PLAN = Plan(batch=2, heads=2, query_length=3, key_length=4, head_dim=4, seed=7, dtype="float64")
QUERIES, KEYS = (None, (1, 1), (0, 1)), ((0, 0), (1, 1), None, (1, 0))


@pytest.mark.parametrize("level", ["contribution", "logits", "attention"])
@pytest.mark.parametrize("settings", [e for e in EXAMPLES if e.axes == 2], ids=repr)
def test_the_prescribed_gradient_is_a_finite_difference(settings, level):
    at = (Explicit(p, axes=2) for p in (QUERIES, KEYS))
    given = inputs(PLAN, "none").but(settings=settings, params=drawn(settings), **dict(zip(SIDES, at, strict=True)))
    names = (*(("q", "k") if level != "contribution" else ()), *settings.parameters())
    result = {"contribution": "bias", "logits": "logits", "attention": "output"}[level]
    shape = {"bias": (2, 3, 4), "logits": (2, 2, 3, 4), "output": (2, 2, 3, 4)}[result]
    cotangents = {result: np.random.default_rng(11).standard_normal(shape)}
    for name, want in prescribed(given, level, names, cotangents).items():
        cells = list(np.ndindex(want.value.shape))[:: max(want.value.size // 5, 1)]
        found = difference(given, level, name, cotangents, cells)
        np.testing.assert_allclose([want.value[c] for c in cells], found, atol=2.0**-22 * max(np.abs(want.value).max(), 1))
        assert (np.abs(want.value) <= want.size.M + 2.0**-40).all()


SIDES = ("query_positions", "key_positions")
