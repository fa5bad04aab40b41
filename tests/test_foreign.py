"""Implementations from other frameworks, at any level: NumPy, and JAX where it is installed."""

from importlib.util import find_spec

import numpy as np
import pytest
import torch

import strangers_numpy as n
from judging import complaint, failing, plugged, tried
from relpos.conformance.precision import as_array, as_torch
from relpos.conformance.runner import PASS

NEEDS_JAX = pytest.mark.skipif(find_spec("jax") is None, reason="needs jax: pip install jax")
BFLOAT16 = pytest.mark.skipif(find_spec("ml_dtypes") is None, reason="needs ml_dtypes, which comes with jax: pip install jax")

# target, scheme; kind, level; laws that show what is asked for and read back
NUMPY = [
    (n.fused, "alibi", ("function", "attention"), ("L1", "L3", "L8", "L10")),
    (n.Decoder, "alibi", ("decoder", "attention"), ("L1", "L3")),
    (n.Clipped, "clipped", ("module", "contribution"), ("L1", "L12", "L26")),
]


@pytest.mark.parametrize(("target", "scheme", "taken", "laws"), NUMPY, ids=[c[0].__name__ for c in NUMPY])
def test_numpy_is_taken_at_every_level(target, scheme, taken, laws):
    subject = plugged(target, scheme)
    assert (subject.kind, subject.level) == taken
    assert {name: r.verdict for name, r in tried(subject, *laws, profile_name="smoke").items()} == dict.fromkeys(laws, PASS)


def test_a_class_with_a_cache_that_forgets_is_noticed():
    class Forgets(n.Decoder):
        def step(self, q, k, v):
            self.keys, self.values = self.keys[-1:], self.values[-1:]
            return super().step(q, k, v)

    assert "L3" in failing(plugged(Forgets, "alibi"), "L3", profile_name="smoke")


def test_a_table_that_nobody_can_write_is_asked_for_by_name():
    assert complaint(lambda: plugged(n.OwnsTable, "clipped")) == (
        "strangers_numpy.py:OwnsTable asks for none of ['table'] and is no torch module that could own them. Ask for `table` "
        "by name, when it is built or called."
    )


def test_bfloat16_without_ml_dtypes_is_told_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ml_dtypes", None)
    assert complaint(lambda: as_array(torch.ones(1, dtype=torch.bfloat16)), ValueError) == (
        "claim `dtypes` names bfloat16, and it takes NumPy arrays, which have none: install ml_dtypes, or leave it out."
    )


@BFLOAT16
def test_bfloat16_keeps_its_numbers_on_the_way_to_numpy_and_back():
    numbers = torch.tensor([1.0, -0.0078125, 3.1406250], dtype=torch.bfloat16)
    back = as_torch(as_array(numbers))
    assert back is not None and back.dtype is torch.bfloat16 and torch.equal(back, numbers)


def test_what_is_no_number_is_not_read():
    assert as_torch(np.array(["a"])) is None


@NEEDS_JAX
@pytest.mark.parametrize(
    ("name", "scheme", "laws", "more"),
    [
        ("bias", "alibi", ("L1", "L10"), {}),
        ("in_dtype", "alibi", ("L1", "L18"), {"dtypes": ("float32", "bfloat16", "float16")}),
        ("jitted", "alibi", ("L1",), {}),
        ("rotate", "rope", ("L1",), {"given": {"layout": "interleaved"}}),
        ("Clipped", "clipped", ("L1",), {}),
        ("Decoder", "alibi", ("L3",), {}),
    ],
)
def test_jax_is_taken_at_every_level(name, scheme, laws, more):
    import strangers_jax

    subject = plugged(getattr(strangers_jax, name), scheme, **more)
    assert subject.arrays == "numpy"
    assert not failing(subject, *laws, profile_name="smoke")
