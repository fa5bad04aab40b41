"""MPT's ALiBi in transformers: −m·(K − 1 − j) of `build_mpt_alibi_tensor`, and the attention that `MptModel` makes of it."""

from dataclasses import replace
from typing import Any

import torch
from transformers import DynamicCache, MptConfig, MptModel  # type: ignore[import-not-found]
from transformers.models.mpt.modeling_mpt import MptAttention, build_mpt_alibi_tensor  # type: ignore[import-not-found]

from relpos.conformance.deviations import Deviation
from relpos.conformance.peers.given import Given, as_heads, as_rows, nothing
from relpos.conformance.peers.record import Peer


def bias(query_length, key_length, num_heads, bias_max):
    """One row for all queries, [H, 1, Lk], 0 at the last key."""
    del query_length
    return build_mpt_alibi_tensor(num_heads, key_length, bias_max)


def attention(q, k, v):
    """The last Lq queries of a causal model whose other keys are in the cache; alibi_bias_max is left at 8."""
    return _model(q, k, v, {})


def padded_attention(q, k, v, padding_mask):
    """The same with a mask of padding."""
    return _model(q, k, v, {}, padding_mask.long())


def configured(q, k, v, bias_max):
    """The same with alibi_bias_max in the configuration."""
    return _model(q, k, v, {"alibi_bias_max": int(bias_max)})


def without_mask(q, k, v):
    """`MptAttention` and its bias with no causal mask, as an encoder would have it."""
    H, Lk = q.shape[1], k.shape[2]
    layer = _layer(_config(q, Lk, {}), q, k, v)
    return as_heads(layer(q.new_zeros(len(q), q.shape[2], 1), build_mpt_alibi_tensor(H, Lk))[0], q)


class AttentionOnly(torch.nn.Module):
    """A block that is nothing but MPT's attention."""

    def __init__(self, attention: torch.nn.Module) -> None:
        super().__init__()
        self.attention = attention

    def forward(self, hidden_states, position_bias, attention_mask, layer_past, **from_model):
        del from_model
        return self.attention(hidden_states, position_bias, cache=layer_past, attention_mask=attention_mask)


def _config(q, max_seq_len, attn_config):
    B, H, Lq, D = q.shape
    del B, Lq
    options: dict[str, Any] = {
        "vocab_size": 1, "d_model": H * D, "n_heads": H, "n_layers": 1, "expansion_ratio": 1, "max_seq_len": max_seq_len,
        "attn_config": attn_config,
    }  # fmt: skip
    return MptConfig(**options)


def _layer(config, q, k, v) -> Any:
    layer: Any = MptAttention(config, layer_idx=0).eval()
    layer.Wqkv = Given(torch.cat([as_rows(x) for x in (q, k, v)], dim=2))
    layer.out_proj = torch.nn.Identity()
    return layer


def _model(q, k, v, attn_config, padding_mask=None):
    past = k.shape[2] - q.shape[2]
    config = _config(q, 2048, attn_config)
    model: Any = MptModel(config).to(q.dtype).eval()
    model.blocks = torch.nn.ModuleList([AttentionOnly(_layer(config, q, k[:, :, past:], v[:, :, past:]))])
    model.norm_f = torch.nn.Identity()
    cache = DynamicCache()
    if past:
        cache.update(k[:, :, :past], v[:, :, :past], 0)
    out = model(inputs_embeds=nothing(q), attention_mask=padding_mask, cache=cache, use_cache=True)
    return as_heads(out.last_hidden_state, q)


HERE = "relpos.conformance.peers.transformers_mpt"
MPT: dict[str, Any] = {"package": "transformers", "version": "5.24.0", "scheme": "alibi"}
LAST: dict[str, Any] = {"level": "attention", "corner": "bottom-right", "softmax": "causal", "max_length": 2048}

KEY_ONLY = Deviation(
    name="key-only ALiBi without a causal softmax",
    law="L6",
    says="rows are moved by a constant, which is right under a causal softmax only",
    also=("L1", "L2", "L3", "L11", "L26", "L25"),
    reason="The bias is −m·(K − 1 − j) in every row: the distance from the last key, not from the query.",
    bound="Off by m·(K − 1 − i), the same for all keys up to the query, so softmax cancels it; "
    "for keys after it 2m·(j − i) are added.",
    witness='{"settings":{"num_heads":1},"query_length":2,"key_length":4,"offset":2}',
)
AHEAD = replace(
    KEY_ONLY,
    law="L1",
    says="the output differs from the definition",
    also=("L10", "L11", "L18", "L20", "L26", "L25"),
    reason="`MptAttention` adds the bias whatever its mask; with none, a key counts for more the nearer it is to the last one.",
    bound="A key after the query gains 2m times its distance from the query; without keys after it nothing changes.",
    witness='{"settings":{"num_heads":1},"query_length":2,"key_length":2}',
)
IGNORED = Deviation(
    name="alibi_bias_max is ignored",
    law="L16",
    says="`bias_max` = 4.0 changes nothing, but should",
    also=("L1", "L10", "L11", "L20", "L26", "L25"),
    reason="`MptModel` builds the bias without passing on attn_config.alibi_bias_max (nor does it look at alibi=False).",
    bound="Slopes are always those of the default, 8.",
    witness='{"settings":{"num_heads":3},"heads":3,"query_length":2,"key_length":3,"offset":1,"causal":true,'
    '"extra":{"option":"bias_max","value":4.0}}',
)

PEERS = (
    Peer(
        **MPT,
        name="mpt/bias, itself",
        implementation="transformers.models.mpt.modeling_mpt:build_mpt_alibi_tensor",
        claims={
            "rename": {"sequence_length": "key_length", "alibi_bias_max": "bias_max"},
            "binds": ("bias_max",),
            "softmax": "causal",
        },
        note="its own function, no adapter",
    ),
    Peer(
        **MPT,
        name="mpt/bias, causal",
        implementation=f"{HERE}:bias",
        claims={"corner": "bottom-right", "softmax": "causal"},
        note="right up to a constant per query, which a causal softmax forgives",
    ),
    Peer(
        **MPT, name="mpt/bias, exact", implementation=f"{HERE}:bias", claims={"corner": "bottom-right"}, deviations=(KEY_ONLY,)
    ),
    Peer(**MPT, name="mpt/attention", implementation=f"{HERE}:attention", claims={**LAST, "dtypes": ("float32", "bfloat16")}),
    Peer(
        **MPT,
        name="mpt/attention, padded",
        implementation=f"{HERE}:padded_attention",
        claims=LAST,
        note="distance counts slots, padded or not",
    ),
    Peer(**MPT, name="mpt/attention, bias_max", implementation=f"{HERE}:configured", claims=LAST, deviations=(IGNORED,)),
    Peer(
        **MPT,
        name="mpt/attention without a mask",
        implementation=f"{HERE}:without_mask",
        settings={"distance": "symmetric"},
        claims={"level": "attention"},
        deviations=(AHEAD,),
    ),
)
