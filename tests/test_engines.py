"""Engines that form no matrix of all pairs: as right as the formula, in blocks of any size, by private operators or not."""

from dataclasses import replace

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from relpos.conformance.memory import measured
from relpos.impls import _operators, _streamed, _toeplitz, alibi, music_transformer, transformer_xl
from relpos.impls._attention import attend, contiguous, relative, visible
from relpos.impls._blocks import Plan
from relpos.impls._ranged import Ranged
from relpos.impls._skewed import Products, under_products
from relpos.impls._streamed import streamed
from relpos.impls._toeplitz import under_line
from relpos.spec.alibi import ALiBi
from relpos.spec.music_transformer import MusicTransformer
from relpos.spec.transformer_xl import TransformerXL

SIZES = [(5, 7, 2), (12, 12, 0), (1, 9, 8), (6, 15, 4), (3, 2, 0), (5, 4, -2), (3, 2, -7), (3, 0, 0)]
SCALE = 0.3


def drawn(*shape, learned=True):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=learned)


def dense(bias, q, k, v, offset, causal):
    at = contiguous(q.shape[2], k.shape[2], offset, q.device)
    return attend(q, k, v, bias=bias, visible=visible(*at, None, causal), scale=SCALE)


def diagonals(query_length, key_length, offset):
    return relative(*contiguous(query_length, key_length, offset, torch.device("cpu"))) + query_length - 1 + offset


def line(size, batch, causal, learned=True):
    """The engine and the formula, of the same tensors."""
    Lq, Lk, offset = size
    q, k, v, t = drawn(batch, 4, Lq, 6), drawn(batch, 4, Lk, 6), drawn(batch, 4, Lk, 6), drawn(4, Lq + Lk - 1, learned=learned)
    want = dense(t[:, diagonals(*size)], q, k, v, offset, causal)
    return under_line(t, q, k, v, offset=offset, causal=causal, scale=SCALE), want, (q, k, v, t)


def products(size, batch, causal):
    Lq, Lk, offset = size
    q, k, v = drawn(batch, 4, Lq, 6), drawn(batch, 4, Lk, 6), drawn(batch, 4, Lk, 6)
    asked, vectors = drawn(batch, 4, Lq, 3), drawn(1 if causal else 4, Lq + Lk - 1, 3)
    term = torch.einsum("bhid,hijd->bhij", asked, vectors.expand(4, -1, -1)[:, diagonals(*size)])
    want = dense(SCALE * term, q, k, v, offset, causal)
    return under_products(asked, vectors, q, k, v, offset=offset, causal=causal, scale=SCALE), want, (q, k, v, asked, vectors)


def ranged(size, batch, causal, reach=(2, 3)):
    """Vectors that are constant from a distance on, asked by queries and, of causal ones, by keys too."""
    Lq, Lk, offset = size
    q, k, v = drawn(batch, 4, Lq, 6), drawn(batch, 4, Lk, 6), drawn(batch, 4, Lk, 6)
    far = torch.arange(Lq + Lk - 1) - (Lq - 1 + offset)
    rows = far.clamp(-reach[0], reach[1]) + reach[0]
    asked, table = drawn(batch, 4, Lq, 3), drawn(4, sum(reach) + 1, 3)
    told, back = drawn(batch, 4, Lk, 3), drawn(1, sum(reach) + 1, 3)
    pairs = rows[diagonals(*size)]
    term = torch.einsum("bhid,hijd->bhij", asked, table[:, pairs])
    tensors, inputs = (asked, table[:, rows]), (q, k, v, asked, table)
    if causal:
        term = term + torch.einsum("bhjd,hijd->bhij", told, back.expand(4, -1, -1)[:, pairs])
        tensors, inputs = (*tensors, told, back[:, rows]), (*inputs, told, back)
    plan = Plan(makes=Ranged, offset=offset, causal=causal, scale=SCALE, reach=reach)
    return streamed(plan, q, k, v, *tensors), dense(term, q, k, v, offset, causal), inputs


def valued(size, batch, causal, learned=True, reach=(2, 3)):
    """The same, with vectors by distance that are added to the values."""
    Lq, Lk, offset = size
    q, k, v = drawn(batch, 4, Lq, 6), drawn(batch, 4, Lk, 6), drawn(batch, 4, Lk, 6)
    rows = (torch.arange(Lq + Lk - 1) - (Lq - 1 + offset)).clamp(-reach[0], reach[1]) + reach[0]
    asked, table, added = (
        drawn(*n, learned=learned) for n in ((batch, 4, Lq, 3), (4, sum(reach) + 1, 3), (1, sum(reach) + 1, 6))
    )
    pairs, at = rows[diagonals(*size)], contiguous(Lq, Lk, offset, q.device)
    score = SCALE * q @ k.transpose(-1, -2) + torch.einsum("bhid,hijd->bhij", asked, table[:, pairs])
    seen = visible(*at, None, causal)
    if seen is not None:
        blind = ~seen.any(-1, keepdim=True)
        score = score.masked_fill(~seen & ~blind, -torch.inf)
    weights = score.softmax(-1) if seen is None else score.softmax(-1).masked_fill(blind, 0.0)
    want = weights @ v + torch.einsum("bhij,hijd->bhid", weights, added.expand(4, -1, -1)[:, pairs])
    plan = Plan(makes=Ranged, offset=offset, causal=causal, scale=SCALE, reach=reach, valued=Ranged)
    return streamed(plan, q, k, v, asked, table[:, rows], added[:, rows]), want, (q, k, v, asked, table, added)


def same(got, want, inputs):
    cotangent = torch.randn_like(want)
    pairs = [(got, want)]
    pairs += zip(*(torch.autograd.grad(x, inputs, cotangent, retain_graph=True) for x in (got, want)), strict=True)
    return all(torch.allclose(a, b, atol=1e-12) for a, b in pairs)


@pytest.fixture(params=["blocks of 2", "one block"])
def blocks(request, monkeypatch):
    if request.param == "blocks of 2":
        monkeypatch.setattr(_streamed, "FORWARD", 2)
        monkeypatch.setattr(_toeplitz, "AGAIN", (2, 2, 3))
        monkeypatch.setattr(Products, "again", (2, 3))
        monkeypatch.setattr(Ranged, "again", (2, None))
        monkeypatch.setattr(_toeplitz, "WIDE", 2)


@pytest.fixture(params=["private", "public"])
def operators(request, monkeypatch):
    if request.param == "public":
        for module in (_operators, _streamed):
            monkeypatch.setattr(module, "FLASH", replace(_operators.FLASH, used=False))


@pytest.mark.usefixtures("blocks", "operators")
@pytest.mark.parametrize("engine", [line, products, ranged, valued])
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("causal", [False, True])
def test_an_engine_is_the_formula_and_so_are_its_gradients(engine, size, causal):
    torch.manual_seed(sum(size))
    for batch in (1, 2):
        got, want, inputs = engine(size, batch, causal)
        assert same(got, want, inputs)
        assert same(got, want, inputs[:3])  # numbers that are not learned take another way back
        assert same(got, want, inputs[3:])


@pytest.mark.usefixtures("operators")
@pytest.mark.parametrize("engine", [line, valued])
def test_numbers_that_are_not_learned_are_attended_to_all_the_same(engine):
    """Another way back: fused, where that operator is there."""
    got, want, inputs = engine((6, 15, 4), 2, True, learned=False)
    assert same(got, want, inputs[:3])


@pytest.mark.parametrize("engine", [line, products])
def test_mapped_over_samples_an_engine_is_right_for_each(engine):
    one = {line: lambda t, q, k, v: under_line(t, q, k, v, offset=1, causal=True, scale=SCALE)}.get(engine)
    one = one or (lambda a, e, q, k, v: under_products(a, e, q, k, v, offset=1, causal=True, scale=SCALE))
    first, second = (engine((4, 5, 1), 1, True)[2] for _ in range(2))
    calls = [(*inputs[3:], *inputs[:3]) for inputs in (first, second)]
    mapped = torch.func.vmap(one)(*(torch.stack(pair) for pair in zip(*calls, strict=True)))
    assert all(torch.allclose(mapped[n], one(*call), atol=1e-12) for n, call in enumerate(calls))


@pytest.mark.parametrize("engine", [line, products])
@pytest.mark.parametrize("trained", [False, True])
def test_no_matrix_of_all_pairs_is_allocated(engine, trained):
    L, H = 2048, 4
    q, k, v = (torch.randn(1, H, L, 8, requires_grad=trained) for _ in range(3))
    numbers = torch.randn(H, 2 * L - 1, requires_grad=trained)
    vectors, asked = torch.randn(H, 2 * L - 1, 8, requires_grad=trained), torch.randn(1, H, L, 8, requires_grad=trained)

    def once():
        more = {"offset": 0, "causal": False, "scale": SCALE}
        out = under_line(numbers, q, k, v, **more) if engine is line else under_products(asked, vectors, q, k, v, **more)
        if trained:
            out.sum().backward()

    once()
    assert measured(once).largest_bytes < H * L * L * 4 / 4


def test_which_private_operator_is_used_is_said_with_its_reason(relpos):
    code, out, _ = relpos("impls")
    assert code == 0 and _operators.FLASH.name in out and "used, this PyTorch has it" in " ".join(out.split())
    assert "none of that signature" in replace(_operators.FLASH, used=False).reason


@pytest.mark.parametrize(
    ("streamed_by", "settings", "says"),
    [
        (music_transformer, MusicTransformer(num_heads=1, head_dim=2, max_distance=4, value_term="every"), "no `value_term`"),
        (music_transformer, MusicTransformer(num_heads=1, head_dim=2, max_distance=4, variant="local"), 'no variant "local"'),
        (transformer_xl, TransformerXL(num_heads=1, head_dim=2, same_length=True, memory_length=2), "got memory_length = 2"),
    ],
)
def test_what_an_engine_leaves_out_is_refused_by_name(streamed_by, settings, says):
    x = torch.zeros(1, 1, 3, 2)
    with pytest.raises(NotImplementedError, match=f"{streamed_by.__name__.split('.')[-1]}: .*{says}.*attention_aligned"):
        streamed_by.streamed(settings, {}, x, x, x, 3, 3, 0)


@pytest.fixture
def two_threads():
    """Each has a buffer of its own in the fused kernel."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("scheme", "most"), [("alibi", (2.0, 1.0)), ("music_transformer", (5.0, 5.0))])
def test_a_call_takes_little_more_memory_than_attention_itself(scheme, most, causal):
    """Memory is counted, not sampled: the bars of perf hold here as well."""
    L, H, D = 4096, 8, 64
    q, k, v = (torch.randn(1, H, L, D) for _ in range(3))
    limit = measured(lambda: scaled_dot_product_attention(q, k, v, is_causal=causal)).peak_bytes
    if scheme == "alibi":
        found = measured(lambda: alibi.toeplitz(ALiBi(num_heads=H), q, k, v, L, L, 0, causal=causal))
    else:
        settings = MusicTransformer(num_heads=H, head_dim=D, max_distance=L)
        params = {name: torch.zeros(shape) for name, shape in settings.parameters().items()}
        found = measured(lambda: music_transformer.streamed(settings, params, q, k, v, L, L, 0, causal=causal))
    assert found.peak_bytes <= most[causal] * limit


@pytest.mark.parametrize("offset", [-9, -1, 0, 7])
def test_a_causal_line_is_right_wherever_the_queries_begin(monkeypatch, offset):
    monkeypatch.setattr(_streamed, "FORWARD", 2)
    q, k, v, t = drawn(1, 4, 6, 6), drawn(1, 4, 5, 6), drawn(1, 4, 5, 6), drawn(4, 10)
    seen = visible(*contiguous(6, 5, offset, q.device), None, causal=True)
    want = attend(q, k, v, bias=t[:, diagonals(6, 5, offset)], visible=seen, scale=SCALE)
    got = under_line(t, q, k, v, offset=offset, causal=True, scale=SCALE)
    assert torch.allclose(got, want)  # a query before all keys hears nothing, and gets 0
