"""The prescribed gradients are finite differences of the definition, for every scheme, level, grouping and mask."""

from dataclasses import replace

import numpy as np
import pytest

from relpos.conformance.expected import expected, forms_levels
from relpos.conformance.gradients import prescribed
from relpos.conformance.plan import Inputs, Plan, inputs
from relpos.spec.contract import scheme_name
from relpos.spec.registry import schemes, settings_class
from spec_examples import EXAMPLES as WIDE
from spec_examples import label

STEP = 2.0**-16
# A central difference of a smooth function: STEP² times a third derivative of a few units, and rounding of 2⁻⁵² / STEP.
CLOSE = 2.0**-24
BASE = Plan(batch=2, heads=6, query_length=3, key_length=4, head_dim=4, seed=7, dtype="float64", offset=1)
VARIANTS = {
    "plain": {},
    "causal": {"causal": True},
    "grouped": {"kv_heads": 2},
    "one key head": {"kv_heads": 1, "mask": "random"},
    "empty row": {"mask": "empty", "causal": True},
    "scaled": {"scale": 0.5},
    "rows": {"query_positions": ((3, 1, 2), (0, 5, 9)), "key_positions": ((0, 1, 2, 3), (9, 7, 5, 3)), "causal": True},
    "one key": {"query_length": 1, "key_length": 1, "offset": 0},
}
UNMASKED = ("plain", "grouped", "scaled", "rows", "one key")
EXAMPLES = [replace(s, max_distance=9) if scheme_name(s) == "shaw" and s.reach() else s for s in WIDE]
OFTEN = 6  # every how many cases on every change; the others under `-m exhaustive`
CASES = [
    pytest.param(*case, id="-".join((label(case[0]), *case[1:])), marks=() if n % OFTEN == 0 else pytest.mark.exhaustive)
    for n, case in enumerate(
        (settings, level, variant)
        for settings in EXAMPLES
        for level in forms_levels(settings)
        for variant in (VARIANTS if level == "attention" else UNMASKED)
    )
]


def given_for(settings, variant):
    plan = BASE.but(**VARIANTS[variant])
    made = inputs(plan, "none")
    rng = np.random.default_rng(3)
    params = {name: rng.standard_normal(shape) for name, shape in settings.parameters().items()}
    return replace(made, settings=settings, params=params)


def names_for(given: Inputs, level: str) -> dict[str, str]:
    """Names of the float inputs that reach a result, each with the field that holds it."""
    if level != "contribution":
        own = {"q": "q", "k": "k"} | ({"v": "v"} if level == "attention" else {})
        return own | {name: name for name in given.params}
    rotated = {"x of the query": "q", "x of the key": "k"}
    return rotated if given.settings.form == "rotation" else {name: name for name in given.params}


def moved(given: Inputs, name: str, delta: np.ndarray) -> Inputs:
    if name in given.params:
        return given.but(params={**given.params, name: given.params[name] + delta})
    return given.but(**{name: getattr(given, name) + delta})


def total(given: Inputs, level: str, cotangents: dict[str, np.ndarray]) -> float:
    """Σ result · cotangent; a cell at −∞ is cut off and does not count."""
    found = expected(given, level)
    return sum(float(np.where(np.isfinite(e.value), e.value, 0.0).ravel() @ cotangents[n].ravel()) for n, e in found.items())


def difference(given: Inputs, level: str, name: str, cotangents: dict, cells: list[tuple]) -> np.ndarray:
    shape = given.params[name].shape if name in given.params else getattr(given, name).shape
    found = []
    for cell in cells:
        delta = np.zeros(shape)
        delta[cell] = STEP
        ahead, behind = (total(moved(given, name, sign * delta), level, cotangents) for sign in (1, -1))
        found.append((ahead - behind) / (2 * STEP))
    return np.array(found)


def cells_of(shape: tuple[int, ...], count: int) -> list[tuple]:
    """Some cells, the first and the last among them."""
    every = list(np.ndindex(shape))
    step = max(len(every) // count, 1)
    return [*every[::step], every[-1]]


@pytest.mark.parametrize(("settings", "level", "variant"), CASES)
def test_the_prescribed_gradient_is_a_finite_difference(settings, level, variant):
    given = given_for(settings, variant)
    names = names_for(given, level)
    rng = np.random.default_rng(11)
    cotangents = {n: rng.standard_normal(e.value.shape) for n, e in expected(given, level).items()}
    found = prescribed(given, level, tuple(names), cotangents) if names else {}
    for ours, held in names.items():
        value = found[ours].value
        cells = cells_of(value.shape, 3)
        differences = difference(given, level, held, cotangents, cells)
        np.testing.assert_allclose(
            [value[c] for c in cells], differences, atol=CLOSE * max(np.abs(value).max(), 1), err_msg=ours
        )


@pytest.mark.parametrize("settings", [s for s in EXAMPLES if s.form == "embedding"], ids=label)
def test_the_gradient_of_tokens_that_are_added_to_is_the_cotangent(settings):
    given = given_for(settings, "plain")
    g = np.random.default_rng(1).standard_normal((2, 3, 4))
    np.testing.assert_array_equal(prescribed(given, "contribution", ("x",), {"embedded": g})["x"].value, g)


@pytest.mark.parametrize("settings", EXAMPLES, ids=label)
def test_nothing_flows_out_of_an_empty_row(settings):
    given = given_for(settings, "plain")
    mask = np.ones((2, 1, 3, 4), dtype=bool)
    mask[:, :, 1] = False
    cotangent = np.zeros((2, 6, 3, 4))
    cotangent[:, :, 1] = 1.0
    names = ("q", "k", "v", *given.params)
    for want in prescribed(given.but(mask=mask), "attention", names, {"output": cotangent}).values():
        assert not want.value.any()


@pytest.mark.parametrize("settings", EXAMPLES, ids=label)
def test_a_hidden_key_gets_no_gradient(settings):
    given = given_for(settings, "plain")
    mask = np.ones((2, 1, 3, 4), dtype=bool)
    mask[..., 2] = False
    want = prescribed(given.but(mask=mask), "attention", ("k", "v"), {"output": np.ones((2, 6, 3, 4))})
    for name in ("k", "v"):
        assert not want[name].value[:, :, 2].any() and np.abs(want[name].value[:, :, 1]).max() > 0


@pytest.mark.parametrize("settings", EXAMPLES, ids=label)
def test_the_gradient_of_a_shared_key_head_is_the_sum_over_its_heads(settings):
    given = given_for(settings, "grouped")
    apart = given.but(k=np.repeat(given.k, 3, axis=1), v=np.repeat(given.v, 3, axis=1))
    cotangent = {"output": np.random.default_rng(2).standard_normal((2, 6, 3, 4))}
    shared, single = (prescribed(i, "attention", ("q", "k", "v"), cotangent) for i in (given, apart))
    np.testing.assert_allclose(shared["q"].value, single["q"].value, atol=CLOSE)
    for name in ("k", "v"):
        folded = single[name].value.reshape(2, 2, 3, 4, 4).sum(2)
        np.testing.assert_allclose(shared[name].value, folded, atol=CLOSE)


@pytest.mark.parametrize("settings", EXAMPLES, ids=label)
def test_every_gradient_has_a_bound_that_covers_it(settings):
    """M counts the magnitudes of the terms, so no value is larger, and none is owed exactly unless it is zero."""
    given = given_for(settings, "causal")
    cotangent = {"output": np.random.default_rng(2).standard_normal((2, 6, 3, 4))}
    for want in prescribed(given, "attention", ("q", "k", "v", *given.params), cotangent).values():
        assert (np.abs(want.value) <= want.size.M + CLOSE).all() and np.isfinite(want.size.M).all()
        assert (want.size.M[want.value != 0] > 0).all()


def test_all_schemes_are_covered():
    on_one_axis = {scheme for scheme in schemes() if not hasattr(settings_class(scheme), "axes")}  # others: test_vision.py
    assert {scheme_name(s) for s in EXAMPLES} == on_one_axis
