"""A step of decoding costs a slice: of what is kept, never a matrix, and no copy of keys that heads share."""

import pytest
import torch

from relpos.conformance.memory import measured
from relpos.impls import alibi, clipped, rope, t5
from relpos.impls._steps import Past
from relpos.spec.alibi import ALiBi
from relpos.spec.clipped import Clipped
from relpos.spec.rope import RoPE
from relpos.spec.t5 import T5

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
