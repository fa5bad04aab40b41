"""x-transformers' ALiBi: `AlibiPositionalBias`, called by lengths as its attention layers do, and by explicit positions."""

from typing import Any

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
X: dict[str, Any] = {"package": "x-transformers", "version": "2.31.10", "scheme": "alibi"}
ITSELF: dict[str, Any] = {
    "implementation": "x_transformers.x_transformers:AlibiPositionalBias",
    "claims": {"rename": {"heads": "num_heads", "i": "query_length", "j": "key_length"}, "corner": "bottom-right"},
}

ALIAS = Deviation(
    name="returns its cache",
    law="L4",
    says="after its result was overwritten, changes",
    reason="The bias that is returned is the buffer that is kept (or a view of it): who writes into it changes later calls.",
    bound="Nothing, as long as nobody writes in place.",
    witness='{"settings":{"num_heads":1},"extra":{"calls":["{\\"settings\\":{\\"num_heads\\":1}}"]}}',
)
NO_HEADS = Deviation(
    name="no biased head raises",
    law="L1",
    says="math domain error",
    also=("L2", "L3", "L4", "L6", "L10", "L11", "L26"),
    reason="heads=0 takes the logarithm of 0; no refusal by name.",
    bound="At heads=0 alone.",
    witness='{"settings":{"num_heads":1,"num_biased_heads":0},"query_positions":[0],"key_positions":[0]}',
)

PEERS = (
    Peer(**X, **ITSELF, name="x-transformers/alibi by length", deviations=(ALIAS,), note="its own class, no adapter"),
    Peer(
        **X,
        name="x-transformers/alibi by position",
        implementation=f"{HERE}:ByPositionsAllHeads",
        claims={"positions": "per_row"},
    ),
    Peer(
        **X,
        name="x-transformers/alibi, 3 of 5 heads",
        implementation=f"{HERE}:ByPositions",
        settings={"num_heads": 5, "num_biased_heads": 3},
        claims={"positions": "per_row"},
    ),
    Peer(
        **X,
        name="x-transformers/alibi, any heads",
        implementation=f"{HERE}:ByPositions",
        claims={"positions": "per_row"},
        deviations=(NO_HEADS,),
    ),
)
