"""Engines that form no matrix of all pairs, in use: any layout in memory, transforms, autocast, positions far apart."""

import pytest
import torch

import test_engines
from relpos.impls import shaw
from relpos.impls._attention import contiguous
from relpos.impls._skewed import under_products
from relpos.impls._toeplitz import under_line
from relpos.spec.shaw import Shaw
from test_engines import SCALE, drawn, line, products, ranged, same, valued
from test_engines_grid import LAID

APART = ("columns first", "every other", "columns outermost")  # columns of a row do not lie side by side


@pytest.mark.parametrize("which", [0, 1, 2], ids=["q", "k", "v"])
@pytest.mark.parametrize("laid", APART)
@pytest.mark.parametrize("engine", [line, products, ranged, valued])
def test_an_engine_reads_queries_keys_and_values_however_they_lie(monkeypatch, engine, laid, which):
    """The fused kernel itself takes the columns of a row to lie side by side."""
    monkeypatch.setattr(test_engines, "drawn", lambda *shape, learned=True, plain=drawn: relaid(plain, shape, learned))
    count = iter(range(100))

    def relaid(plain, shape, learned):
        x = plain(*shape, learned=False)
        x = LAID[laid](x) if next(count) == which else x
        return x.requires_grad_(learned)

    torch.manual_seed(0)
    got, want, inputs = engine((6, 15, 4), 2, True)
    assert inputs[which].stride(-1) != 1 and same(got, want, inputs)


@pytest.mark.parametrize("engine", [line, products, ranged, valued])
def test_gradients_of_samples_are_those_of_each(engine):
    """vmap of grad, grad of vmap; a second derivative is refused, not wrong."""
    got, want, inputs = engine((6, 15, 4), 2, True)
    q, k, v = (x.detach() for x in inputs[:3])
    wanted = torch.autograd.grad(want.square().sum(), inputs[:3])
    again = torch.autograd.grad(got.square().sum(), inputs[0], create_graph=True)[0]
    with pytest.raises(NotImplementedError, match="differentiated once"):
        torch.autograd.grad(again.sum(), inputs[0])
    assert torch.allclose(again, wanted[0])
    if engine is not line:
        return

    def loss(q, k, v):
        return under_line(inputs[3].detach(), q[None], k[None], v[None], offset=4, causal=True, scale=SCALE).square().sum()

    each = torch.func.vmap(torch.func.grad(loss, (0, 1, 2)))(q, k, v)
    whole = torch.func.grad(lambda *qkv: torch.func.vmap(loss)(*qkv).sum(), (0, 1, 2))(q, k, v)
    assert all(torch.allclose(a, b) and torch.allclose(c, b) for a, b, c in zip(each, wanted, whole, strict=True))
    with pytest.raises(NotImplementedError, match="differentiated once"):
        torch.func.grad(lambda q: torch.func.grad(loss)(q, k[0], v[0]).square().sum())(q[0])


def test_gradients_of_a_skew_under_transforms():
    q, k, v, asked, vectors = (x.detach() for x in products((6, 15, 4), 1, False)[2])
    whole = {"offset": 4, "causal": False, "scale": SCALE}
    found = torch.func.grad(lambda a: under_products(a, vectors, q, k, v, **whole).square().sum())(asked)
    asked.requires_grad_()
    (wanted,) = torch.autograd.grad(under_products(asked, vectors, q, k, v, **whole).square().sum(), asked)
    assert torch.allclose(found, wanted)


@pytest.mark.filterwarnings("ignore")
def test_backward_inside_autocast_rounds_nothing():
    t, q, k, v = torch.randn(4, 20, requires_grad=True), *(torch.randn(1, 4, n, 8) for n in (6, 15, 15))
    call = lambda: under_line(t, q, k, v, offset=4, causal=False, scale=SCALE).square().sum()  # noqa: E731
    (want,) = torch.autograd.grad(call(), t)
    with torch.autocast("cpu", torch.bfloat16):
        (got,) = torch.autograd.grad(call(), t)
    assert torch.allclose(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("offset", "causal"), [(300, False), (300, True), (-300, False)])
def test_a_band_that_no_pair_lies_in_is_no_matter(offset, causal):
    settings = Shaw(head_dim=8, max_distance=1, tables="tied")
    params = {name: torch.randn(shape, dtype=torch.float64) for name, shape in settings.parameters().items()}
    q, k, v = (torch.randn(1, 2, n, 8, dtype=torch.float64) for n in (7, 9, 9))
    at = contiguous(7, 9, offset, q.device)
    got = shaw.streamed(settings, params, q, k, v, 7, 9, offset, causal=causal)
    assert torch.allclose(got, shaw.attention(settings, params, q, k, v, *at, causal=causal))
