"""x-transformers: one attention layer of `AttentionLayers`, with ALiBi, ALiBi in its flash path, the T5 bias, or rotary."""

from importlib.metadata import version
from typing import Any

from loguru import logger  # type: ignore[import-not-found]
from x_transformers.x_transformers import RotaryEmbedding  # type: ignore[import-not-found]

from relpos.conformance.peers.x_transformers_t5 import looking_up, one_layer, through
from relpos.perf.point import Variant

logger.disable("x_transformers")  # it has advice at every small width that the judge tries


class Layer:
    """The layers of a model, built once for a width and direction."""

    options: dict[str, Any] = {}  # noqa: RUF012

    def __init__(self):
        self.layers: dict[Any, Any] = {}

    def __call__(self, q, k, v, causal):
        """q, k, v [B, H, L, D]; the output [B, H, L, D]."""
        return self.attention(q, k, v, causal)

    def attention(self, q, k, v, causal, **options):
        """With the position scheme of the layers, or the one in `options`."""
        layers = self.built(q.shape[1], q.shape[3], causal)
        return through(layers, q, k, v, **{"rel_pos": layers.rel_pos, **options})

    def built(self, H, D, causal):
        """Layers of a width."""
        if (H, D, causal) not in self.layers:
            self.layers[H, D, causal] = one_layer(H, D, causal, **self.options)
        return self.layers[H, D, causal]


class Alibi(Layer):
    """alibi_pos_bias=True."""

    options = {"alibi_pos_bias": True}  # noqa: RUF012


class AlibiFlash(Layer):
    """The same with attn_flash=True."""

    options = {"alibi_pos_bias": True, "attn_flash": True}  # noqa: RUF012


class T5(Layer):
    """rel_pos_bias=True, which multiplies the table by √D: it is divided on the way in."""

    def __init__(self, num_buckets, max_distance):
        super().__init__()
        self.options = {"rel_pos_bias": True, "rel_pos_num_buckets": num_buckets, "rel_pos_max_distance": max_distance}

    def __call__(self, q, k, v, table):
        """q, k, v [B, H, L, D], table [num_buckets, H]; the output [B, H, L, D]."""
        rel_pos = looking_up(self.built(q.shape[1], q.shape[3], self.causal), table / q.shape[3] ** 0.5)
        return self.attention(q, k, v, self.causal, rel_pos=rel_pos)

    causal = False


class T5Decoder(T5):
    """Of a decoder."""

    causal = True


class RotaryFlash(Layer):
    """`RotaryEmbedding` of a head's width before the flash path; angles made once per call."""

    options = {"attn_flash": True}  # noqa: RUF012

    def __init__(self, head_dim, base):
        super().__init__()
        self.rotary = RotaryEmbedding(dim=head_dim, base=base)

    def __call__(self, q, k, v, causal):
        """q, k, v [B, H, L, D]; the output [B, H, L, D]."""
        angles = self.rotary.forward_from_seq_len(q.shape[2])
        return self.attention(q, k, v, causal, rotary_pos_emb=angles)


def _peer(label: str, layer: type[Layer], *more: tuple[str, Any], **settings: Any) -> Variant:
    claims = (("level", "attention"), ("positions", "contiguous"), *more)
    origin, spec = f"x-transformers {version('x-transformers')}", f"{__name__}:{layer.__name__}"
    given = tuple(settings.items())
    return Variant(label=label, spec=spec, scheme=label.split("/")[0], settings=given, claims=claims, origin=origin)


T5_SIZES: dict[str, Any] = {"num_buckets": 32, "max_distance": 128, "score_scale": "inverse_sqrt"}

PEERS = (
    _peer("alibi/x-transformers", Alibi),
    _peer("alibi/x-transformers-flash", AlibiFlash),
    _peer("t5/x-transformers", T5, bidirectional=True, **T5_SIZES),
    _peer("t5/x-transformers-decoder", T5Decoder, ("softmax", "causal"), bidirectional=False, **T5_SIZES),
    _peer("rope/x-transformers-flash", RotaryFlash, head_dim=64),  # width 2 raises, which no model has
)
