"""x-transformers' ALiBi: `AlibiPositionalBias`, called by lengths as its attention layers do, and by explicit positions."""

from x_transformers.x_transformers import AlibiPositionalBias  # type: ignore[import-not-found]

from relpos.conformance.peers.record import Deviation, Peer


class ByPositions:
    """`forward_custom_pos`, with some heads of all biased."""

    def __init__(self, num_heads, num_biased_heads):
        biased = num_heads if num_biased_heads is None else num_biased_heads
        self.alibi = AlibiPositionalBias(heads=biased, total_heads=num_heads)

    def __call__(self, query_positions, key_positions):
        """Positions [L] or [B, L]; the bias [H, Lq, Lk] or [B, H, Lq, Lk]."""
        return self.alibi.forward_custom_pos(query_positions, key_positions)


class ByPositionsAllHeads:
    """`forward_custom_pos` with every head biased."""

    def __init__(self, num_heads):
        self.alibi = AlibiPositionalBias(heads=num_heads)

    def __call__(self, query_positions, key_positions):
        """Positions [L] or [B, L]; the bias [H, Lq, Lk] or [B, H, Lq, Lk]."""
        return self.alibi.forward_custom_pos(query_positions, key_positions)


HERE = "relpos.conformance.peers.x_transformers_alibi"
X = {"package": "x-transformers", "version": "2.31.10", "scheme": "alibi"}
ITSELF = {
    "implementation": "x_transformers.x_transformers:AlibiPositionalBias",
    "claims": {"rename": {"heads": "num_heads", "i": "query_length", "j": "key_length"}, "corner": "bottom-right"},
}

PEERS = (
    Peer(**X, **ITSELF, name="x-transformers/alibi by length"),
    Peer(**X, name="x-transformers/alibi by position", implementation=f"{HERE}:ByPositionsAllHeads", claims={"positions": "per_row"}),
    Peer(**X, name="x-transformers/alibi, some heads", implementation=f"{HERE}:ByPositions", claims={"positions": "per_row"}),
)
