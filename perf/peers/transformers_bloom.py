"""BLOOM of transformers: the attention of a model of one layer, with its ALiBi made at every call; eager is all it has."""

from importlib.metadata import version
from typing import Any

import torch
from transformers import BloomConfig, BloomModel  # type: ignore[import-not-found]
from transformers.models.bloom.modeling_bloom import BloomAttention  # type: ignore[import-not-found]

from relpos.conformance.peers.transformers_bloom import AttentionOnly
from relpos.perf.point import Variant


class Layer:
    """A model of one attention layer, built once for a width."""

    def __init__(self):
        self.models: dict[Any, Any] = {}

    def __call__(self, q, k, v):
        """q, k, v [B, H, L, D]; the output [B, H, L, D]."""
        B, H, L, D = q.shape
        fused = torch.stack([q, k, v], dim=3).transpose(1, 2).flatten(2)  # [B, L, H, 3, D]
        made = H, D, q.dtype
        if made not in self.models:
            with torch.inference_mode(False):  # what is kept outlives a call under it
                self.models[made] = _model(H, D, fused)
        model = self.models[made]
        model.h[0].fused = fused
        out = model(inputs_embeds=q.new_zeros(B, L, H * D), use_cache=False).last_hidden_state
        return out.view(B, L, H, D).transpose(1, 2)


def _model(H: int, D: int, fused: torch.Tensor) -> Any:
    options: dict[str, Any] = {
        "vocab_size": 1, "hidden_size": H * D, "n_layer": 1, "n_head": H, "bos_token_id": 0, "eos_token_id": 0,
        "attn_implementation": "eager",
    }  # fmt: skip
    config = BloomConfig(**options)
    layer: Any = BloomAttention(config, layer_idx=0)
    layer.query_key_value = layer.dense = torch.nn.Identity()
    model: Any = BloomModel(config)
    model.to(fused.dtype).eval()
    model.h = torch.nn.ModuleList([AttentionOnly(layer, fused).eval()])
    model.ln_f = torch.nn.Identity()
    return model


PEERS = (
    Variant(
        label="alibi/transformers-bloom",
        spec=f"{__name__}:Layer",
        scheme="alibi",
        claims=(
            ("level", "attention"),
            ("positions", "contiguous"),
            ("softmax", "causal"),
            ("dtypes", ("float32", "bfloat16")),
        ),
        origin=f"transformers {version('transformers')}",
    ),
)
