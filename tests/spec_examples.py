"""Settings of every scheme and named variant, and inputs for them, shared by the tests of the definitions."""

from typing import Any

import numpy as np

from relpos.spec.alibi import ALiBi
from relpos.spec.clipped import Clipped
from relpos.spec.deberta import DeBERTa
from relpos.spec.learned import Learned
from relpos.spec.music_transformer import MusicTransformer
from relpos.spec.none import NoPE
from relpos.spec.rope import RoPE
from relpos.spec.shaw import Shaw
from relpos.spec.sinusoidal import Sinusoidal
from relpos.spec.t5 import T5
from relpos.spec.transformer_xl import TransformerXL
from relpos.spec.xpos import XPos

H, D, REACH = 6, 4, 40
EXAMPLES = (
    NoPE(),
    *(Sinusoidal(D, layout=layout) for layout in ("interleaved", "halves", "t2t")),
    *(RoPE(D, layout=layout) for layout in ("interleaved", "half")),
    RoPE(D, rotary_dim=2),
    RoPE(D, rotary_dim=2, layout="half", partial="proportional"),
    RoPE(D, scaling="dynamic", factor=2.0, max_position=4),
    RoPE(D, scaling="yarn", factor=4.0, original_max_position=512),
    XPos(D, scale_base=16.0),
    *(ALiBi(H, distance=distance) for distance in ("symmetric", "causal", "key_only", "half_half")),
    ALiBi(H, slope_rule="geometric", scale_bias=True),
    ALiBi(H, num_biased_heads=2),
    *(Shaw(D, 2, tables=tables) for tables in ("separate", "tied")),
    *(Shaw(D, REACH, tables=tables) for tables in ("relative_key", "relative_key_query")),
    Shaw(D, 2, sign="query_minus_key"),
    *(T5(H, 8, 20, bidirectional=way) for way in (True, False)),
    T5(H, 9, 5, score_scale="inverse_sqrt", sign="query_minus_key"),
    T5(H, cross_attention=True),
    *(Clipped(H, 2, directions=ways, beyond=beyond) for ways in ("both", "past", "symmetric") for beyond in ("repeat", "zero")),
    Clipped(H, 0, heads="shared", sign="key_minus_query"),
    *(MusicTransformer(H, D, 3, variant=variant, value_term="every") for variant in ("masked", "unmasked", "local")),
    MusicTransformer(H, D, 8, variant="local", per_head=False, value_term="not_first_block"),
    *(TransformerXL(H, D, variant=name, d_model=4) for name in ("transformer_xl", "bidirectional", "xlnet")),
    TransformerXL(H, D, variant="learned", max_distance=3),
    TransformerXL(H, D, d_model=2, clamp_len=2, memory_length=2, same_length=True),
    TransformerXL(H, D, variant="xlnet", d_model=2, clamp_len=1, memory_length=1, segment_length=2),
    *(Learned(D, REACH, first_row=first) for first in (0, 2)),
    *(DeBERTa(H, D, 2, terms=terms) for terms in ("both", "c2p", "p2c")),
    DeBERTa(H, D, 2, indices="paper"),
    DeBERTa(H, D, 4, version="v2"),
    DeBERTa(H, D, 4, version="v2", num_buckets=3, clamp=True, indices="paper"),
)


def label(settings: Any) -> str:
    return repr(settings).replace(" ", "")


def drawn_params(settings: Any, rng: np.random.Generator) -> dict[str, np.ndarray]:
    return {name: rng.standard_normal(shape) for name, shape in settings.parameters().items()}


def drawn_qkv(
    rng: np.random.Generator, *, B: int = 2, Hkv: int = H, Lq: int = 3, Lk: int = 5
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """q [B, H, Lq, D], k and v [B, Hkv, Lk, D]."""
    return rng.standard_normal((B, H, Lq, D)), rng.standard_normal((B, Hkv, Lk, D)), rng.standard_normal((B, Hkv, Lk, D))
