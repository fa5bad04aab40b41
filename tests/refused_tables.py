"""Settings of schemes with learned tables of numbers that mean nothing, and the words in which they are refused."""

from relpos.spec.clipped import Clipped
from relpos.spec.t5 import T5

EXPLAINED = "The module's docstring explains each."

REFUSED_TABLES = [
    (T5, {"num_heads": 0}, "t5: `num_heads` must be at least 1, got 0."),
    (
        T5,
        {"num_heads": 2, "num_buckets": 3},
        "t5: `num_buckets` must be at least 4 (both ways), got 3. Fewer leave no exact bucket.",
    ),
    (
        T5,
        {"num_heads": 2, "num_buckets": 1, "bidirectional": False},
        "t5: `num_buckets` must be at least 2 (one way), got 1. Fewer leave no exact bucket.",
    ),
    (
        T5,
        {"num_heads": 2, "max_distance": 8},
        "t5: `max_distance` must be more than the exact range, 8, got 8. "
        "Public code then gives descending or negative buckets.",
    ),
    (T5, {"num_heads": 2, "bidirectional": 1}, "t5: `bidirectional` must be True or False, got 1."),
    (
        T5,
        {"num_heads": 2, "score_scale": 1.0},
        f"t5: `score_scale` must be one of 'none', 'inverse_sqrt', got 1.0. {EXPLAINED}",
    ),
    (
        T5,
        {"num_heads": 2, "sign": "i-j"},
        f"t5: `sign` must be one of 'key_minus_query', 'query_minus_key', got 'i-j'. {EXPLAINED}",
    ),
    (T5, {"num_heads": 2, "cross_attention": None}, "t5: `cross_attention` must be True or False, got None."),
    (Clipped, {"num_heads": 0, "max_distance": 2}, "clipped: `num_heads` must be at least 1, got 0."),
    (
        Clipped,
        {"num_heads": 2, "max_distance": -1},
        "clipped: `max_distance` must be 0 or more, got -1. 0 leaves one number per head.",
    ),
    (
        Clipped,
        {"num_heads": 2, "max_distance": 2, "heads": "all"},
        f"clipped: `heads` must be one of 'own', 'shared', got 'all'. {EXPLAINED}",
    ),
    (
        Clipped,
        {"num_heads": 2, "max_distance": 2, "sign": 1},
        f"clipped: `sign` must be one of 'query_minus_key', 'key_minus_query', got 1. {EXPLAINED}",
    ),
    (
        Clipped,
        {"num_heads": 2, "max_distance": 2, "sign": "key_minus_query", "directions": "past"},
        "clipped: `sign` must be left at its default unless directions=\"both\", got 'key_minus_query'. "
        "Rows by distance have no order to reverse.",
    ),
    (
        Clipped,
        {"num_heads": 2, "max_distance": 2, "directions": "future"},
        f"clipped: `directions` must be one of 'both', 'past', 'symmetric', got 'future'. {EXPLAINED}",
    ),
    (
        Clipped,
        {"num_heads": 2, "max_distance": 2, "beyond": "wrap"},
        f"clipped: `beyond` must be one of 'repeat', 'zero', got 'wrap'. {EXPLAINED}",
    ),
]
