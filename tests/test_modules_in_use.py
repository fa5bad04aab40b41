"""Modules to train with: autocast, compile, saving and copying, initialisation, dropout, gradients."""

import copy
import math

import pytest
import torch

from modules_by_definition import EVERY, TOGETHER, B, D, E, H, module, name, tokens
from relpos.impls.modules import MultiHeadAttention, RelativePositionBias
from relpos.spec.alibi import ALiBi
from relpos.spec.none import NoPE
from relpos.spec.rope import RoPE
from relpos.spec.shaw import Shaw
from relpos.spec.t5 import T5

FAR = 300  # bfloat16 merges positions from 257 on
learned = pytest.mark.parametrize("schemes", [(T5(H),), (Shaw(D, 2), ALiBi(H))], ids=name)


@pytest.mark.parametrize("schemes", [*EVERY, TOGETHER[-1]], ids=name)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_autocast(schemes, dtype):
    it, x = module(schemes).float(), tokens().float().requires_grad_()
    positions = torch.arange(x.shape[1]) + FAR
    exact = it(x, positions=positions)
    with torch.autocast("cpu", dtype):
        rounded = it(x, positions=positions)
    assert rounded.dtype == dtype
    torch.testing.assert_close(rounded.float(), exact, rtol=0, atol=0.1 * exact.abs().max().item())
    rounded.float().sum().backward()
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in it.parameters())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_cast_module(dtype):
    it = module(TOGETHER[-1]).to(dtype)
    out = it(tokens().to(dtype))
    assert out.dtype == dtype and out.isfinite().all()


# Dynamo says of any cache that it looks past it, with another cause than ours.
@pytest.mark.filterwarnings("ignore:Dynamo detected a call to a `functools.lru_cache`")
@pytest.mark.parametrize("schemes", [(T5(H),), TOGETHER[0]], ids=name)
def test_compiled_is_eager_at_two_lengths(schemes):
    it = module(schemes, causal=True)
    compiled = torch.compile(it, fullgraph=True, backend="aot_eager", dynamic=True)
    for length in (5, 9):
        x, mask = tokens(length), torch.ones(B, 1, length, dtype=torch.bool)
        mask[0, 0, 0] = False
        got, wanted = (f(x, mask=mask, mask_sense="true_keeps") for f in (compiled, it))
        torch.testing.assert_close(got, wanted)
        gradients = [torch.autograd.grad(out.square().sum(), list(it.parameters())) for out in (got, wanted)]
        torch.testing.assert_close(*gradients)


# ---- saving and copying


@learned
def test_state_dict_round_trip(schemes):
    it, x = module(schemes), tokens()
    other = MultiHeadAttention(E, schemes, num_heads=H).double()
    assert not torch.equal(other(x), it(x))
    assert other.load_state_dict(it.state_dict()) == ([], [])
    assert torch.equal(other(x), it(x))


def test_names_of_what_is_saved():
    plain = {f"{part}.{kind}" for part in ("query", "key", "value", "output") for kind in ("weight", "bias")}
    assert set(module([Shaw(D, 2), RoPE(D), ALiBi(H)]).state_dict()) == {*plain, "schemes.shaw.rel_k", "schemes.shaw.rel_v"}
    assert set(module(T5(H)).state_dict()) == {*plain, "schemes.t5.table"}
    assert set(RelativePositionBias(T5(H)).state_dict()) == {"table"}


def test_a_decode_is_not_saved():
    it = module(T5(H), causal=True)
    before = set(it.state_dict())
    it.step(tokens())
    assert set(it.state_dict()) == before


@learned
def test_deepcopy_is_a_module_of_its_own(schemes):
    it, x = module(schemes, causal=True), tokens()
    it.step(x[:, :2])
    other = copy.deepcopy(it)
    torch.testing.assert_close(other.step(x[:, 2:]), it.step(x[:, 2:]))
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.zero_()
    assert not torch.equal(other(x), it(x))


@learned
def test_made_without_memory_then_loaded(schemes):
    it, x = module(schemes), tokens()
    with torch.device("meta"):
        other = MultiHeadAttention(E, schemes, num_heads=H)
    assert all(parameter.is_meta for parameter in other.parameters())
    other = other.double().to_empty(device="cpu")
    other.load_state_dict(it.state_dict())
    assert torch.equal(other(x), it(x))


def test_layers_may_share_a_table():
    first, second = module(T5(H)), module(T5(H))
    second.schemes["t5"] = first.schemes["t5"]
    (first(tokens()) + second(tokens(seed=2))).sum().backward()
    both = list(torch.nn.ModuleList([first, second]).parameters())
    assert len(both) == 17 and sum(p.shape == (32, H) for p in both) == 1


# ---- initialisation, dropout, gradients


def test_tables_begin_small():
    torch.manual_seed(0)
    it = MultiHeadAttention(512, Shaw(64, 100), num_heads=8)
    table = it.schemes["shaw"].rel_k
    assert table.numel() > 10_000 and table.std().item() == pytest.approx(0.02, rel=0.05)
    assert table.mean().abs() < 0.001
    assert MultiHeadAttention(512, Shaw(64, 100), num_heads=8, init_std=0.0).schemes["shaw"].rel_k.eq(0).all()
    assert RelativePositionBias(T5(64, 128), init_std=0.5).table.std().item() == pytest.approx(0.5, rel=0.05)


def test_weights_are_xavier_or_normal():
    torch.manual_seed(0)
    it = MultiHeadAttention(512, NoPE(), num_heads=8)
    assert it.key.weight.abs().max().item() == pytest.approx(math.sqrt(6 / 1024), rel=0.01)
    it = MultiHeadAttention(512, NoPE(), num_heads=8, weight_std=0.02)
    assert it.value.weight.std().item() == pytest.approx(0.02, rel=0.05)
    assert not it.query.bias.any()


def test_scores_begin_alike_with_and_without_a_scale():
    weights = []
    for settings in (NoPE(), T5(8)):
        it = MultiHeadAttention(512, settings, num_heads=8)
        torch.manual_seed(0)
        it.reset_parameters()
        weights.append(it.query.weight * it.scale)
    torch.testing.assert_close(*weights)


def test_reset_parameters_draws_everything_anew():
    it = module([T5(H), Shaw(D, 2)])
    before = copy.deepcopy(it.state_dict())
    it.reset_parameters()
    assert all(not torch.equal(it.state_dict()[name], value) for name, value in before.items())


def test_dropout_is_for_training_only():
    it, x = module([ALiBi(H), Shaw(D, 2)], causal=True, dropout=0.5), tokens()
    assert not torch.equal(it(x), it(x))
    steps = it.step(x)
    it.eval()
    assert torch.equal(it(x), it(x))
    torch.testing.assert_close(steps, it(x))
    assert module(ALiBi(H), dropout=0.0).train()(x).equal(module(ALiBi(H)).eval()(x))


@pytest.mark.parametrize("schemes", [*EVERY, *TOGETHER], ids=name)
def test_everything_learns(schemes):
    it = module(schemes)
    it(tokens()).square().sum().backward()
    for key, parameter in it.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all(), key
        # A constant added to all keys of a query is nothing to a softmax.
        assert key == "key.bias" or parameter.grad.any(), key
