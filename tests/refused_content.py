"""Settings of the content-dependent schemes without a meaning, and the words they are refused in."""

from relpos.spec.music_transformer import MusicTransformer
from relpos.spec.transformer_xl import TransformerXL

EXPLAINED = "The module's docstring explains each."
LOCAL = 'except under variant="local", got '
MUSIC = {"num_heads": 2, "head_dim": 4, "max_distance": 3}
XL = {"num_heads": 3, "head_dim": 4}
EVEN = "transformer_xl: `d_model` must be even and at least 2"
REMEMBERED = "Say how many tokens before are remembered."

REFUSED_CONTENT = [
    (MusicTransformer, {**MUSIC, "num_heads": 0}, "music_transformer: `num_heads` must be at least 1, got 0."),
    (MusicTransformer, {**MUSIC, "head_dim": 0}, "music_transformer: `head_dim` must be at least 1, got 0."),
    (MusicTransformer, {**MUSIC, "max_distance": 0}, "music_transformer: `max_distance` must be at least 1, got 0."),
    (
        MusicTransformer,
        {**MUSIC, "variant": "causal"},
        f"music_transformer: `variant` must be one of 'masked', 'unmasked', 'local', got 'causal'. {EXPLAINED}",
    ),
    (MusicTransformer, {**MUSIC, "per_head": 1}, "music_transformer: `per_head` must be True or False, got 1."),
    (MusicTransformer, {**MUSIC, "block_length": 2}, f"music_transformer: `block_length` must be None {LOCAL}2."),
    (
        MusicTransformer,
        {**MUSIC, "variant": "local", "block_length": 0},
        "music_transformer: `block_length` must be at least 1, or None, got 0.",
    ),
    (
        MusicTransformer,
        {**MUSIC, "value_term": "not_first_block"},
        f'music_transformer: `value_term` must be "none" or "every" {LOCAL}\'not_first_block\'. Other variants have no blocks.',
    ),
    (MusicTransformer, {**MUSIC, "value_dim": 0}, "music_transformer: `value_dim` must be at least 1, or None, got 0."),
    (TransformerXL, {**XL, "num_heads": 0}, "transformer_xl: `num_heads` must be at least 1, got 0."),
    (TransformerXL, {**XL, "head_dim": 0}, "transformer_xl: `head_dim` must be at least 1, got 0."),
    (
        TransformerXL,
        {**XL, "variant": "bi"},
        "transformer_xl: `variant` must be one of 'transformer_xl', 'learned', 'bidirectional', 'xlnet', got 'bi'. "
        f"{EXPLAINED}",
    ),
    (
        TransformerXL,
        {**XL, "d_model": 5},
        f"{EVEN}, or None for H·D = 12, got 5.",
    ),
    (
        TransformerXL,
        {**XL, "d_model": 0},
        f"{EVEN}, or None for H·D = 12, got 0.",
    ),
    (
        TransformerXL,
        {"num_heads": 3, "head_dim": 5},
        f"{EVEN}, or None for H·D = 15, got None.",
    ),
    (TransformerXL, {**XL, "max_distance": 0}, "transformer_xl: `max_distance` must be at least 1, got 0."),
    (TransformerXL, {**XL, "clamp_len": -1}, "transformer_xl: `clamp_len` must be at least 1, or None, got -1."),
    (
        TransformerXL,
        {**XL, "variant": "learned", "clamp_len": 2},
        'transformer_xl: `clamp_len` must be None under variant="learned", got 2. It has no clamp.',
    ),
    (TransformerXL, {**XL, "memory_length": -1}, "transformer_xl: `memory_length` must be at least 0, or None, got -1."),
    (
        TransformerXL,
        {**XL, "same_length": True},
        f"transformer_xl: `memory_length` must be given with same_length or segment_length, got None. {REMEMBERED}",
    ),
    (TransformerXL, {**XL, "segment_length": 0}, "transformer_xl: `segment_length` must be at least 1, or None, got 0."),
    (
        TransformerXL,
        {**XL, "same_length": True, "memory_length": 2, "segment_length": 2},
        "transformer_xl: `segment_length` must be None with same_length, got 2. Each says what is seen.",
    ),
    (TransformerXL, {**XL, "same_length": 1}, "transformer_xl: `same_length` must be True or False, got 1."),
]
