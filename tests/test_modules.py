"""Modules to train with: equal to the definitions for every scheme, mask and way of calling; steps equal the whole."""

import pytest
import torch
from torch import Tensor

from modules_by_definition import EVERY, HKV, LK, LQ, TOGETHER, VARIANTS, B, D, E, H, expected, module, name, tokens
from relpos.impls.modules import RelativePositionBias
from relpos.spec.alibi import ALiBi
from relpos.spec.clipped import Clipped
from relpos.spec.none import NoPE
from relpos.spec.positions import Explicit
from relpos.spec.rope import RoPE
from relpos.spec.shaw import Shaw
from relpos.spec.sinusoidal import Sinusoidal
from relpos.spec.t5 import T5

ALL = [*EVERY, *VARIANTS, *TOGETHER]
ONE_OF_A_FORM = [
    (NoPE(),),
    (Sinusoidal(E),),
    (RoPE(D),),
    (T5(H),),
    (ALiBi(H, distance="half_half"),),
    (Shaw(D, 2),),
    TOGETHER[-1],
]
PADDED = torch.tensor([[0, 0, 0, 1, 2], [0, 1, 2, 3, 4]])  # two tokens of padding on the left of sample 0
KEEPS = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]]).bool()
SHAPES = {
    "[B, Lk]": (B, LK),
    "[B, Lq, Lk]": (B, LQ, LK),
    "[B, H, Lq, Lk]": (B, H, LQ, LK),
    "[B, 1, Lk]": (B, 1, LK),
    "[1, Lq, Lk]": (1, LQ, LK),
}

each = pytest.mark.parametrize("schemes", ALL, ids=name)
some = pytest.mark.parametrize("schemes", ONE_OF_A_FORM, ids=name)


def same(got: Tensor, wanted: Tensor) -> None:
    torch.testing.assert_close(got, wanted, rtol=1e-9, atol=1e-11)


def random_mask(*shape: int) -> Tensor:
    """Boolean, every row with one True at least."""
    mask = torch.rand(shape, generator=torch.Generator().manual_seed(2)) < 0.6
    mask[..., 1] = True
    return mask


def four_axes(mask: Tensor) -> Tensor:
    wide = mask[:, None, None] if mask.ndim == 2 else mask[:, None] if mask.ndim == 3 else mask
    return wide.expand(B, H, LQ, LK)


# ---- equal to the definitions


@each
@pytest.mark.parametrize("causal", [False, True], ids=["all see all", "causal"])
def test_equals_the_definition(schemes, causal):
    it, x = module(schemes, causal=causal), tokens()
    same(it(x), expected(it, x))


@some
def test_positions_of_each_sample(schemes):
    it, x = module(schemes, causal=True), tokens()
    positions = torch.tensor([[3, 4, 5, 6, 7], [9, 2, 11, 30, 13]])
    same(it(x, positions=positions), expected(it, x, positions=positions))


@some
def test_groups_of_heads(schemes):
    it, x = module(schemes, num_kv_heads=HKV), tokens()
    assert it.key.out_features == HKV * D
    same(it(x), expected(it, x))


@some
def test_context(schemes):
    it, x, context = module(schemes), tokens(), tokens(LK, seed=3)
    at = {"positions": torch.arange(LQ) + 2, "context_positions": torch.arange(LK)}
    same(it(x, context=context, **at), expected(it, x, context, **at))


def test_context_is_counted_from_0_where_no_distance_is_looked_at():
    it, x, context = module(Sinusoidal(E)), tokens(), tokens(LK, seed=3)
    same(it(x, context=context), expected(it, x, context))


@pytest.mark.parametrize("others", [(), (Clipped(H, 2),)], ids=["alone", "with another"])
def test_a_bias_may_leave_a_query_no_key(others):
    it, x, context = module((ALiBi(H, distance="half_half"), *others)), tokens(), tokens(LK, seed=3)
    at = {"positions": torch.arange(LQ), "context_positions": torch.arange(LK) + 3}  # heads that look back see nothing
    same(it(x, context=context, **at), expected(it, x, context, **at))


@pytest.mark.parametrize("bias", [False, True])
def test_projections_without_a_bias(bias):
    it, x = module(ALiBi(H), bias=bias), tokens()
    assert (it.query.bias is not None) == bias
    same(it(x), expected(it, x))


def test_a_scheme_that_has_no_scale_has_none():
    # Not through the settings, where module and definition look it up alike.
    assert module(T5(H)).scale == 1.0
    assert module([RoPE(D), T5(H)]).scale == 1.0
    assert module([ALiBi(H), RoPE(D)]).scale == 0.5 == D**-0.5


@pytest.mark.parametrize("schemes", [s for s in ALL if len(s) == 1 and s[0].form == "bias"], ids=name)
def test_relative_position_bias(schemes):
    (settings,) = schemes
    it = RelativePositionBias(settings, init_std=1.0).double()
    queries, keys = torch.arange(4, 4 + LQ), torch.arange(LK)
    params = {key: value.detach().numpy() for key, value in it.named_parameters()}
    wanted = torch.from_numpy(settings.bias(params, Explicit(queries.numpy()), Explicit(keys.numpy())))
    same(it(queries, keys, dtype=torch.float64).expand(H, LQ, LK), wanted)
    rows = it(queries.expand(B, -1), keys, dtype=torch.float64)
    same(rows.expand(B, H, LQ, LK), wanted.expand(B, -1, -1, -1))


def test_relative_position_bias_has_the_dtype_of_its_table():
    at = (torch.arange(LQ), torch.arange(LK))
    assert RelativePositionBias(T5(H)).bfloat16()(*at).dtype == torch.bfloat16
    assert RelativePositionBias(T5(H)).bfloat16()(*at, dtype=torch.float32).dtype == torch.float32
    assert RelativePositionBias(ALiBi(H)).bfloat16()(*at).dtype == torch.float32


# ---- masks


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("sense", ["true_keeps", "true_drops", "additive"])
def test_mask_of_every_shape_and_sense(shape, sense):
    it, x, context = module(NoPE()), tokens(), tokens(LK, seed=3)
    keeps = random_mask(*shape)
    dropped = torch.zeros(shape, dtype=torch.float64).masked_fill(~keeps, -torch.inf)
    mask = {"true_keeps": keeps, "true_drops": ~keeps, "additive": dropped}[sense]
    same(it(x, context=context, mask=mask, mask_sense=sense), expected(it, x, context, keeps=four_axes(keeps)))


@pytest.mark.parametrize("schemes", [(ALiBi(H),), TOGETHER[-1]], ids=name)
def test_additive_mask_adds(schemes):
    it, x = module(schemes, causal=True), tokens()
    added = torch.randn(B, H, LQ, LQ, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    same(it(x, mask=added, mask_sense="additive"), expected(it, x, added=added))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_lowest_number_of_an_additive_mask_drops(dtype):
    it, x = module(NoPE()), tokens()
    keeps = torch.zeros(B, 1, LQ, dtype=torch.bool)
    mask = torch.zeros(keeps.shape, dtype=dtype).masked_fill(~keeps, torch.finfo(dtype).min)
    same(it(x, mask=mask, mask_sense="additive"), it.output.bias.expand(B, LQ, E))


@some
def test_left_padding_moves_no_token(schemes):
    it, x = module(schemes, causal=True), tokens()
    padded = it(x, positions=PADDED, mask=KEEPS, mask_sense="true_keeps")
    same(padded[:1, 2:], it(x[:1, 2:]))
    same(padded[1:], it(x[1:]))


@some
@pytest.mark.parametrize("sense", ["true_keeps", "additive"])
def test_empty_row_is_the_projection_of_0(schemes, sense):
    it, x = module(schemes, causal=True), tokens().requires_grad_()
    keeps = torch.ones(B, 1, LQ, LQ, dtype=torch.bool)
    keeps[0, :, 2] = False
    mask = keeps if sense == "true_keeps" else torch.zeros(keeps.shape, dtype=x.dtype).masked_fill(~keeps, -torch.inf)
    out = it(x, mask=mask, mask_sense=sense)
    same(out[0, 2], it.output.bias)
    out.sum().backward()
    gradients = [x.grad, *(parameter.grad for parameter in it.parameters())]
    assert all(g is not None and g.isfinite().all() for g in gradients)


# ---- steps


@some
@pytest.mark.parametrize("chunks", [(1, 1, 1, 1, 1), (3, 2), (1, 4), (5,)], ids=str)
def test_steps_are_the_rows_of_the_whole(schemes, chunks):
    it, x = module(schemes, causal=True, num_kv_heads=HKV), tokens()
    same(torch.cat([it.step(part) for part in x.split(chunks, dim=1)], dim=1), it(x))


@some
def test_steps_of_a_padded_batch(schemes):
    it, x = module(schemes, causal=True), tokens()
    out = [
        it.step(x[:, i:j], positions=PADDED[:, i:j], mask=KEEPS[:, None, :j], mask_sense="true_keeps")
        for i, j in ((0, 3), (3, 4), (4, 5))
    ]
    same(torch.cat(out, dim=1), it(x, positions=PADDED, mask=KEEPS, mask_sense="true_keeps"))


def test_steps_may_be_told_where_they_are():
    it, x = module(RoPE(D), causal=True), tokens()
    positions = torch.tensor([2, 3, 7, 8, 20])
    steps = [it.step(part, positions=at) for part, at in zip(x.split(2, dim=1), positions.split(2), strict=True)]
    same(torch.cat(steps, dim=1), it(x, positions=positions))


def test_reset_begins_another_sequence():
    it, x = module(T5(H), causal=True), tokens()
    it.step(tokens(seed=5))
    it.reset()
    same(it.step(x[:1]), it(x[:1]))


def test_steps_and_training_calls_do_not_meet():
    it, x = module(ALiBi(H), causal=True), tokens()
    with torch.inference_mode():
        first = it.step(x[:, :3])
    it(tokens(LK)).sum().backward()
    same(torch.cat([first, it.step(x[:, 3:])], dim=1), it(x))
    assert not it.step(x[:, :1]).requires_grad


def test_refused_step_leaves_no_trace():
    it, x = module(T5(H), causal=True), tokens()
    first = it.step(x[:, :3])
    with pytest.raises(ValueError, match="mask_sense"):
        it.step(x[:, 3:], mask=KEEPS)
    with pytest.raises(ValueError, match="batch size"):
        it.step(x[:1, 3:])
    same(torch.cat([first, it.step(x[:, 3:])], dim=1), it(x))
