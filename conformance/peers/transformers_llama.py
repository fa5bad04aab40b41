"""LLaMA's rotary in transformers: `LlamaRotaryEmbedding` with `apply_rotary_pos_emb`, and the attention of `LlamaModel`."""

from typing import Any

import torch
from transformers import DynamicCache, LlamaConfig, LlamaModel  # type: ignore[import-not-found]
from transformers.models.llama.modeling_llama import (  # type: ignore[import-not-found]
    LlamaAttention,
    LlamaRotaryEmbedding,
    apply_rotary_pos_emb,
)

from relpos.conformance.peers.given import Given, as_heads, as_rows, nothing
from relpos.conformance.peers.record import Peer


class Rotary:
    """Cosines and sines of a head's width, applied to queries or keys."""

    def __init__(self, head_dim, base):
        theta = {"rope_type": "default", "rope_theta": base}
        self.embedding = LlamaRotaryEmbedding(LlamaConfig(head_dim=head_dim, rope_parameters=theta))

    def __call__(self, x, positions):
        """x [B, H, L, D] at its positions, [L] or [B, L]."""
        return self.both(x, x, positions)[0]

    def both(self, q, k, positions):
        """Queries and keys at the same positions, from one set of cosines and sines, as the attention does it."""
        cosines, sines = self.embedding(q, positions if positions.ndim == 2 else positions[None])
        return apply_rotary_pos_emb(q, k, cosines, sines)


def attention(q, k, v, base):
    """The last Lq queries of a causal model whose other keys, already rotated, are in the cache."""
    (_, H, Lq, D), Hkv = q.shape, k.shape[1]
    past = k.shape[2] - Lq
    theta = {"rope_type": "default", "rope_theta": base}
    options: dict[str, Any] = {
        "vocab_size": 1, "hidden_size": H * D, "intermediate_size": 1, "num_hidden_layers": 1, "num_attention_heads": H,
        "num_key_value_heads": Hkv, "head_dim": D, "rope_parameters": theta, "bos_token_id": 0, "eos_token_id": 0,
        "attn_implementation": "eager",
    }  # fmt: skip
    config = LlamaConfig(**options)
    layer: Any = LlamaAttention(config, layer_idx=0)
    layer.q_proj, layer.k_proj, layer.v_proj = (Given(as_rows(x)) for x in (q, k[:, :, past:], v[:, :, past:]))
    layer.o_proj = torch.nn.Identity()
    model: Any = LlamaModel(config).to(q.dtype).eval()
    cache = DynamicCache()
    if past:
        cosines, sines = model.rotary_emb(k, torch.arange(past)[None])
        rotated = apply_rotary_pos_emb(k[:, :, :past], k[:, :, :past], cosines, sines)[1]
        cache.update(rotated, v[:, :, :past], 0)
    model.layers = torch.nn.ModuleList([AttentionOnly(layer).eval()])
    model.norm = torch.nn.Identity()
    return as_heads(model(inputs_embeds=nothing(q), cache=cache, use_cache=True).last_hidden_state, q)


class AttentionOnly(torch.nn.Module):
    """A layer that is nothing but LLaMA's attention."""

    def __init__(self, attention: torch.nn.Module) -> None:
        super().__init__()
        self.attention = attention

    def forward(self, hidden_states, **from_model):
        return self.attention(hidden_states, **from_model)[0]


HERE = "relpos.conformance.peers.transformers_llama"
LLAMA: dict[str, Any] = {"package": "transformers", "version": "5.24.0", "scheme": "rope"}
HALVES = ("float32", "bfloat16", "float16")

PEERS = (
    Peer(
        **LLAMA,
        name="llama/rotary, nothing said",
        implementation=f"{HERE}:Rotary",
        instead="layout=half",
        note="Hugging Face permutes the columns of Meta's weights, so the pairs are (m, m + D/2)",
    ),
    Peer(
        **LLAMA,
        name="llama/rotary",
        implementation=f"{HERE}:Rotary",
        settings={"layout": "half"},
        claims={"positions": "per_row", "dtypes": HALVES},
    ),
    Peer(
        **LLAMA,
        name="llama/attention",
        implementation=f"{HERE}:attention",
        settings={"layout": "half"},
        claims={"level": "attention", "corner": "bottom-right", "softmax": "causal", "binds": ("num_kv_heads",)},
    ),
)
