"""T5 of transformers: an attention layer of `T5Stack`, its bias made at every call, eager and SDPA, encoder and decoder."""

from importlib.metadata import version
from typing import Any

from relpos.conformance.peers.given import as_heads
from relpos.conformance.peers.transformers_t5 import configured, one_layer, through
from relpos.perf.point import Variant


class Layer:
    """A stack of one attention layer, built once for a width."""

    bidirectional, attn_implementation = True, "eager"

    def __init__(self, num_buckets, max_distance):
        self.sizes = num_buckets, max_distance
        self.stacks: dict[Any, Any] = {}

    def __call__(self, q, k, v, table):
        """q, k, v [B, H, L, D], table [num_buckets, H]; the output [B, H, L, D]."""
        made = q.shape[1], q.shape[3], q.dtype
        if made not in self.stacks:
            config = configured(q.shape[1], q.shape[3], *self.sizes, self.bidirectional, self.attn_implementation)
            self.stacks[made] = one_layer(config, table)
        stack = self.stacks[made]
        stack.block[0].attention.relative_attention_bias.weight = table
        return as_heads(through(stack, q, k, v).last_hidden_state, q)


class LayerSDPA(Layer):
    """The same with attn_implementation="sdpa", which is the default."""

    attn_implementation = "sdpa"


class DecoderLayer(Layer):
    """Of a decoder."""

    bidirectional = False


class DecoderLayerSDPA(LayerSDPA):
    """Of a decoder, SDPA."""

    bidirectional = False


def _peer(name: str, layer: type[Layer]) -> Variant:
    causal = () if layer.bidirectional else (("softmax", "causal"),)
    claims = (("level", "attention"), ("positions", "contiguous"), ("dtypes", ("float32", "bfloat16")), *causal)
    settings = (("bidirectional", layer.bidirectional),)
    origin, spec = f"transformers {version('transformers')}", f"{__name__}:{layer.__name__}"
    return Variant(label=f"t5/{name}", spec=spec, scheme="t5", settings=settings, claims=claims, origin=origin)


PEERS = (
    _peer("transformers-eager", Layer),
    _peer("transformers-sdpa", LayerSDPA),
    _peer("transformers-decoder-eager", DecoderLayer),
    _peer("transformers-decoder-sdpa", DecoderLayerSDPA),
)
