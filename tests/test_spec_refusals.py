"""Where attention and its schemes are not defined, and in which words they say so; what is widened, and what NaN does."""

import numpy as np
import pytest

from relpos.spec.alibi import ALiBi
from relpos.spec.attention import AttentionError, allowed, attention, corner, logits, softmax
from relpos.spec.contract import PositionError
from relpos.spec.none import NoPE
from relpos.spec.positions import Explicit, Range
from relpos.spec.rope import RoPE
from relpos.spec.shaw import Shaw
from relpos.spec.sinusoidal import Sinusoidal
from spec_examples import EXAMPLES, drawn_params, drawn_qkv, label

X, WHERE = np.zeros((2, 6, 3, 4)), (Range(0, 3), Range(0, 3))


def of(settings, q=X, k=X, v=X, where=WHERE, **more):
    return lambda: attention(settings, {}, q, k, v, *where, **more)


SHAPES = "attention: `mask` must have one of the shapes [3, 3], [2, 3, 3], [2, 6, 3, 3], got"
REFUSED = [
    (
        of(NoPE(), mask=np.zeros((3, 3))),
        AttentionError,
        "attention: `mask` must be boolean, True = may attend, got float64. For an additive one: mask == 0.",
    ),
    (
        of(NoPE(), mask=np.ones((3, 3), dtype=int)),
        AttentionError,
        "attention: `mask` must be boolean, True = may attend, got int64. For an additive one: mask == 0.",
    ),
    (of(NoPE(), mask=np.ones((2, 3), dtype=bool)), AttentionError, f"{SHAPES} [2, 3]."),
    (of(NoPE(), mask=np.ones((6, 3, 3), dtype=bool)), AttentionError, f"{SHAPES} [6, 3, 3]."),
    (of(NoPE(), mask=np.ones((2, 2, 3, 3), dtype=bool)), AttentionError, f"{SHAPES} [2, 2, 3, 3]."),
    (of(ALiBi(2)), AttentionError, "alibi: `num_heads` is 2 in the settings, but q has 6. Make them equal."),
    (of(RoPE(6)), AttentionError, "rope: `head_dim` is 6 in the settings, but q has 4. Make them equal."),
    (of(Sinusoidal(6)), AttentionError, "sinusoidal: `embed_dim` is 6 in the settings, but q has 4. Make them equal."),
    (of(NoPE(), v=X[:, :, :2]), AttentionError, "attention: `v` must have one row per key, 3, got 2."),
    (of(NoPE(), v=X[:, :4]), AttentionError, "attention: `v` must have the samples and heads of k, [2, 6], got [2, 4]."),
    (of(NoPE(), v=X[:1]), AttentionError, "attention: `v` must have the samples and heads of k, [2, 6], got [1, 6]."),
    (of(NoPE(), k=X[:1]), AttentionError, "attention: `k` must have the samples of q, 2, got 1."),
    (
        lambda: corner(2, 3, "left"),
        AttentionError,
        "attention: `kind` of a corner must be 'bottom-right' or 'top-left', got 'left'.",
    ),
    (
        of(NoPE(), where=(Explicit([0, 1, 2], segments=[0, 0, 1]), Range(0, 3))),
        PositionError,
        "attention: `segments` must be given for queries and keys alike; one side has none.",
    ),
    (
        of(NoPE(), where=(Range(0, 3), Explicit([0, 1, 2], segments=[0, 0, 1]))),
        PositionError,
        "attention: `segments` must be given for queries and keys alike; one side has none.",
    ),
    (
        of(NoPE(), where=(Explicit([[0, 1, 2]] * 3), Range(0, 3))),
        PositionError,
        "attention: `query_positions` must have one row per sample, 2, got 3.",
    ),
    (
        lambda: RoPE(4).rotate(np.zeros((2, 5)), Range(0, 2), "query"),
        PositionError,
        "rope: `x` must have shape [..., L, D] = [..., 2, 4], one row per position, got [2, 5].",
    ),
    (
        lambda: RoPE(4).rotate(np.zeros((3, 4)), Range(0, 2), "query"),
        PositionError,
        "rope: `x` must have shape [..., L, D] = [..., 2, 4], one row per position, got [3, 4].",
    ),
    (
        lambda: RoPE(4).rotate(np.zeros(4), Range(0, 4), "query"),
        PositionError,
        "rope: `x` must have shape [..., L, D] = [..., 4, 4], one row per position, got [4].",
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), REFUSED, ids=[message[:75] for _, _, message in REFUSED])
def test_what_does_not_fit_is_refused_in_words(call, error, message):
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == message


@pytest.mark.parametrize("settings", EXAMPLES, ids=label)
def test_float32_inputs_are_widened_before_anything_is_computed(settings):
    rng = np.random.default_rng(4)
    params = {name: value.astype(np.float32) for name, value in drawn_params(settings, rng).items()}
    q, k, v = (x.astype(np.float32) for x in drawn_qkv(rng))
    where = Range(2, 3), Range(0, 5)
    wide = {name: value.astype(np.float64) for name, value in params.items()}
    for narrow, widened in (
        (
            attention(settings, params, q, k, v, *where),
            attention(settings, wide, *(x.astype(float) for x in (q, k, v)), *where),
        ),
        (logits(settings, params, q, k, *where), logits(settings, wide, q.astype(float), k.astype(float), *where)),
    ):
        assert narrow.dtype == np.float64
        np.testing.assert_array_equal(narrow, widened)


def test_a_visible_nan_makes_its_row_nan_and_no_other():
    score = np.zeros((1, 1, 3, 3))
    score[0, 0, 0, 1] = score[0, 0, 1, 2] = np.nan
    weights = softmax(score, np.tril(np.ones((3, 3), dtype=bool))[None, None] | np.eye(3, k=1, dtype=bool)[0])
    assert np.isnan(weights[0, 0, 0, :2]).all()
    assert weights[0, 0, 1].tolist() == [0.5, 0.5, 0.0]  # its NaN is hidden
    np.testing.assert_allclose(weights[0, 0, 2], 1 / 3)


def test_a_nan_is_never_taken_for_an_empty_row():
    x = np.ones((1, 1, 2, 2))
    k = x.copy()
    k[0, 0, 1, 0] = np.nan
    out = attention(NoPE(), {}, x, k, x, Range(0, 2), Range(0, 2), causal=True)[0, 0]
    assert out[0].tolist() == [1.0, 1.0] and np.isnan(out[1]).all()


@pytest.mark.parametrize(("queries", "keys"), [(0, 3), (3, 0), (0, 0)])
def test_no_rows_have_a_shape(queries, keys):
    assert Shaw(4, 2).rows(Range(0, queries), Range(0, keys)).shape == (queries, keys)
    assert allowed((1, 2, queries, keys), Range(0, queries), Range(0, keys), causal=True).shape == (1, 2, queries, keys)
    q, k = np.zeros((1, 2, queries, 4)), np.zeros((1, 2, keys, 4))
    out = attention(NoPE(), {}, q, k, k, Range(0, queries), Range(0, keys))
    assert out.shape == (1, 2, queries, 4) and not out.any()
