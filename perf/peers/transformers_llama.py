"""LLaMA's rotary of transformers before PyTorch's fused kernel: cosines and sines made once per call, for queries and keys."""

from importlib.metadata import version

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import LlamaConfig  # type: ignore[import-not-found]
from transformers.models.llama.modeling_llama import (  # type: ignore[import-not-found]
    LlamaRotaryEmbedding,
    apply_rotary_pos_emb,
)

from relpos.perf.point import Variant


class Rotated:
    """`LlamaRotaryEmbedding` of a head's width, built once."""

    def __init__(self, head_dim, base):
        theta = {"rope_type": "default", "rope_theta": base}
        self.embedding = LlamaRotaryEmbedding(LlamaConfig(head_dim=head_dim, rope_parameters=theta))

    def __call__(self, q, k, v, causal):
        """q, k, v [B, H, L, D]; the output [B, H, L, D]."""
        cosines, sines = self.embedding(q, torch.arange(q.shape[2], device=q.device)[None])
        query, key = apply_rotary_pos_emb(q, k, cosines, sines)
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
