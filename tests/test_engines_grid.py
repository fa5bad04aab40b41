"""The panel and the rotation engine: what they give is what the formula gives, whatever the blocks, strides and dtypes."""

from dataclasses import replace
from math import prod

import pytest
import torch
from torch.autograd import forward_ad

from relpos.conformance.memory import measured
from relpos.impls import _loops, _streamed, _turning, beit, swin
from relpos.impls._attention import attend
from relpos.impls._panels import Panels
from relpos.impls._rotation import Plain, turned
from relpos.impls._turning import turned_in_a_loop, turned_once
from relpos.impls._windows import grid
from relpos.spec.beit import BEiT
from relpos.spec.swin import Swin

WINDOWS = [(2, 3), (3, 2), (5, 4), (1, 3), (4, 1), (1, 1), (2, 1, 2), (3, 2, 2)]


def drawn(*shape):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def attention(scheme, window, sign, batch):
    """The engine and the formula, of the same tensors, and the tensors."""
    special = 1 if scheme is beit else 0
    settings = (BEiT if special else Swin)(num_heads=4, window_size=window, sign=sign)
    q, k, v = (drawn(batch, 4, prod(window) + special, 6) for _ in range(3))
    table = drawn(prod(2 * W - 1 for W in window) + 3 * special, 4)
    at = grid(window, special=special)
    want = attend(q, k, v, bias=scheme.bias(settings, table, at, at), scale=0.3)
    return scheme.panels(settings, table, q, k, v, scale=0.3), want, (table, q, k, v)


@pytest.mark.parametrize("size", [1, 4, 256])
@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("scheme", [swin, beit], ids=["swin", "beit"])
def test_panels_are_the_formula_and_so_are_their_gradients(monkeypatch, scheme, window, size):
    monkeypatch.setattr(_streamed, "FORWARD", size)
    monkeypatch.setattr(Panels, "again", (size, None))
    torch.manual_seed(len(window) + size)
    for sign in ("query_minus_key", "key_minus_query"):
        got, want, inputs = attention(scheme, window, sign, 2)
        cotangent = torch.randn_like(want)
        for some in (inputs, inputs[1:], inputs[:1]):  # a table that is not learned takes another way back
            grads = [torch.autograd.grad(x, some, cotangent, retain_graph=True) for x in (got, want)]
            assert all(torch.allclose(a, b, atol=1e-12) for a, b in [(got, want), *zip(*grads, strict=True)])


@pytest.mark.parametrize("scheme", [swin, beit], ids=["swin", "beit"])
def test_panels_refuse_another_number_of_tokens(scheme):
    settings = (BEiT if scheme is beit else Swin)(num_heads=4, window_size=(2, 3))
    tokens = 7 if scheme is beit else 6
    table, q = torch.zeros(18 if scheme is beit else 15, 4), torch.zeros(1, 4, 5, 2)
    with pytest.raises(ValueError, match=rf"must have {tokens} tokens for `window_size` \(2, 3\), got 5 and 5; for a part"):
        scheme.panels(settings, table, q, q, q)


@pytest.mark.parametrize("window", [(32, 32), (1, 1024), (2, 512)], ids=str)
def test_panels_never_allocate_a_matrix_of_all_pairs(window):
    settings, q = Swin(num_heads=4, window_size=window), torch.randn(1, 4, 1024, 8)
    table = torch.randn(prod(2 * W - 1 for W in window), 4)
    found = measured(lambda: swin.panels(settings, table, q, q, q))
    assert found.largest_bytes < 4 * 1024 * 1024 * 4 / 1.9  # half of it at this length, an eighth at 4096: 2 · 256 / L


ROTATIONS = [
    Plain(8, None, 100.0), Plain(8, 4, 100.0), Plain(8, 0, 100.0), Plain(9, 4, 100.0), Plain(8, None, 100.0, "half"),
    Plain(8, 4, 100.0, "half"), Plain(8, 4, 100.0, "half", "proportional"),
]  # fmt: skip
LAID = {
    "as it is": lambda x: x,
    "columns first": lambda x: x.transpose(-1, -2).contiguous().transpose(-1, -2),
    "one further on": lambda x: torch.cat((x.new_zeros(1), x.flatten()))[1:].view(x.shape),
    "heads last": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
    "every other": lambda x: torch.stack((x, x), -1).flatten(-2)[..., ::2],
    "columns outermost": lambda x: x.permute(3, 0, 1, 2).contiguous().permute(1, 2, 3, 0),
}


@pytest.mark.parametrize("cached", [1, 2**19], ids=["head by head", "at once"])
@pytest.mark.parametrize("laid", LAID)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("settings", ROTATIONS, ids=str)
def test_a_rotation_in_one_pass_is_the_one_written_out(monkeypatch, settings, dtype, laid, cached):
    monkeypatch.setattr(_turning, "CACHED", cached)
    torch.manual_seed(0)
    x = LAID[laid](torch.randn(2, 3, 5, settings.head_dim, dtype=torch.float32).to(dtype)).requires_grad_()
    r = settings.head_dim if settings.rotary_dim is None else settings.rotary_dim
    wide = torch.float32 if dtype == torch.bfloat16 else dtype
    for shape in ((5, r // 2), (2, 1, 5, r // 2)):
        angle = torch.randn(shape, dtype=wide)
        want = turned(settings, x, angle.cos(), angle.sin())
        got = turned_once(settings, x, torch.complex(angle.cos(), angle.sin()))
        assert got.dtype == dtype and torch.allclose(got, want, rtol=1e-5 if dtype != torch.bfloat16 else 1e-2)
        cotangent = torch.randn_like(want)
        ours, theirs = (torch.autograd.grad(y, x, cotangent)[0] for y in (got, want))
        assert torch.allclose(ours, theirs, rtol=1e-2, atol=1e-2 if dtype == torch.bfloat16 else 1e-5)


def test_a_rotation_in_one_pass_writes_memory_once():
    settings, x = Plain(64, None, 100.0), torch.randn(1, 4, 512, 64)
    turns = torch.polar(torch.ones(512, 32), torch.randn(512, 32))
    assert measured(lambda: turned_once(settings, x, turns)).peak_bytes < 1.1 * x.nbytes


LOOPED = [
    (Plain(8, None, 100.0, "half"), torch.float32), (Plain(8, None, 100.0, "half"), torch.bfloat16),
    (Plain(8, 4, 100.0, "half", "proportional"), torch.float32), (Plain(8, None, 100.0), torch.bfloat16),
    (Plain(8, 4, 100.0), torch.bfloat16),
]  # fmt: skip


@pytest.mark.skipif(not _loops.COMPILER.used, reason="no C++ compiler")
@pytest.mark.parametrize("laid", ["as it is", "heads last"])
@pytest.mark.parametrize(("settings", "dtype"), LOOPED, ids=str)
def test_a_compiled_loop_is_the_rotation_written_out(monkeypatch, settings, dtype, laid):
    made = []
    monkeypatch.setattr(_loops, "LEAST", 0)
    monkeypatch.setattr(_turning, "by_loop", lambda *given: made.append(1) or _loops.by_loop(*given))
    torch._dynamo.reset()
    torch.manual_seed(0)
    for n in (5, 6, 7):  # the third is of lengths that the loop has learned to vary in
        x = LAID[laid](torch.randn(2, 3, n, settings.head_dim).to(dtype)).requires_grad_()
        angle = torch.randn(n, (settings.rotary_dim or settings.head_dim) // 2)
        got, want = (f(settings, x, angle.cos(), angle.sin()) for f in (turned_in_a_loop, turned))
        near = {"rtol": 1e-5 if dtype == torch.float32 else 1e-2, "atol": 1e-6}
        assert got.dtype == dtype and torch.allclose(got, want, **near)
        cotangent = torch.randn_like(want)
        ours, theirs = (torch.autograd.grad(y, x, cotangent)[0] for y in (got, want))
        assert torch.allclose(ours, theirs, rtol=1e-2, atol=1e-2)
    assert len(made) == 6  # forward and backward, none by the passes


def test_bits_are_rounded_as_pytorch_rounds_them():
    halfway = torch.arange(-(2**15), 2**15, dtype=torch.int32) * 2**16 + 2**15  # between any two bfloat16
    for bits in (halfway, halfway - 1, halfway + 1, halfway - 2**15):
        x = bits.view(torch.float32)
        x = torch.cat((x[x.isfinite()], torch.tensor([torch.inf, -torch.inf, torch.nan])))
        got = (_loops._rounded(x) >> 16).to(torch.int16).view(torch.bfloat16)
        assert torch.equal(got[:-1], x[:-1].bfloat16()) and got[-1].isnan()


@pytest.mark.parametrize("how", ["no compiler", "small"])
def test_where_no_loop_is_made_the_passes_do_it(monkeypatch, how):
    settings, x = Plain(8, None, 100.0, "half"), torch.randn(1, 2, 3, 8)
    monkeypatch.setattr(_loops, "LEAST", 0 if how != "small" else 2**18)
    monkeypatch.setattr(_loops, "COMPILER", replace(_loops.COMPILER, used=how != "no compiler"))
    monkeypatch.setattr(_turning, "by_loop", lambda *given: pytest.fail("a loop was made"))
    angle = torch.randn(3, 4)
    got = turned_in_a_loop(settings, x, angle.cos(), angle.sin())
    assert torch.allclose(got, turned(settings, x, angle.cos(), angle.sin()))


@pytest.mark.filterwarnings("ignore:.torch.jit")
@pytest.mark.parametrize("mode", ["vmap", "jvp", "dual level", "grad of vmap"])
def test_what_goes_without_bookkeeping_is_seen_by_transforms(mode):
    settings, x, t = Plain(8, None, 100.0), torch.randn(4, 3, 8), torch.randn(4, 3, 8)
    turns = torch.polar(torch.ones(3, 4), torch.randn(3, 4))

    def call(x):
        return turned_once(settings, x, turns)

    want = turned(settings, x, turns.real, turns.imag)
    if mode == "vmap":
        assert torch.allclose(torch.vmap(call)(x), want)
    elif mode == "jvp":  # not silently without its tangent
        with pytest.raises((RuntimeError, NotImplementedError), match="jvp function"), torch.no_grad():
            torch.func.jvp(call, (x,), (t,))
    elif mode == "dual level":
        with pytest.raises(NotImplementedError, match="jvp function"), torch.no_grad(), forward_ad.dual_level():
            call(forward_ad.make_dual(x, t))
    else:
        found = torch.func.grad(lambda x: (torch.vmap(call)(x) * t).sum())(x)
        assert torch.allclose(found, turned(settings, t, turns.real, -turns.imag), atol=1e-6)
