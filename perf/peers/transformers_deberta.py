"""DeBERTa-v2 of transformers: an encoder of one attention layer, c2p and p2c gathered at every call; eager is all it has.

With the buckets of the released models, and without them, as ours are measured by default. It has no causal mask.
"""

from importlib.metadata import version
from typing import Any

import torch
from transformers import DebertaV2Config  # type: ignore[import-not-found]
from transformers.models.deberta_v2.modeling_deberta_v2 import (  # type: ignore[import-not-found]
    DebertaV2Encoder,
    DisentangledSelfAttention,
)

from relpos.conformance.peers.given import Given, as_heads, as_rows, nothing
from relpos.perf.point import Variant

NO_BUCKETS = -1
# Inside autocast it raises: scores of half precision are masked with the least number of float32. bfloat16 itself is right.
NO_AUTOCAST = "L18"
# What the definition says of its buckets, in whole numbers, takes minutes for all pairs of the 1025 that L25 tries.
TOO_LONG = "L20", "L25"


class Layer:
    """An encoder of one attention layer, built once for a width; distances are clipped."""

    def __init__(self, max_distance):
        self.max_distance = max_distance
        self.encoders: dict[Any, Any] = {}

    @property
    def num_buckets(self):
        """As the configuration has it."""
        return NO_BUCKETS

    def __call__(self, q, k, v, pos_key, pos_query):
        """q, k, v [B, H, L, D], tables [H, rows, D]; the output [B, H, L, D]."""
        made = q.shape[1], q.shape[3]
        if made not in self.encoders:
            with torch.inference_mode(False):  # what is kept outlives a call under it
                self.encoders[made] = one_layer(*made, self.max_distance, self.num_buckets)
        encoder = self.encoders[made]
        attention = encoder.layer[0].attention
        attention.query_proj, attention.key_proj, attention.value_proj = (Given(as_rows(x)) for x in (q, k, v))
        attention.pos_key_proj, attention.pos_query_proj = (Given(as_rows(x[None])) for x in (pos_key, pos_query))
        seen = torch.ones(q.shape[0], q.shape[2], device=q.device)
        return as_heads(encoder(nothing(q), seen, output_hidden_states=False).last_hidden_state, q)


class Bucketed(Layer):
    """The same with half as many logarithmic buckets, 256 of 512 in the releases."""

    @property
    def num_buckets(self):
        """As the configuration has it."""
        return self.max_distance // 2


class AttentionOnly(torch.nn.Module):
    """A layer that is nothing but disentangled attention."""

    def __init__(self, attention: torch.nn.Module) -> None:
        super().__init__()
        self.attention = attention

    def forward(self, hidden_states, attention_mask, **from_encoder):
        return self.attention(hidden_states, attention_mask, **from_encoder)


def one_layer(H, D, max_distance, num_buckets) -> Any:
    """An encoder that is one attention layer."""
    options: dict[str, Any] = {
        "vocab_size": 1, "hidden_size": H * D, "num_attention_heads": H, "num_hidden_layers": 0, "relative_attention": True,
        "max_relative_positions": max_distance, "position_buckets": num_buckets, "pos_att_type": ["p2c", "c2p"],
        "share_att_key": False, "pad_token_id": 0,
    }  # fmt: skip
    config = DebertaV2Config(**options)
    encoder: Any = DebertaV2Encoder(config)
    encoder.layer.append(AttentionOnly(DisentangledSelfAttention(config)))
    return encoder.eval()


def _peer(name: str, layer: type[Layer], unclaimed: tuple[str, ...], **settings: Any) -> Variant:
    claims: tuple[tuple[str, Any], ...] = (
        ("level", "attention"), ("positions", "contiguous"), ("dtypes", ("float32", "bfloat16")), ("unclaimed", unclaimed),
    )  # fmt: skip
    origin, spec = f"transformers {version('transformers')}", f"{__name__}:{layer.__name__}"
    given = tuple(settings.items())
    return Variant(label=f"deberta/{name}", spec=spec, scheme="deberta", settings=given, claims=claims, origin=origin)


PEERS = (
    _peer("transformers-v2", Bucketed, (NO_AUTOCAST, *TOO_LONG), version="v2", max_distance=512, num_buckets=None),
    _peer("transformers-v2-clipped", Layer, (NO_AUTOCAST,), version="v1"),
)
