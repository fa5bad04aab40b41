"""A step of decoding costs a slice: of what is kept, never a matrix, and no copy of keys that heads share."""

import pytest
import torch

from relpos.conformance.memory import measured
from relpos.impls import alibi, clipped, deberta, learned, rope, t5, transformer_xl
from relpos.impls._steps import Past
from relpos.spec.alibi import ALiBi
from relpos.spec.clipped import Clipped
from relpos.spec.deberta import DeBERTa
from relpos.spec.learned import Learned
from relpos.spec.rope import RoPE
from relpos.spec.t5 import T5
from relpos.spec.transformer_xl import TransformerXL

LENGTH = 512


def decoders():
    table = torch.randn(129, 8)
    return {
        "alibi": alibi.Decoder(ALiBi(num_heads=8)),
        "t5": t5.Decoder(T5(num_heads=8), {"table": torch.randn(32, 8)}),
        "clipped": clipped.Decoder(Clipped(num_heads=8, max_distance=64), table),
        "rope": rope.Decoder(RoPE(head_dim=16, base=10000.0)),
    }


@pytest.mark.parametrize("scheme", decoders())
def test_a_step_allocates_no_more_than_a_few_numbers_per_key(scheme):
    """Neither Lk · Lk numbers nor keys for all heads: two of the eight have keys of their own."""
    decoder = decoders()[scheme]
    tokens = [torch.randn(1, h, LENGTH, 16) for h in (8, 2, 2)]
    decoder.step(*tokens)
    decoder.step(*(x[:, :, :1] for x in tokens))  # the cache has room for another one now
    found = measured(lambda: decoder.step(*(x[:, :, :1] for x in tokens)))
    assert found.peak_bytes < 16 * 8 * LENGTH * 4 / 2


REFUSED = {
    "heads that keys are shared by unevenly": (lambda q, k, v: (q[:, :3], k, v), "`q` of a step must be"),
    "more queries than keys": (lambda q, k, v: (torch.cat((q, q), 2), k, v), "`q` of a step must be"),
    "another batch": (lambda q, k, v: (q[:1], k[:1], v[:1]), "`k` of a step must be"),
    "another head": (lambda q, k, v: (q, k[:, :1], v[:, :1]), "`k` of a step must be"),
    "one value for all": (lambda q, k, v: (q, k, v[:, :, :1]), "`v` of a step must have batch, heads and tokens of `k`"),
    "whole numbers": (lambda q, k, v: (q, k.long(), v), "`k` of a step must be a floating tensor"),
}


def further():
    """Those with parameters of their own, and with a memory in place of a cache; always the same numbers."""
    torch.manual_seed(0)
    content = {
        deberta: DeBERTa(num_heads=8, head_dim=16, max_distance=3),
        transformer_xl: TransformerXL(num_heads=8, head_dim=16, memory_length=4, same_length=True),
    }
    found = decoders() | {"learned": learned.Decoder(Learned(embed_dim=16, max_position=9), torch.randn(9, 16))}
    for module, made in content.items():
        params = {name: torch.randn(shape) for name, shape in made.parameters().items()}
        found[module.__name__.rpartition(".")[2]] = module.Decoder(made, params)
    return found


@pytest.mark.parametrize("kind", REFUSED)
@pytest.mark.parametrize("scheme", further())
def test_a_step_that_does_not_fit_is_refused_in_words_and_not_taken_in(scheme, kind):
    wrong, says = REFUSED[kind]
    decoder, untouched = further()[scheme], further()[scheme]
    drawn = torch.Generator().manual_seed(0)
    first, second = ([torch.randn(2, h, n, 16, generator=drawn) for h in (8, 2, 2)] for n in (3, 2))
    for each in (decoder, untouched):
        each.step(*first)
    with pytest.raises(ValueError, match=f"^{scheme}: {says}"):
        decoder.step(*wrong(*second))
    assert torch.equal(decoder.step(*second), untouched.step(*second))


@pytest.mark.parametrize("scheme", decoders())
def test_a_first_step_without_a_token_is_refused_in_words(scheme):
    with pytest.raises(ValueError, match=f"^{scheme}: `k` of a step must hold at least one token in a first step; got none"):
        decoders()[scheme].step(*(torch.zeros(1, 8, 0, 16) for _ in range(3)))


def test_a_past_is_computed_seldom():
    asked = []
    past = Past(lambda far, dtype: asked.append(len(far)) or far.to(dtype))
    for n in range(1, 100):
        assert past(1 - n, 1, torch.float32, torch.device("cpu")).tolist() == list(range(1 - n, 1))
    assert len(asked) < 10


@pytest.mark.parametrize("dim", [-1, -2])
def test_a_prompt_keeps_what_the_next_step_reads(dim):
    asked = []
    past = Past(lambda far, dtype: asked.append(1) or far.to(dtype).unsqueeze(-1 if dim == -2 else 0), dim=dim)
    found = past(-3, 3, torch.float32, torch.device("cpu"))  # keys ahead of a query are hidden from it
    assert found.flatten().tolist() == [-3.0, -2.0, -1.0, 0.0, 0.0, 0.0]
    assert past(-4, 1, torch.float32, torch.device("cpu")).flatten().tolist() == [-4.0, -3.0, -2.0, -1.0, 0.0]
    assert len(asked) == 1


DEBERTAS = [
    {"max_distance": 3}, {"max_distance": 3, "terms": "c2p"}, {"max_distance": 3, "terms": "p2c", "indices": "paper"},
    {"max_distance": 12, "num_buckets": 4, "version": "v2"}, {"max_distance": 3, "share_att_key": True}, {"max_distance": 40},
    {"max_distance": 6, "num_buckets": 4, "version": "v2", "clamp": True},
]  # fmt: skip
XLS = [
    {}, {"variant": "learned", "max_distance": 4}, {"variant": "xlnet", "clamp_len": 5}, {"variant": "bidirectional"},
    {"memory_length": 4, "same_length": True}, {"memory_length": 3, "segment_length": 4}, {"memory_length": 3},
    {"clamp_len": 2},
]  # fmt: skip


@pytest.mark.parametrize("chunks", [(1,) * 17, (5, 1, 1, 7, 1, 2)], ids=["one by one", "mixed"])
@pytest.mark.parametrize(
    ("module", "made"),
    [*((deberta, DeBERTa(num_heads=4, head_dim=6, **more)) for more in DEBERTAS),
     *((transformer_xl, TransformerXL(num_heads=4, head_dim=6, **more)) for more in XLS)], ids=str,
)  # fmt: skip
def test_a_step_of_a_content_term_is_the_last_row_of_all(module, made, chunks):
    torch.manual_seed(0)
    params = {name: torch.randn(shape, dtype=torch.float64) for name, shape in made.parameters().items()}
    q, k, v = (torch.randn(2, h, 17, 6, dtype=torch.float64) for h in (4, 2, 2))
    at = torch.arange(17)
    want = module.attention(made, params, q, k, v, at, at, causal=True)
    decoder = module.Decoder(made, params)
    steps = [decoder.step(*tokens) for tokens in zip(*(x.split(chunks, 2) for x in (q, k, v)), strict=True)]
    assert torch.allclose(torch.cat(steps, 2), want, atol=1e-12)


def test_a_step_of_deberta_forms_no_products_with_all_rows_for_every_key():
    made, L = DeBERTa(num_heads=4, head_dim=8, max_distance=256), LENGTH
    decoder = deberta.Decoder(made, {name: torch.randn(shape) for name, shape in made.parameters().items()})
    tokens = [torch.randn(1, 4, L, 8) for _ in "qkv"]
    decoder.step(*tokens)
    decoder.step(*(x[:, :, :1] for x in tokens))
    assert measured(lambda: decoder.step(*(x[:, :, :1] for x in tokens))).peak_bytes < 4 * L * 512 * 4 / 8
