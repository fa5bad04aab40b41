"""Falcon's ALiBi in transformers: slopes and bias in bfloat16, the sum of q·k and bias divided by √D, eager and SDPA."""

from dataclasses import replace
from typing import Any

import torch
from transformers import DynamicCache, FalconConfig, FalconModel  # type: ignore[import-not-found]
from transformers.models.falcon.modeling_falcon import FalconAttention, build_alibi_tensor  # type: ignore[import-not-found]

from relpos.conformance.deviations import Deviation
from relpos.conformance.peers.record import Peer


def bias(query_length, key_length, num_heads, dtype):
    """One row for all queries, [H, 1, Lk], before the division by √D."""
    del query_length
    return build_alibi_tensor(torch.ones(1, key_length, dtype=torch.long), num_heads, dtype)


def eager(q, k, v):
    """The last Lq queries of a causal model whose other keys are in the cache, with attn_implementation="eager"."""
    return _model(q, k, v, "eager")


def sdpa(q, k, v):
    """The same with attn_implementation="sdpa", which is the default."""
    return _model(q, k, v, "sdpa")


class AttentionOnly(torch.nn.Module):
    """A layer that is nothing but Falcon's attention, fed with q, k and v instead of projections of what comes in."""

    def __init__(self, attention: torch.nn.Module, fused: torch.Tensor) -> None:
        super().__init__()
        self.attention, self.fused = attention, fused

    def forward(self, hidden_states, **from_model):
        del hidden_states
        return self.attention(self.fused, **from_model)


def _model(q, k, v, attn_implementation):
    B, H, Lq, D = q.shape
    past = k.shape[2] - Lq
    options: dict[str, Any] = {
        "vocab_size": 1, "hidden_size": H * (D + D % 2), "num_hidden_layers": 1, "num_attention_heads": H, "alibi": True,
        "bias": False, "multi_query": False, "new_decoder_architecture": False, "bos_token_id": 0, "eos_token_id": 0,
        "attn_implementation": attn_implementation,
    }  # fmt: skip
    config = FalconConfig(**options)
    config.hidden_size = H * D  # afterwards: an odd width is refused, as if ALiBi had pairs to turn
    layer: Any = FalconAttention(config, layer_idx=0)
    layer.query_key_value = layer.dense = torch.nn.Identity()
    cache = DynamicCache()
    if past:
        cache.update(k[:, :, :past], v[:, :, :past], 0)
    heads = torch.stack([q, k[:, :, past:], v[:, :, past:]], dim=3)  # [B, H, Lq, 3, D]
    model: Any = FalconModel(config).to(q.dtype).eval()
    model.h = torch.nn.ModuleList([AttentionOnly(layer, heads.transpose(1, 2).flatten(2)).eval()])
    model.ln_f = torch.nn.Identity()
    out = model(inputs_embeds=torch.zeros(B, Lq, H * D, dtype=q.dtype), cache=cache, use_cache=True).last_hidden_state
    return out.view(B, Lq, H, D).transpose(1, 2)


HERE = "relpos.conformance.peers.transformers_falcon"
FALCON: dict[str, Any] = {"package": "transformers", "version": "5.24.0", "scheme": "alibi"}
LAST: dict[str, Any] = {"level": "attention", "corner": "bottom-right", "softmax": "causal"}
CAUSAL: dict[str, Any] = {"corner": "bottom-right", "softmax": "causal"}

# Slope, position and product are each rounded to 8 bits, against 24 in float32: 3 · 2⁻⁸ / 2⁻²⁴.
BFLOAT16_IN_FLOAT32 = 3 * 2.0**16

NINE_HEADS = '{"settings":{"num_heads":9},"heads":9,"query_length":2,"key_length":2}'
ROUNDED = Deviation(
    name="bfloat16 slopes in float32",
    law="L10",
    says="weights of key 0",
    also=("L1", "L2", "L3", "L11", "L18", "L20", "L26", "L25"),
    reason="Slopes, positions and bias are rounded to bfloat16 in every working dtype.",
    bound="3 · 2⁻⁸ of a bias. Exact up to 8 heads and position 256.",
    units=BFLOAT16_IN_FLOAT32,
    witness='{"settings":{"num_heads":9,"scale_bias":true},"heads":9,"query_length":2,"key_length":2,"causal":true}',
)
TWICE = Deviation(
    name="eager adds the bias twice",
    law="L1",
    says="the output differs from the definition",
    also=("L10", "L11", "L18", "L20", "L26", "L29"),
    reason="FalconModel puts bias/√D into the mask, as SDPA needs it; the eager layer adds the bias to the scores as well.",
    bound="Every slope is doubled; output_attentions=True takes this path too.",
    witness='{"settings":{"num_heads":3,"scale_bias":true},"heads":3,"key_length":4,"offset":3,"dtype":"bfloat16","causal":true}',
)

PEERS = (
    Peer(
        **FALCON,
        name="falcon/bias, float32",
        implementation=f"{HERE}:bias",
        claims={**CAUSAL, "dtypes": ("float32",)},
        deviations=(replace(ROUNDED, says="slopes", witness=NINE_HEADS),),
    ),
    Peer(**FALCON, name="falcon/bias, bfloat16", implementation=f"{HERE}:bias", claims={**CAUSAL, "dtypes": ("bfloat16",)}),
    Peer(
        **FALCON,
        name="falcon/sdpa, nothing said",
        implementation=f"{HERE}:sdpa",
        claims={**LAST, "dtypes": ("bfloat16",)},
        instead="scale_bias=True",
        note="the sum of q·k and bias is divided by √D, so the judge asks whether the scale is meant for both",
    ),
    Peer(
        **FALCON,
        name="falcon/sdpa, bfloat16",
        implementation=f"{HERE}:sdpa",
        settings={"scale_bias": True},
        claims={**LAST, "dtypes": ("bfloat16",)},
    ),
    Peer(
        **FALCON,
        name="falcon/sdpa, float32",
        implementation=f"{HERE}:sdpa",
        settings={"scale_bias": True},
        claims=LAST,
        deviations=(ROUNDED,),
    ),
    Peer(
        **FALCON,
        name="falcon/eager, bfloat16",
        implementation=f"{HERE}:eager",
        settings={"scale_bias": True},
        claims={**LAST, "dtypes": ("bfloat16",)},
        deviations=(TWICE,),
    ),
)
