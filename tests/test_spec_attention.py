"""Attention's edges: who sees whom, empty rows, shared heads, masks, and where each form of scheme enters."""

import numpy as np
import pytest

from relpos.spec.alibi import ALiBi
from relpos.spec.attention import allowed, attention, corner, encoded, logits, softmax
from relpos.spec.none import NoPE
from relpos.spec.positions import Explicit, Range
from relpos.spec.shaw import Shaw
from spec_examples import EXAMPLES, D, H, drawn_params, drawn_qkv, label

SHAPE = (2, H, 3, 5)
WHERE = Range(2, 3), Range(0, 5)
# Sums over 5 keys of products of a few units, in another order: well inside this; a wrong term is about 1
ORDER = 64 * 2.0**-52
every_example = pytest.mark.parametrize("settings", EXAMPLES, ids=label)


def drawn(settings, seed=11, **sizes):
    rng = np.random.default_rng(seed)
    return drawn_params(settings, rng), *drawn_qkv(rng, **sizes)


# ---- who sees whom


@pytest.mark.parametrize(
    ("Lq", "Lk", "kind", "expected"),
    [
        (2, 4, "bottom-right", [[1, 1, 1, 0], [1, 1, 1, 1]]),
        (2, 4, "top-left", [[1, 0, 0, 0], [1, 1, 0, 0]]),
        (4, 2, "bottom-right", [[0, 0], [0, 0], [1, 0], [1, 1]]),
        (4, 2, "top-left", [[1, 0], [1, 1], [1, 1], [1, 1]]),
        (1, 3, "bottom-right", [[1, 1, 1]]),
        (1, 3, "top-left", [[1, 0, 0]]),
        (2, 2, "bottom-right", [[1, 0], [1, 1]]),
        (2, 2, "top-left", [[1, 0], [1, 1]]),
    ],
)
def test_causal_corner_is_where_the_positions_put_it(Lq, Lk, kind, expected):
    queries, keys = corner(Lq, Lk, kind)
    assert allowed((1, 1, Lq, Lk), queries, keys, causal=True)[0, 0].tolist() == expected
    assert allowed((1, 1, Lq, Lk), queries, keys).all()


def test_causal_follows_positions_not_indices():
    visible = allowed((1, 1, 3, 3), Explicit([4, 0, 2]), Explicit([2, 4, 1]), causal=True)
    assert visible[0, 0].tolist() == [[1, 1, 1], [0, 0, 0], [1, 0, 1]]


def test_segments_hide_other_documents():
    queries = Explicit([[0, 1, 0], [0, 1, 2]], segments=[[7, 7, 8], [1, 1, 1]])
    keys = Explicit([[0, 1, 0], [0, 1, 2]], segments=[[7, 7, 8], [1, 2, 1]])
    visible = allowed((2, 1, 3, 3), queries, keys)[:, 0]
    assert visible[0].tolist() == [[1, 1, 0], [1, 1, 0], [0, 0, 1]]
    assert visible[1].tolist() == [[1, 0, 1], [1, 0, 1], [1, 0, 1]]
    causal = allowed((2, 1, 3, 3), queries, keys, causal=True)[0, 0]
    assert causal.tolist() == [[1, 0, 0], [1, 1, 0], [0, 0, 1]]


@pytest.mark.parametrize("settings", [s for s in EXAMPLES if getattr(s, "segments_hide", True)], ids=label)
def test_a_packed_document_is_the_document_alone(settings):
    params, q, k, v = drawn(settings, Lq=5)
    packed = Explicit([0, 1, 2, 0, 1], segments=[0, 0, 0, 1, 1])
    out = attention(settings, params, q, k, v, packed, packed)
    for rows, length in ((slice(0, 3), 3), (slice(3, 5), 2)):
        alone = Range(0, length, context_length=3)  # documents of a pack are in one context
        expected = attention(settings, params, q[:, :, rows], k[:, :, rows], v[:, :, rows], alone, alone)
        np.testing.assert_array_equal(out[:, :, rows], expected)


@pytest.mark.parametrize("ndim", [2, 3, 4])
def test_a_mask_of_any_rank_is_the_mask_of_each_head(ndim):
    mask = np.random.default_rng(5).random(SHAPE[4 - ndim :] if ndim != 3 else (2, 3, 5)) < 0.6
    assert mask.ndim == ndim
    params, q, k, v = drawn(NoPE())
    out = attention(NoPE(), params, q, k, v, *WHERE, mask=mask)
    of_each_head = np.broadcast_to(mask[:, None] if ndim == 3 else mask, SHAPE)
    for b, h in np.ndindex(SHAPE[:2]):
        one = (x[b : b + 1, h : h + 1] for x in (q, k, v))
        alone = attention(NoPE(), params, *one, *WHERE, mask=of_each_head[b, h])
        np.testing.assert_array_equal(out[b, h], alone[0, 0])


def test_a_mask_and_causality_both_hide():
    mask = np.random.default_rng(5).random((3, 5)) < 0.6
    both, causal = (allowed(SHAPE, *WHERE, mask=m, causal=True) for m in (mask, None))
    np.testing.assert_array_equal(both, causal & mask)


# ---- empty rows and hidden cells


@every_example
def test_an_empty_row_is_zero(settings):
    params, q, k, v = drawn(settings)
    mask = np.ones((3, 5), dtype=bool)
    mask[1] = False
    out = attention(settings, params, q, k, v, *WHERE, mask=mask)
    assert not out[:, :, 1].any()
    assert np.isfinite(out).all() and out[:, :, [0, 2]].all()


@pytest.mark.parametrize("settings", [s for s in EXAMPLES if not hasattr(s, "capacity")], ids=label)
def test_a_query_before_every_key_is_zero_under_causality(settings):
    params, q, k, v = drawn(settings, Lq=5, Lk=3)
    out = attention(settings, params, q, k, v, *corner(5, 3, "bottom-right"), causal=True)
    assert not out[:, :, :2].any()
    assert np.isfinite(out).all() and out[:, :, 2:].all()


@pytest.mark.parametrize("poison", [1e30, np.inf, np.nan])
@every_example
def test_a_hidden_key_has_no_effect(settings, poison):
    params, q, k, v = drawn(settings)
    mask = np.ones((3, 5), dtype=bool)
    mask[:, 3] = False
    expected = attention(settings, params, q, k, v, *WHERE, mask=mask)
    with np.errstate(invalid="ignore"):
        k[:, :, 3], v[:, :, 3] = poison, poison
        np.testing.assert_array_equal(attention(settings, params, q, k, v, *WHERE, mask=mask), expected)


def test_weights_are_a_distribution_however_large_the_scores():
    score = np.array([[[[1e6, 1e6 - 1, -1e6], [0.0, 0.0, -np.inf]]]])
    weights = softmax(score, np.ones(score.shape, dtype=bool))
    e = np.exp(-1.0)
    np.testing.assert_allclose(weights[0, 0, 0], [1 / (1 + e), e / (1 + e), 0.0], rtol=ORDER)
    assert weights[0, 0, 1].tolist() == [0.5, 0.5, 0.0]


# ---- heads, batch, scale


@pytest.mark.parametrize("shared", [1, 2, 3, 6])
@every_example
def test_shared_key_heads_are_repeated_key_heads(settings, shared):
    params, q, k, v = drawn(settings, Hkv=shared)
    grouped = attention(settings, params, q, k, v, *WHERE)
    repeated = (np.repeat(x, H // shared, axis=1) for x in (k, v))
    np.testing.assert_array_equal(grouped, attention(settings, params, q, *repeated, *WHERE))


@every_example
def test_a_sample_does_not_see_its_batch(settings):
    params, q, k, v = drawn(settings)
    queries, keys = Explicit([[4, 2, 0], [7, 9, 8]]), Explicit([[0, 1, 2, 3, 4], [9, 7, 5, 3, 1]])
    together = attention(settings, params, q, k, v, queries, keys)
    for b in range(2):
        one = (x[b : b + 1] for x in (q, k, v))
        np.testing.assert_array_equal(together[b : b + 1], attention(settings, params, *one, queries.row(b), keys.row(b)))


@every_example
def test_the_scale_is_the_schemes_own_unless_given(settings):
    params, q, k, _ = drawn(settings)
    terms = {"both": 3, "c2p": 2, "p2c": 2}.get(getattr(settings, "terms", ""), 1)  # DeBERTa's divide with the content's
    own = 1.0 if getattr(settings, "score_scale", "") == "none" else 1 / np.sqrt(D * terms)  # T5 has no scale
    np.testing.assert_array_equal(logits(settings, params, q, k, *WHERE), logits(settings, params, q, k, *WHERE, scale=own))


@pytest.mark.parametrize("settings", [s for s in EXAMPLES if s.form != "bias"], ids=label)
def test_the_scale_multiplies_content_and_content_dependent_terms_once(settings):
    params, q, k, _ = drawn(settings)
    one, four = (logits(settings, params, q, k, *WHERE, scale=scale) for scale in (1.0, 4.0))
    np.testing.assert_array_equal(four, 4 * one)


@pytest.mark.parametrize("settings", [s for s in EXAMPLES if s.form == "bias"], ids=label)
def test_the_scale_leaves_a_bias_alone_unless_the_scheme_says_so(settings):
    params, q, k, _ = drawn(settings)
    for scale in (1.0, 4.0):
        factor = scale if getattr(settings, "scale_bias", False) else 1.0
        expected = logits(NoPE(), {}, q, k, *WHERE, scale=scale) + factor * settings.bias(params, *WHERE)
        np.testing.assert_array_equal(logits(settings, params, q, k, *WHERE, scale=scale), expected)


# ---- where each form enters


@pytest.mark.parametrize("settings", [s for s in EXAMPLES if s.form == "embedding"], ids=label)
def test_an_embedding_is_added_to_queries_keys_and_values(settings):
    params, q, k, v = drawn(settings)
    query, key = (encoded(settings, params, positions) for positions in WHERE)
    expected = attention(NoPE(), {}, q + query, k + key, v + key, *WHERE)
    np.testing.assert_array_equal(attention(settings, params, q, k, v, *WHERE), expected)


@pytest.mark.parametrize("settings", [s for s in EXAMPLES if s.form == "rotation"], ids=label)
def test_a_rotation_turns_queries_and_keys_but_not_values(settings):
    _, q, k, v = drawn(settings)
    turned = settings.rotate(q, WHERE[0], "query"), settings.rotate(k, WHERE[1], "key")
    np.testing.assert_array_equal(attention(settings, {}, q, k, v, *WHERE), attention(NoPE(), {}, *turned, v, *WHERE))


@pytest.mark.parametrize("settings", [s for s in EXAMPLES if isinstance(s, Shaw)], ids=label)
def test_shaw_adds_its_rows_to_keys_and_values(settings):
    params, q, k, v = drawn(settings)
    rows, tables = settings.rows(*WHERE), settings.tables
    a_K = params["rel_k"][rows]
    score = np.einsum("bhid,bhijd->bhij", q, k[:, :, None] + a_K) / D**0.5
    if tables == "relative_key_query":
        score += np.einsum("bhjd,ijd->bhij", k, a_K) / D**0.5
    a_V = {"separate": params.get("rel_v", a_K)[rows] if "rel_v" in params else 0, "tied": a_K}.get(tables, 0)
    weights = softmax(score, np.ones(score.shape, dtype=bool))
    expected = np.einsum("bhij,bhijd->bhid", weights, v[:, :, None] + a_V)
    np.testing.assert_allclose(attention(settings, params, q, k, v, *WHERE), expected, atol=ORDER * np.abs(expected).max() * D)


@pytest.mark.parametrize("tables", ["separate", "relative_key"])
def test_reversing_the_sign_is_reversing_the_rows(tables):
    there, back = (Shaw(D, 8, tables=tables, sign=sign) for sign in ("key_minus_query", "query_minus_key"))
    np.testing.assert_array_equal(there.rows(*WHERE), 16 - back.rows(*WHERE))


def test_half_half_heads_look_one_way_each():
    bias = ALiBi(4, distance="half_half").bias({}, Range(0, 3), Range(0, 3))
    past, future = np.tril(np.ones((3, 3), dtype=bool)), np.triu(np.ones((3, 3), dtype=bool))
    for h in range(4):
        np.testing.assert_array_equal(np.isfinite(bias[h]), past if h < 2 else future)
