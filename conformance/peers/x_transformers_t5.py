"""x-transformers' T5 bias: `RelativePositionBias`, and the attention that `AttentionLayers(rel_pos_bias=True)` makes of it."""

from typing import Any

import torch
from x_transformers.attend import Intermediates  # type: ignore[import-not-found]
from x_transformers.x_transformers import AttentionLayers, RelativePositionBias  # type: ignore[import-not-found]

from relpos.conformance.deviations import Deviation
from relpos.conformance.peers.given import Given, as_heads, as_rows, nothing
from relpos.conformance.peers.record import Peer


class AtScaleOne(torch.nn.Module):
    """`RelativePositionBias` with the scale of the bias at 1."""

    def __init__(self, num_heads, num_buckets, max_distance, bidirectional):
        super().__init__()
        self.bias = RelativePositionBias(1, not bidirectional, num_buckets, max_distance, num_heads)

    def forward(self, query_length, key_length):
        """[H, Lq, Lk], the queries at the end."""
        return self.bias(query_length, key_length)


def encoder(q, k, v, table, num_buckets, max_distance):
    """The attention layer of an encoder, with its own position bias."""
    return _attention(q, k, v, table, num_buckets, max_distance, causal=False)


def encoder_divided(q, k, v, table, num_buckets, max_distance):
    """The same with the table divided by √D on the way in."""
    return _attention(q, k, v, table / q.shape[3] ** 0.5, num_buckets, max_distance, causal=False)


def padded_encoder(q, k, v, padding_mask, table, num_buckets, max_distance):
    """Divided as well, and told which tokens are padding."""
    return _attention(q, k, v, table / q.shape[3] ** 0.5, num_buckets, max_distance, causal=False, mask=padding_mask)


def decoder_divided(q, k, v, table, num_buckets, max_distance):
    """The last Lq queries of a decoder whose other keys are in the cache, with the table divided by √D."""
    past, table = k.shape[2] - q.shape[2], table / q.shape[3] ** 0.5
    cache = Intermediates(cached_kv=(k[:, :, :past], v[:, :, :past])) if past else None
    return _attention(q, k[:, :, past:], v[:, :, past:], table, num_buckets, max_distance, causal=True, cache=cache)


def _attention(q, k, v, table, num_buckets, max_distance, *, causal, **options):
    """Attention of `AttentionLayers` with one layer, whose bias looks up the given table."""
    sizes: dict[str, Any] = {"rel_pos_num_buckets": num_buckets, "rel_pos_max_distance": max_distance}
    layers = one_layer(q.shape[1], q.shape[3], causal, rel_pos_bias=True, **sizes)
    return through(layers, q, k, v, rel_pos=looking_up(layers, table), **options)


def one_layer(H, D, causal, **options) -> Any:
    """`AttentionLayers` that are one attention layer, to be fed by `through`."""
    layers: Any = AttentionLayers(
        dim=H * D, custom_layers=("a",), depth=1, heads=H, attn_dim_head=D, causal=causal, **options
    ).eval()
    layers.layers[0][1].to_out = torch.nn.Identity()
    return layers


def through(layers, q, k, v, **options) -> Any:
    """The output [B, H, Lq, D] that the layer makes of q, k and v in place of projections."""
    attention = layers.layers[0][1]
    attention.to_q, attention.to_k, attention.to_v = (Given(as_rows(x)) for x in (q, k, v))
    return as_heads(attention(nothing(q), **options), q)


def looking_up(layers, table) -> Any:
    """The layers' own position bias with the given table in place of theirs."""
    return lambda i, j: torch.func.functional_call(layers.rel_pos, {"relative_attention_bias.weight": table}, (i, j))


HERE = "relpos.conformance.peers.x_transformers_t5"
X: dict[str, Any] = {"package": "x-transformers", "version": "2.31.10", "scheme": "t5"}
ITSELF: dict[str, Any] = {"implementation": f"{HERE}:AtScaleOne", "claims": {"corner": "bottom-right"}}
ENCODER: dict[str, Any] = {"bidirectional": True, "score_scale": "inverse_sqrt"}
DECODER: dict[str, Any] = {"bidirectional": False, "score_scale": "inverse_sqrt"}
USUAL: dict[str, Any] = {"num_buckets": 32, "max_distance": 128}

TIMES_ROOT = Deviation(
    name="bias multiplied by √d",
    law="L29",
    says="the bias is multiplied by √D",
    also=("L1", "L11", "L12", "L18", "L20", "L26", "L25"),
    reason="`AttentionLayers` makes the bias with scale=√dim_head; q·k is multiplied by 1/√dim_head and the bias by √dim_head.",
    bound="A factor √D on the bias: training learns it away, a table taken from elsewhere must be divided by √D.",
    witness='{"settings":{"num_heads":1,"bidirectional":true,"score_scale":"inverse_sqrt","num_buckets":32,"max_distance":128},'
    '"query_length":3,"key_length":3,"head_dim":4}',
)
MORE_BUCKETS = Deviation(
    name="more buckets than max_distance raises",
    law="L26",
    says="number of relative position buckets must be less than the relative position max distance",
    also=("L1", "L4", "L11", "L12", "L16", "L18", "L20", "L21", "L28", "L29"),
    reason="`AttentionLayers` asserts rel_pos_num_buckets ≤ rel_pos_max_distance; `RelativePositionBias` itself takes any.",
    bound="Raises for settings that T5 has a meaning for, such as 32 buckets to distance 20; right wherever it runs.",
    witness='{"settings":{"num_heads":1,"bidirectional":true,"score_scale":"inverse_sqrt","max_distance":20}}',
)

PEERS = (
    Peer(**X, **ITSELF, name="x-transformers/t5 bias, both ways", settings={"bidirectional": True}),
    Peer(**X, **ITSELF, name="x-transformers/t5 bias, one way", settings={"bidirectional": False}),
    Peer(
        **X,
        name="x-transformers/t5 encoder",
        implementation=f"{HERE}:encoder",
        settings={**ENCODER, **USUAL},
        claims={"level": "attention"},
        deviations=(TIMES_ROOT,),
    ),
    Peer(
        **X,
        name="x-transformers/t5 encoder, table/√D",
        implementation=f"{HERE}:encoder_divided",
        settings={**ENCODER, **USUAL},
        claims={"level": "attention"},
        note="the table divided by √D on the way in is what a port of T5 has to do",
    ),
    Peer(
        **X,
        name="x-transformers/t5 decoder, table/√D",
        implementation=f"{HERE}:decoder_divided",
        settings={**DECODER, **USUAL},
        claims={"level": "attention", "corner": "bottom-right", "softmax": "causal"},
    ),
    Peer(
        **X,
        name="x-transformers/t5 encoder, any table",
        implementation=f"{HERE}:encoder_divided",
        settings=ENCODER,
        claims={"level": "attention"},
        deviations=(MORE_BUCKETS,),
    ),
    Peer(
        **X,
        name="x-transformers/t5 encoder, padded",
        implementation=f"{HERE}:padded_encoder",
        settings={**ENCODER, **USUAL},
        claims={"level": "attention"},
        note="leaves 0 at padding itself, which nobody reads",
    ),
)
