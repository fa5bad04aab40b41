"""flex_attention under a line of biases: where it has no backward it says so, and what it compiles is what it interprets."""

from dataclasses import replace

import pytest
import torch

from relpos.impls import _flex, alibi, clipped, t5
from relpos.spec.alibi import ALiBi
from relpos.spec.clipped import Clipped
from relpos.spec.t5 import T5


def given(scheme, length, learned=()):
    """The variant with everything but directions bound, and the same of the Toeplitz engine."""
    torch.manual_seed(0)
    tensors = {name: torch.randn(1, 2, length, 8) for name in "qkv"}
    tensors["table"] = torch.randn(32 if scheme is t5 else 9, 2)
    for name in learned:
        tensors[name].requires_grad_()
    q, k, v, table = tensors.values()
    settings = {alibi: ALiBi(num_heads=2), t5: T5(num_heads=2), clipped: Clipped(num_heads=2, max_distance=4)}[scheme]
    own = {alibi: (), t5: ({"table": table},), clipped: (table,)}[scheme]

    def call(entry, **options):
        return getattr(scheme, entry)(settings, *own, q, k, v, length, length, 0, **options)

    return call


@pytest.mark.parametrize("learned", ["q", "v", "table"])
@pytest.mark.parametrize("scheme", [t5, clipped], ids=["t5", "clipped"])
def test_gradients_on_a_cpu_are_refused_by_name(scheme, learned):
    call = given(scheme, 5, (learned,))
    name = scheme.__name__.rpartition(".")[2]
    with pytest.raises(NotImplementedError, match=f"{name}: flex_attention has no backward on a CPU; use `toeplitz`"):
        call("flex")
    with torch.no_grad():
        assert torch.allclose(call("flex"), call("toeplitz"), atol=1e-6)


@pytest.mark.parametrize("causal", [False, True])
def test_without_a_compiler_it_is_interpreted(monkeypatch, causal):
    monkeypatch.setattr(_flex, "COMPILER", replace(_flex.COMPILER, used=False))
    monkeypatch.setattr(_flex, "compiled", lambda *given, **more: pytest.fail("it was compiled"))
    call = given(alibi, _flex.BLOCK)
    assert torch.allclose(call("flex", causal=causal), call("toeplitz", causal=causal), atol=1e-5)


@pytest.mark.exhaustive
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("scheme", [alibi, t5, clipped], ids=["alibi", "t5", "clipped"])
def test_what_is_compiled_is_what_is_interpreted(scheme, causal):
    call = given(scheme, 2 * _flex.BLOCK)
    assert torch.allclose(call("flex", causal=causal), call("toeplitz", causal=causal), atol=1e-5)
