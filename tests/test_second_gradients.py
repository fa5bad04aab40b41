"""The second gradients that are prescribed are changes of the first ones, and are judged where they are claimed."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from judging import failing, plugged, tried
from relpos.conformance.expected import expected, forms_levels
from relpos.conformance.faults.kill_table import catches
from relpos.conformance.gradients import prescribed
from relpos.conformance.laws import law
from relpos.conformance.plan import Inputs
from relpos.conformance.profiles import profile
from relpos.conformance.runner import PASS
from relpos.conformance.second_gradients import _moved, _wanted
from relpos.spec.contract import scheme_name
from test_gradients import EXAMPLES, given_for, label, names_for

STEP = 2.0**-12
# A central difference of the prescribed first gradient: STEP² times its third derivative, and rounding of 2⁻⁵² / STEP.
CLOSE = 2.0**-18


class Bare:
    """As much of a subject as the prescription reads."""

    def __init__(self, level: str) -> None:
        self.level, self.card, self.called_with = level, self, self
        self.softmax, self.ours = "any", frozenset()


def first(given: Inputs, level: str, names: tuple[str, ...], cotangents: dict) -> dict[str, np.ndarray]:
    return {n: e.value for n, e in prescribed(given, level, names, cotangents).items()}


QUICK = ("none", "rope", "clipped", "shaw", "learned")  # one of every form; the others take seconds each
CASES = [
    pytest.param(
        settings, level, variant, id=f"{label(settings)}-{level}-{variant}",
        marks=() if name in QUICK and variant == "grouped" else pytest.mark.exhaustive,
    )
    for name, settings in {scheme_name(s): s for s in EXAMPLES}.items()
    for level, variant in (("logits", "plain"), ("attention", "grouped"), ("attention", "empty row"))
    if level in forms_levels(settings)
]  # fmt: skip


@pytest.mark.parametrize(("settings", "level", "variant"), CASES)
def test_the_second_gradient_is_a_change_of_the_first(settings, level, variant):
    given = given_for(settings, variant)
    given = replace(given, plan=given.plan.but(dtype="float32"))
    names = tuple(names_for(given, level))
    rng = np.random.default_rng(5)
    cotangents = {n: rng.standard_normal(e.value.shape) for n, e in expected(given, level).items()}
    held = {n: given.params[n] if n in given.params else getattr(given, n) for n in names}
    along = {n: rng.standard_normal(x.shape) for n, x in held.items()}
    found = _wanted(Bare(level), given, along, cotangents)
    ahead, behind = (first(_moved(given, along, step), level, names, cotangents) for step in (STEP, -STEP))
    for name in names:
        difference = (ahead[name] - behind[name]) / (2 * STEP)
        value, size = found[name].value, found[name].size
        np.testing.assert_allclose(value, difference, atol=CLOSE * max(np.abs(value).max(), 1), err_msg=name)
        assert (np.abs(value) <= size.M + size.P + CLOSE).all()  # M counts every term
    (result,) = expected(given, level)
    a, b = (expected(_moved(given, along, step), level)[result].value for step in (STEP, -STEP))
    finite = np.isfinite(a) & np.isfinite(b)
    change = np.where(finite, a, 0.0) - np.where(finite, b, 0.0)
    np.testing.assert_allclose(found[result].value, change / (2 * STEP), atol=CLOSE * np.abs(change / STEP).max())


def plain(q, k, v):
    return (q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5).softmax(-1) @ v


class Once(torch.autograd.Function):
    """v, seen through once: the second time nothing is there."""

    @staticmethod
    def forward(ctx, v):
        return v.clone()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, g):
        return g.clone()


def once(q, k, v):
    return plain(q, k, Once.apply(v))


def test_it_is_judged_where_it_is_claimed_and_nowhere_else():
    assert not failing(plugged(once, "none"), "L20")
    assert catches(law("L20"), plugged(once, "none", double_backward=True), profile("smoke"))
    assert tried(plugged(plain, "none", double_backward=True), "L20")["L20"].verdict == PASS


def test_a_fused_kernel_without_a_second_backward_pass_is_told_so():
    def fused(q, k, v):
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.FLASH_ATTENTION):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v)

    subject = plugged(fused, "none", double_backward=True)
    assert "not implemented" in tried(subject, "L20")["L20"].reason
