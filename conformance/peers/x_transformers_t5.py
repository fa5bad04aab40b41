"""x-transformers' T5 bias: `RelativePositionBias`, and the attention that `AttentionLayers(rel_pos_bias=True)` makes of it."""

from typing import Any

import torch
from x_transformers.attend import Intermediates  # type: ignore[import-not-found]
from x_transformers.x_transformers import AttentionLayers, RelativePositionBias  # type: ignore[import-not-found]

from relpos.conformance.peers.record import Deviation, Peer


class AtScaleOne(torch.nn.Module):
    """`RelativePositionBias` with the scale of the bias at 1."""

    def __init__(self, num_heads, num_buckets, max_distance, bidirectional):
        super().__init__()
        self.bias = RelativePositionBias(1, not bidirectional, num_buckets, max_distance, num_heads)

    def forward(self, query_length, key_length):
        """[H, Lq, Lk], the queries at the end."""
        return self.bias(query_length, key_length)


def encoder(q, k, v, padding_mask, table, num_buckets, max_distance):
    """The attention layer of an encoder, with its own position bias."""
    layers = _layers(q, table, num_buckets, max_distance, causal=False)
    return _attention(layers, q, k, v, mask=padding_mask)


def encoder_divided(q, k, v, padding_mask, table, num_buckets, max_distance):
    """The same with the table divided by √D on the way in."""
    return encoder(q, k, v, padding_mask, table / q.shape[3] ** 0.5, num_buckets, max_distance)


def decoder_divided(q, k, v, table, num_buckets, max_distance):
    """The last Lq queries of a decoder whose other keys are in the cache, with the table divided by √D."""
    layers = _layers(q, table / q.shape[3] ** 0.5, num_buckets, max_distance, causal=True)
    past = k.shape[2] - q.shape[2]
    cache = Intermediates(cached_kv=(k[:, :, :past], v[:, :, :past])) if past else None
    return _attention(layers, q, k[:, :, past:], v[:, :, past:], cache=cache)


class Given(torch.nn.Module):
    """Stands where a projection of the hidden state stood."""

    def __init__(self, rows: torch.Tensor) -> None:
        super().__init__()
        self.rows = rows

    def forward(self, hidden_states):
        del hidden_states
        return self.rows


def _layers(q, table, num_buckets, max_distance, *, causal) -> Any:
    """`AttentionLayers` of one attention layer, whose bias looks up the given table."""
    H, D = q.shape[1], q.shape[3]
    layers: Any = AttentionLayers(
        dim=H * D, custom_layers=("a",), depth=1, heads=H, attn_dim_head=D, causal=causal,
        rel_pos_bias=True, rel_pos_num_buckets=num_buckets, rel_pos_max_distance=max_distance,
    ).eval()  # fmt: skip
    looked_up = layers.rel_pos.relative_attention_bias
    del looked_up.weight
    looked_up.weight = table
    return layers


def _attention(layers, q, k, v, **options):
    B, H, Lq, D = q.shape
    attention = layers.layers[0][1]
    attention.to_q, attention.to_k, attention.to_v = (Given(x.transpose(1, 2).flatten(2)) for x in (q, k, v))
    attention.to_out = torch.nn.Identity()
    out = attention(q.new_zeros(B, Lq, H * D), rel_pos=layers.rel_pos, **options)
    return out.view(B, Lq, H, D).transpose(1, 2)


HERE = "relpos.conformance.peers.x_transformers_t5"
X: dict[str, Any] = {"package": "x-transformers", "version": "2.31.10", "scheme": "t5"}
ENCODES: dict[str, Any] = {"bidirectional": True, "score_scale": "inverse_sqrt"}
DECODES: dict[str, Any] = {"bidirectional": False, "score_scale": "inverse_sqrt"}

PEERS = (
    Peer(
        **X,
        name="x-transformers/t5 bias, both ways",
        implementation=f"{HERE}:AtScaleOne",
        settings={"bidirectional": True},
        claims={"corner": "bottom-right"},
    ),
    Peer(
        **X,
        name="x-transformers/t5 bias, one way",
        implementation=f"{HERE}:AtScaleOne",
        settings={"bidirectional": False},
        claims={"corner": "bottom-right"},
    ),
    Peer(
        **X, name="x-transformers/t5 encoder", implementation=f"{HERE}:encoder", settings=ENCODES, claims={"level": "attention"}
    ),
    Peer(
        **X,
        name="x-transformers/t5 encoder, table/√D",
        implementation=f"{HERE}:encoder_divided",
        settings=ENCODES,
        claims={"level": "attention"},
    ),
    Peer(
        **X,
        name="x-transformers/t5 decoder, table/√D",
        implementation=f"{HERE}:decoder_divided",
        settings=DECODES,
        claims={"level": "attention", "corner": "bottom-right", "softmax": "causal"},
    ),
)
