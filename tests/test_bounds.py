"""The bound: what is right is not accused, however small the weights; what is wrong by a few roundings is."""

from math import inf, nan

import numpy as np
import pytest
import torch

from judging import failing
from relpos.conformance import gradients, magnitude
from relpos.conformance.answers import answer, comparisons, prepared
from relpos.conformance.builtins import builtin
from relpos.conformance.calling import Instance
from relpos.conformance.expected import Expected, expected, parts
from relpos.conformance.gradients import backward, prescribed
from relpos.conformance.judge import bound_of, compare, compare_within
from relpos.conformance.magnitude import Size
from relpos.conformance.plan import Plan, inputs
from relpos.conformance.precision import DTYPES, rounded, smallest_normal, unit_roundoff
from relpos.conformance.subject import plug_in
from relpos.conformance.tolerance import C, units

every_kind = pytest.mark.parametrize("kind", sorted(C))
MISPLACED = [(nan, 1.0), (nan, nan), (nan, inf), (inf, 1.0), (-inf, 1.0), (inf, -inf), (1.0, inf), (0.0, -inf)]
every_dtype = pytest.mark.parametrize("dtype", DTYPES)


def wanted(kind, value, M, *, P=0.0, n=1):
    value = np.asarray(value, dtype=np.float64)
    return Expected("it", kind, value, Size(np.full(value.shape, M), np.full(value.shape, P), n))


# ---- the arithmetic of a comparison


@every_kind
@every_dtype
def test_a_few_bounds_are_caught_and_half_a_bound_is_not(kind, dtype):
    value = np.array([1.0, -3.0, 0.0, 1e-3])
    want = wanted(kind, value, 2.5, P=0.5, n=7)
    bound = C[kind] * (2.5 * unit_roundoff(dtype) + 0.5 * units(dtype).u_position + 7 * smallest_normal(dtype))
    for cell in range(4):
        error = np.zeros(4)
        error[cell] = bound
        assert compare(value + error / 2, want, dtype).ok
        assert not compare(value + 3 * error, want, dtype).ok
        assert not compare(value - 3 * error, want, dtype).ok
        assert compare(value - 3 * error, want, dtype).worst == (cell,)


@every_kind
@every_dtype
@pytest.mark.parametrize(("got", "value"), MISPLACED)
def test_nan_and_a_misplaced_infinity_are_infinite_errors(kind, dtype, got, value):
    found = compare(np.array([1.0, got]), wanted(kind, [1.0, value], 1e30), dtype)
    assert found.largest == inf and not found.ok


@every_kind
@pytest.mark.parametrize("value", [inf, -inf])
def test_equal_infinities_are_no_error(kind, value):
    assert compare(np.array([value, 2.0]), wanted(kind, [value, 2.0], 1.0), "float32").largest == 0


@every_dtype
def test_laws_count_in_the_units_of_the_comparison(dtype):
    want = wanted("output", [1.0], 2.5, P=0.5, n=7)
    error = bound_of(want, dtype)
    assert compare(want.value + 2 * error, want, dtype).largest == pytest.approx(2, rel=2.0**-3)
    assert bound_of(wanted("output", [1.0], 0.0, n=7), dtype).item() == 7 * smallest_normal(dtype)


@every_dtype
def test_a_long_sum_may_round_as_its_length_has_it(dtype):
    short, long, longest = (bound_of(wanted("output", [1.0], 2.5, n=n), dtype).item() for n in (1, 32, 128))
    rounding = 2.5 * unit_roundoff(dtype)
    assert short == rounding + smallest_normal(dtype) and long == rounding + 32 * smallest_normal(dtype)
    assert longest == 2 * rounding + 128 * smallest_normal(dtype)


def test_a_bound_of_nothing_lets_nothing_through():
    found = compare_within(np.array([1e-300]), np.array([0.0]), np.array([0.0]), name="it", allowed=4.0)
    assert not found.ok
    assert compare_within(np.zeros(3), np.zeros(3), np.zeros(3), name="it", allowed=4.0).ok


def test_no_elements_are_no_error():
    assert compare(np.zeros((0, 3)), wanted("bias", np.zeros((0, 3)), 1.0), "float32").ok


def test_every_kind_of_bound_has_its_formula_written_down():
    docstrings = " ".join(module.__doc__ for module in (magnitude, gradients))
    for kind in C:
        assert kind in docstrings.lower() and "M" in docstrings, kind


@every_dtype
def test_angles_are_owed_in_float32_at_least(dtype):
    assert units(dtype).u_position == min(unit_roundoff(dtype), unit_roundoff("float32"))


# ---- right, with weights that underflow

EXTREME = {
    "none": {},
    "alibi": {"num_heads": 2},
    "shaw": {"head_dim": 8, "max_distance": 2},
    "music_transformer": {"num_heads": 2, "head_dim": 8, "max_distance": 4},
    "transformer_xl": {"num_heads": 2, "head_dim": 8},
}


def extreme(scheme, dtype, seed=0):
    """A decode step, as far from uniform as the rule u·|logit| ≤ 0.1 allows (and float32 can tell): weights underflow."""
    plan = Plan(
        settings=EXTREME[scheme], heads=2, query_length=1, key_length=9, head_dim=8, seed=seed, dtype=dtype,
        query_positions=(8,), key_positions=tuple(range(9)), causal=True,
    )  # fmt: skip
    given = inputs(plan, scheme)
    most = min(0.1 / unit_roundoff(dtype), 400.0)
    score = expected(given, "logits")["logits"].value
    return given.but(q=rounded(given.q * most / np.abs(score).max(), dtype))


RIGHT = {"none": "none/attention_at", **{scheme: f"{scheme}/attention" for scheme in EXTREME if scheme != "none"}}


@pytest.mark.parametrize("scheme", sorted(EXTREME))
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_a_decode_step_with_vanishing_weights_is_not_accused(scheme, dtype):
    subject = plug_in(builtin(RIGHT[scheme]), spec=scheme)
    for seed in range(4):
        given = extreme(scheme, dtype, seed)
        assert all(c.ok for c in comparisons(subject, given, answer(subject, given)))
        names = ("q", "k", "v", *given.params)
        cotangents = {"output": rounded(np.random.default_rng(seed).standard_normal(given.q.shape), dtype)}
        got = backward(Instance(subject, given), given, frozenset(names), cotangents)
        want = prescribed(given, "attention", names, cotangents)
        for name in names:
            assert compare(got[name], want[name], dtype).ok, name


def test_a_peaked_softmax_in_float32_is_not_accused():
    """Logits that are not scaled: the rounding of the divisor moves every output, and it is most of what there is."""

    def naive(q, k, v):
        return (q @ k.mT).softmax(-1) @ v

    claims = {"level": "attention", "corner": "bottom-right"}
    subject = plug_in(naive, spec="naive", scheme="t5", given={"cross_attention": True}, claims=claims)
    sizes = {"batch": 6, "heads": 2, "query_length": 3, "key_length": 8, "offset": 5, "head_dim": 8}
    plan = Plan(settings={"num_heads": 2, "cross_attention": True}, **sizes, seed=2722)
    given = prepared(subject, plan)
    assert all(c.ok for c in comparisons(subject, given, answer(subject, given)))


def test_weights_do_vanish_there():
    given = extreme("none", "float32")
    weights = parts(given).weights
    assert (weights < smallest_normal("float32")).any() and weights.max() > 0.5


# ---- wrong, where it is hard to see


def attention_with(change):
    """Right attention whose inputs or output are changed."""
    right = builtin("none/attention_at")

    def it(q, k, v, query_positions, key_positions, mask, causal, scale):
        return change(lambda *qkv: right(*qkv, query_positions, key_positions, mask=mask, causal=causal, scale=scale), q, k, v)

    return plug_in(it, spec="it", scheme="none")


WRONG = {
    "zeros": lambda f, q, k, v: torch.zeros_like(q),
    "one value": lambda f, q, k, v: f(q, k, v).mean(-1, keepdim=True).expand(q.shape),
    "only tiny ones": lambda f, q, k, v: f(q, k, v).where(f(q, k, v).abs() > 1e-6, 0.0),
    "twice the tiny ones": lambda f, q, k, v: f(q, k, v).where(f(q, k, v).abs() > 1e-6, f(q, k, v) * 2),
    "only one key": lambda f, q, k, v: f(q, k, v) * (1.0 if k.shape[2] > 1 else 1.001),
    "only one query": lambda f, q, k, v: f(q, k, v) + (0.0 if q.shape[2] > 1 else 1e-3),
    "only the last head": lambda f, q, k, v: f(q, k, v) * torch.tensor([1.0] * (q.shape[1] - 1) + [1.0001]).view(1, -1, 1, 1),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_fault_does_not_hide_in_zeros_tiny_values_or_one_key(name):
    assert failing(attention_with(WRONG[name]), "L1", profile_name="default") == {"L1"}


@pytest.mark.parametrize("content", ["normal", "one_hot", "ones", "tiny"])
@every_dtype
def test_zeros_are_wrong_for_every_content(content, dtype):
    if (content, dtype) == ("tiny", "float16"):
        return  # subnormal there: flushing it to zero is right
    subject = attention_with(WRONG["zeros"])
    plan = Plan(query_length=3, key_length=4, heads=2, content=content, dtype=dtype, seed=1)
    given = prepared(subject, plan.but(query_positions=(1, 2, 3), key_positions=(0, 1, 2, 3)))
    found = comparisons(subject, given, answer(subject, given))
    assert any(not c.ok for c in found)
