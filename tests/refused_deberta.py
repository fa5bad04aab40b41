"""Settings of deberta and learned that mean nothing, and the words in which they are refused."""

from relpos.spec.deberta import DeBERTa
from relpos.spec.learned import Learned

EXPLAINED = "The module's docstring explains each."
WHOLE = "Convert it with int() where you build the settings."
SIZES = {"num_heads": 2, "head_dim": 4, "max_distance": 8}

REFUSED_DEBERTA = [
    (DeBERTa, {**SIZES, "num_heads": 0}, "deberta: `num_heads` must be at least 1, got 0."),
    (DeBERTa, {**SIZES, "head_dim": 0}, "deberta: `head_dim` must be at least 1, got 0."),
    (DeBERTa, {**SIZES, "max_distance": 0}, "deberta: `max_distance` must be at least 1, got 0."),
    (
        DeBERTa,
        {**SIZES, "max_distance": 3, "version": "v2", "num_buckets": 4},
        'deberta: `max_distance` must be at least 4 under version="v2" with 4 buckets, got 3. The logarithm would not rise.',
    ),
    (
        DeBERTa,
        {**SIZES, "terms": "p2p"},
        f"deberta: `terms` must be one of 'both', 'c2p', 'p2c', got 'p2p'. {EXPLAINED}",
    ),
    (
        DeBERTa,
        {**SIZES, "indices": "article"},
        f"deberta: `indices` must be one of 'code', 'paper', got 'article'. {EXPLAINED}",
    ),
    (DeBERTa, {**SIZES, "version": "v3"}, f"deberta: `version` must be one of 'v1', 'v2', got 'v3'. {EXPLAINED}"),
    (
        DeBERTa,
        {**SIZES, "num_buckets": 4},
        'deberta: `num_buckets` must be None under version="v1", got 4. Buckets are of version="v2".',
    ),
    (
        DeBERTa,
        {**SIZES, "version": "v2", "num_buckets": 1},
        "deberta: `num_buckets` must be at least 2, got 1. One distance at least must have a bucket of its own.",
    ),
    (
        DeBERTa,
        {**SIZES, "version": "v2", "num_buckets": -1},
        "deberta: `num_buckets` must be at least 2, got -1. One distance at least must have a bucket of its own.",
    ),
    (
        DeBERTa,
        {**SIZES, "clamp": True},
        'deberta: `clamp` must be False under version="v1", got True. Clipped distances are cut already.',
    ),
    (DeBERTa, {**SIZES, "share_att_key": 1}, "deberta: `share_att_key` must be True or False, got 1."),
    (Learned, {"embed_dim": 0, "max_position": 8}, "learned: `embed_dim` must be at least 1, got 0."),
    (Learned, {"embed_dim": 4, "max_position": 0}, "learned: `max_position` must be at least 1, got 0."),
    (Learned, {"embed_dim": 4, "max_position": 8.0}, f"learned: `max_position` must be a whole number, got 8.0. {WHOLE}"),
    (
        Learned,
        {"embed_dim": 4, "max_position": 8, "first_row": -1},
        "learned: `first_row` must be 0 or more, got -1. 2 is fairseq's padding_idx + 1.",
    ),
]
