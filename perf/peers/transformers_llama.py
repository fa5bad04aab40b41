"""LLaMA's rotary of transformers before PyTorch's fused kernel: cosines and sines made once per call, for queries and keys."""

from importlib.metadata import version

import torch
from torch.nn.functional import scaled_dot_product_attention

from relpos.conformance.peers.transformers_llama import Rotary
from relpos.perf.point import Variant


class Rotated:
    """The rotary of a head's width, built once."""

    def __init__(self, head_dim, base):
        self.rotary = Rotary(head_dim, base)

    def __call__(self, q, k, v, causal):
        """q, k, v [B, H, L, D]; the output [B, H, L, D]."""
        query, key = self.rotary.both(q, k, torch.arange(q.shape[2], device=q.device))
        return scaled_dot_product_attention(query, key, v, is_causal=causal)


PEERS = (
    Variant(
        label="rope/transformers-llama",
        spec=f"{__name__}:Rotated",
        scheme="rope",
        settings=(("layout", "half"),),
        claims=(("level", "attention"), ("positions", "contiguous"), ("dtypes", ("float32", "bfloat16"))),
        origin=f"transformers {version('transformers')}",
    ),
)
