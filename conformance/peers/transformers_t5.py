"""T5 in transformers: the bias of `T5Attention.compute_bias`, and the attention that `T5Stack` makes of it, eager and SDPA."""

from dataclasses import replace
from typing import Any

import torch
from transformers import T5Config  # type: ignore[import-not-found]
from transformers.models.t5.modeling_t5 import T5Attention, T5Stack  # type: ignore[import-not-found]

from relpos.conformance.deviations import Deviation
from relpos.conformance.peers.given import Given, as_heads, as_rows, nothing
from relpos.conformance.peers.record import Peer


class Bias(torch.nn.Module):
    """`T5Attention` with its own table, asked for the bias alone, as cached decoding asks for it."""

    def __init__(self, num_heads, num_buckets, max_distance, bidirectional):
        super().__init__()
        config = configured(num_heads, 1, num_buckets, max_distance, bidirectional)
        self.attention = T5Attention(config, has_relative_attention_bias=True, layer_idx=0)
        _bare(self.attention)

    def forward(self, query_length, key_length, offset):
        """[1, H, Lq, Lk] with the first query at position `offset`."""
        return self.attention.compute_bias(query_length, key_length, past_seen_tokens=offset)[0]


def encoder_eager(q, k, v, padding_mask, table, num_buckets, max_distance):
    """An encoder layer with attn_implementation="eager"."""
    return _encoded(q, k, v, padding_mask, table, num_buckets, max_distance, "eager")


def encoder_sdpa(q, k, v, padding_mask, table, num_buckets, max_distance):
    """The same with attn_implementation="sdpa", which is the default."""
    return _encoded(q, k, v, padding_mask, table, num_buckets, max_distance, "sdpa")


def cross_attention(q, k, v):
    """The layer between decoder and encoder: queries of one, keys and values of the other, no table."""
    layer = T5Attention(configured(q.shape[1], q.shape[3], 32, 128, False), layer_idx=0).eval()
    _feed(layer, q, k, v)
    return as_heads(layer(nothing(q), key_value_states=nothing(k))[0], q)


class Decoder:
    """A decoder layer with attn_implementation="eager" and the cache that `generate` keeps."""

    attn_implementation = "eager"

    def __init__(self, table, num_buckets, max_distance):
        self.made = table, num_buckets, max_distance
        self.stack = self.cache = None

    @torch.no_grad()
    def step(self, q, k, v):
        """Outputs of the new tokens, [B, H, n, D]."""
        if self.stack is None:
            table, num_buckets, max_distance = self.made
            config = configured(q.shape[1], q.shape[3], num_buckets, max_distance, False, self.attn_implementation)
            self.stack = one_layer(config, table)
        out = through(self.stack, q, k, v, cache=self.cache, use_cache=True)
        self.cache = out.cache
        return as_heads(out.last_hidden_state, q)


class DecoderSDPA(Decoder):
    """The same with attn_implementation="sdpa", which is the default."""

    attn_implementation = "sdpa"


def decoder(q, k, v, table, num_buckets, max_distance):
    """The last Lq queries of a decoder whose other keys are in the cache, by the default attn_implementation."""
    config = configured(q.shape[1], q.shape[3], num_buckets, max_distance, False, "sdpa")
    stack, past, cache = one_layer(config, table), k.shape[2] - q.shape[2], None
    if past:
        old = k[:, :, :past]
        cache = through(stack, old, old, v[:, :, :past], use_cache=True).cache
    out = through(stack, q, k[:, :, past:], v[:, :, past:], cache=cache, use_cache=True)
    return as_heads(out.last_hidden_state, q)


class AttentionOnly(torch.nn.Module):
    """A block that is nothing but T5's self-attention."""

    def __init__(self, attention: torch.nn.Module) -> None:
        super().__init__()
        self.attention = attention

    def forward(self, hidden_states, attention_mask, position_bias, *cross, **from_stack):
        del cross
        out, bias, _ = self.attention(hidden_states, mask=attention_mask, position_bias=position_bias, **from_stack)
        return out, bias, None


def configured(H, D, num_buckets, max_distance, bidirectional, attn_implementation="eager") -> Any:
    """The configuration of one layer of such heads."""
    options: dict[str, Any] = {
        "vocab_size": 1, "d_model": H * D, "d_kv": D, "d_ff": 1, "num_layers": 1, "num_heads": H, "eos_token_id": 0,
        "relative_attention_num_buckets": num_buckets, "relative_attention_max_distance": max_distance,
        "is_decoder": not bidirectional, "use_cache": False, "attn_implementation": attn_implementation,
    }  # fmt: skip
    return T5Config(**options)


def _bare(attention: Any) -> None:
    attention.q = attention.k = attention.v = attention.o = torch.nn.Identity()


def one_layer(config, table) -> Any:
    """`T5Stack` of one block, which looks up the given table."""
    stack: Any = T5Stack(config).eval()
    layer = stack.block[0].layer[0].SelfAttention
    _bare(layer)
    del layer.relative_attention_bias.weight
    layer.relative_attention_bias.weight = table
    stack.block = torch.nn.ModuleList([AttentionOnly(layer)])
    stack.final_layer_norm = torch.nn.Identity()
    return stack.to(table.dtype)


def _feed(layer: Any, q, k, v) -> None:
    layer.q, layer.k, layer.v = (Given(as_rows(x)) for x in (q, k, v))
    layer.o = torch.nn.Identity()


def through(stack, q, k, v, **options) -> Any:
    """What the stack makes of q, k and v in place of projections."""
    _feed(stack.block[0].attention, q, k, v)
    return stack(inputs_embeds=nothing(q), **options)


def _encoded(q, k, v, padding_mask, table, num_buckets, max_distance, attn_implementation):
    config = configured(q.shape[1], q.shape[3], num_buckets, max_distance, True, attn_implementation)
    out = through(one_layer(config, table), q, k, v, attention_mask=padding_mask.long())
    return as_heads(out.last_hidden_state, q)


HERE = "relpos.conformance.peers.transformers_t5"
T5: dict[str, Any] = {"package": "transformers", "version": "5.24.0", "scheme": "t5"}
HALVES = ("float32", "bfloat16", "float16")
ENCODER, DECODER = {"bidirectional": True}, {"bidirectional": False}
ENCODES: dict[str, Any] = {"settings": ENCODER, "claims": {"level": "attention", "dtypes": HALVES[:2]}}
DECODES: dict[str, Any] = {"settings": DECODER, "claims": {"dtypes": HALVES[:2]}}
LARGE: dict[str, Any] = {"num_buckets": 320, "max_distance": 65536, "bidirectional": True}
TIGHT: dict[str, Any] = {"num_buckets": 17, "max_distance": 27, "bidirectional": False}

FLOAT32 = Deviation(
    name="float32 logarithm",
    law="L1",
    says="the bias differs from the definition",
    also=("L12",),
    reason="Buckets come from a float32 logarithm; a distance at or beside the edge of a bucket may be rounded across it.",
    bound="One bucket too far at distance 22032, right at every other up to 2^20; never wrong at 32/128.",
    witness='{"settings":{"num_heads":1,"num_buckets":320,"max_distance":65536,"bidirectional":true},"offset":22032}',
)
ON_THE_EDGE = replace(
    FLOAT32,
    law="L12",
    says=" head 0 reads row ",
    also=("L1", "L20", "L25"),
    bound="One bucket too near at distance 18 or 12, which lie on an edge exactly (18⁹ = 27⁶ · 8³, 12⁹ = 27³ · 8⁶): at which "
    "of them, and where in a vector, depends on the processor; right at every other up to 2^20.",
    witness='{"settings":{"num_heads":1,"num_buckets":17,"max_distance":27,"bidirectional":false},"key_length":37,'
    '"extra":{"reach":18,"start":0}}',
)

PEERS = (
    Peer(**T5, name="t5/bias of the encoder", implementation=f"{HERE}:Bias", settings=ENCODER, claims={"dtypes": HALVES}),
    Peer(**T5, name="t5/bias of the decoder", implementation=f"{HERE}:Bias", settings=DECODER, claims={"dtypes": HALVES}),
    Peer(**T5, **ENCODES, name="t5/encoder, eager", implementation=f"{HERE}:encoder_eager"),
    Peer(**T5, **ENCODES, name="t5/encoder, sdpa", implementation=f"{HERE}:encoder_sdpa"),
    Peer(
        **T5,
        name="t5/decoder, sdpa",
        implementation=f"{HERE}:decoder",
        settings=DECODER,
        claims={"level": "attention", "corner": "bottom-right", "softmax": "causal", "dtypes": HALVES[:2]},
    ),
    Peer(**T5, name="t5/cached decode, eager", implementation=f"{HERE}:Decoder", **DECODES),
    Peer(**T5, name="t5/cached decode, sdpa", implementation=f"{HERE}:DecoderSDPA", **DECODES),
    Peer(
        **T5,
        name="t5/cross-attention",
        implementation=f"{HERE}:cross_attention",
        settings={"cross_attention": True},
        claims={"level": "attention", "corner": "bottom-right"},
    ),
    Peer(**T5, name="t5/bias, 320 buckets to 65536", implementation=f"{HERE}:Bias", settings=LARGE, deviations=(FLOAT32,)),
    Peer(**T5, name="t5/bias, 17 buckets to 27", implementation=f"{HERE}:Bias", settings=TIGHT, deviations=(ON_THE_EDGE,)),
)
