"""Modules of swin, swin_v2 and beit, and attention modules that are given positions on several axes."""

import copy

import numpy as np
import pytest
import torch

from relpos.impls import beit, swin, swin_v2
from relpos.impls.modules import MultiHeadAttention, RelativePositionBias
from relpos.spec.attention import attention
from relpos.spec.beit import BEiT
from relpos.spec.coordinates import NOWHERE
from relpos.spec.positions import Explicit, Grid
from relpos.spec.swin import Swin
from relpos.spec.swin_v2 import SwinV2
from relpos.spec.t5 import T5
from vision_examples import every_example

# ---- ours


MODULES = ((swin.WindowBias, Swin(2, (2, 3))), (beit.GridBias, BEiT(2, (2, 3))))


@pytest.mark.parametrize(("cls", "settings"), MODULES, ids=lambda it: getattr(it, "__name__", ""))
def test_rows_survive_meta_cast_copy_and_loading(cls, settings):
    """B066, B068: no index in the state dict, none that could be lost, and whole numbers whatever the module is cast to."""
    trained = cls(settings)
    before = trained((2, 3)).detach().clone()
    assert set(trained.state_dict()) == {"table"}
    with torch.device("meta"):
        fresh = cls(settings)
    fresh = fresh.to_empty(device="cpu")
    fresh.load_state_dict(trained.state_dict())
    for again in (fresh, copy.deepcopy(trained), trained.to(torch.float64).to(torch.float32)):
        assert torch.equal(again((2, 3)), before)
    trained.to(torch.bfloat16)((2, 3))
    assert trained._kept._rows.dtype == torch.int64


def test_a_window_network_survives_meta_and_loading():
    trained = swin_v2.WindowAttention(SwinV2(2, (2, 3), hidden=4))
    with torch.device("meta"):
        fresh = swin_v2.WindowAttention(SwinV2(2, (2, 3), hidden=4))
    fresh = fresh.to_empty(device="cpu")
    fresh.load_state_dict(trained.state_dict())
    x = torch.randn(1, 2, 6, 8)
    assert torch.equal(fresh(x, x, x), trained(x, x, x))


@every_example
def test_attention_modules_answer_what_the_definition_says(settings):
    torch.manual_seed(0)
    it = MultiHeadAttention(8, settings, num_heads=2, init_std=1.0).double()
    corner, shape = (3, 5, 2)[: settings.axes], settings.window_size
    at = Grid(shape, special=1).array()
    at = np.where(at == NOWHERE, at, at + corner)
    x = torch.randn(2, len(at), 8, dtype=torch.float64)
    rows = np.stack([at, np.roll(at, 1, axis=0)])
    for where in (at, rows):
        q, k, v = (p(x).detach().unflatten(-1, (2, 4)).transpose(1, 2).numpy() for p in (it.query, it.key, it.value))
        (part,) = it.schemes.values()
        params = {name: p.detach().numpy() for name, p in part.named_parameters()}
        positions = Explicit(where, axes=settings.axes)
        out = torch.from_numpy(attention(settings, params, q, k, v, positions, positions))
        want = it.output(out.transpose(1, 2).flatten(2))
        torch.testing.assert_close(it(x, positions=torch.from_numpy(where)), want, atol=2.0**-40, rtol=0)


REFUSED_BY_MODULES = [
    (
        lambda: MultiHeadAttention(8, Swin(2, (2, 3)), num_heads=2, causal=True),
        "MultiHeadAttention: `causal` must be False for positions on 2 axes, got True. Positions on several axes have no "
        "before and after; hide keys with `mask`.",
    ),
    (
        lambda: MultiHeadAttention(8, Swin(2, (2, 3)), num_heads=2)(torch.zeros(1, 6, 8)),
        "MultiHeadAttention: `positions` must be a tensor of whole numbers, got NoneType. List the place of every token.",
    ),
    (
        lambda: MultiHeadAttention(8, Swin(2, (2, 3)), num_heads=2)(torch.zeros(1, 6, 8), positions=torch.arange(6)),
        "MultiHeadAttention: `positions` must be of shape [L, 2] = [6, 2] or [B, L, 2] = [1, 6, 2], got [6]. "
        "Give every token one position.",
    ),
    (
        lambda: MultiHeadAttention(8, [Swin(2, (2, 3)), T5(2)], num_heads=2),
        "MultiHeadAttention: `schemes` must be of one number of axes, got {'swin': 2, 't5': 1}. A position has as many "
        "coordinates as there are axes.",
    ),
    (
        lambda: RelativePositionBias(Swin(2, (2, 3)))(torch.arange(6), torch.arange(6)),
        "RelativePositionBias: `query_positions` must be of shape [L, 2] = [L, 2] or [B, L, 2] = [B, L, 2], got [6]. "
        "Give every token one position.",
    ),
]


@pytest.mark.parametrize(("call", "message"), REFUSED_BY_MODULES, ids=[message[:70] for _, message in REFUSED_BY_MODULES])
def test_modules_refuse_in_words(call, message):
    with pytest.raises(ValueError) as caught:
        call()
    assert str(caught.value) == message


def test_a_pair_beyond_the_window_is_not_hidden_in_silence_by_a_module():
    it = MultiHeadAttention(8, Swin(2, (2, 3)), num_heads=2)
    assert torch.isnan(it(torch.randn(1, 2, 8), positions=torch.tensor([[0, 0], [0, 5]]))).any()
