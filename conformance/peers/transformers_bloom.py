"""BLOOM's ALiBi in transformers: the bias m·j of `build_alibi_tensor`, and the attention that `BloomModel` makes of it."""

from typing import Any

import torch
from transformers import BloomConfig, BloomModel, DynamicCache  # type: ignore[import-not-found]
from transformers.models.bloom.modeling_bloom import BloomAttention, build_alibi_tensor  # type: ignore[import-not-found]

from relpos.conformance.deviations import Deviation
from relpos.conformance.peers.given import as_heads, nothing
from relpos.conformance.peers.record import Peer


def bias(query_length, key_length, num_heads, dtype):
    """One row for all queries, as it is added to the scores of a batch without padding: [H, 1, Lk]."""
    del query_length
    return build_alibi_tensor(torch.ones(1, key_length, dtype=torch.long), num_heads, dtype)


def attention(q, k, v):
    """The last Lq queries of a causal model whose other keys are in the cache."""
    return _with_cache(q, k, v, None)


def padded_attention(q, k, v, padding_mask):
    """The same with a mask of padding, from which BLOOM counts positions."""
    return _with_cache(q, k, v, padding_mask.long())


class AttentionOnly(torch.nn.Module):
    """A layer that is nothing but BLOOM's attention, fed with q, k and v instead of projections of what comes in."""

    fused: torch.Tensor

    def __init__(self, attention: torch.nn.Module) -> None:
        super().__init__()
        self.attention = attention

    def forward(self, hidden_states, **from_model):
        return self.attention(self.fused, torch.zeros_like(hidden_states), **from_model)


def one_layer(H, D, dtype) -> Any:
    """A model that is one attention layer, to be fed by `through`."""
    options: dict[str, Any] = {
        "vocab_size": 1, "hidden_size": H * D, "n_layer": 1, "n_head": H, "bos_token_id": 0, "eos_token_id": 0,
        "attn_implementation": "eager",
    }  # fmt: skip
    config = BloomConfig(**options)
    layer: Any = BloomAttention(config, layer_idx=0)
    layer.query_key_value = layer.dense = torch.nn.Identity()
    model: Any = BloomModel(config).to(dtype).eval()
    model.h = torch.nn.ModuleList([AttentionOnly(layer).eval()])
    model.ln_f = torch.nn.Identity()
    return model


def through(model, q, k, v, **options) -> Any:
    """The output [B, H, Lq, D] that the layer makes of q, k and v in place of projections."""
    heads = torch.stack([q, k, v], dim=3)  # [B, H, Lq, 3, D]
    model.h[0].fused = heads.transpose(1, 2).flatten(2)
    return as_heads(model(inputs_embeds=nothing(q), **options).last_hidden_state, q)


def _with_cache(q, k, v, padding_mask):
    past, cache = k.shape[2] - q.shape[2], DynamicCache()
    if past:
        cache.update(k[:, :, :past], v[:, :, :past], 0)
    model, new = one_layer(q.shape[1], q.shape[3], q.dtype), (q, k[:, :, past:], v[:, :, past:])
    return through(model, *new, attention_mask=padding_mask, cache=cache, use_cache=True)


HERE = "relpos.conformance.peers.transformers_bloom"
BLOOM: dict[str, Any] = {"package": "transformers", "version": "5.24.0", "scheme": "alibi"}
LAST: dict[str, Any] = {"level": "attention", "corner": "bottom-right", "softmax": "causal"}

HOLES = Deviation(
    name="distance counts real tokens",
    law="L1",
    says="the output differs from the definition",
    also=("L3", "L5", "L20", "L25"),
    reason="Positions are cumsum(mask) − 1, so a masked token inside the sequence brings everything before it one step nearer.",
    bound="Off by one slope for every hole between query and key; nothing under left or right padding.",
    witness='{"settings":{"num_heads":1},"key_length":3,"head_dim":4,"offset":2,"seed":1,"causal":true,"mask":"padding"}',
)

PEERS = (
    Peer(
        **BLOOM,
        name="bloom/bias, nothing said",
        implementation=f"{HERE}:bias",
        claims={"corner": "bottom-right"},
        instead="distance=key_only",
        note="m·j is another form than −m·|i − j|, so the judge asks which one is meant",
    ),
    Peer(
        **BLOOM,
        name="bloom/bias, exact",
        implementation=f"{HERE}:bias",
        settings={"distance": "key_only"},
        claims={"corner": "bottom-right"},
    ),
    Peer(
        **BLOOM,
        name="bloom/bias, causal",
        implementation=f"{HERE}:bias",
        claims={"corner": "bottom-right", "softmax": "causal"},
        note="right up to a constant per query, which a causal softmax forgives",
    ),
    Peer(
        **BLOOM, name="bloom/attention", implementation=f"{HERE}:attention", claims={**LAST, "dtypes": ("float32", "bfloat16")}
    ),
    Peer(
        **BLOOM,
        name="bloom/attention, padded",
        implementation=f"{HERE}:padded_attention",
        claims=LAST,
        deviations=(HOLES,),
        note="a mask without holes (left or right padding) leaves every distance as it is",
    ),
)
