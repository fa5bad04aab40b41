"""x-transformers' ALiBi: `AlibiPositionalBias`, called by lengths as its attention layers do, and by explicit positions."""

from typing import Any

from x_transformers.x_transformers import AlibiPositionalBias  # type: ignore[import-not-found]

from relpos.conformance.deviations import Deviation
from relpos.conformance.peers.record import Peer


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
    says="the answer is what the returned one was overwritten with",
    reason="The bias that is returned is the buffer that is kept (or a view of it): who writes into it changes later calls.",
    bound="Nothing, as long as nobody writes in place.",
    witness='{"settings":{"num_heads":1},"extra":{"steps":[{"do":"call"},{"do":"overwrite"},{"do":"call"}]}}',
)
UNSAVED = Deviation(
    name="slopes lost on the meta device",
    law="L23",
    says="built on the meta device",
    reason="slopes and bias are buffers that are not saved: after a meta-device load nothing restores them.",
    bound="Only models that are built on the meta device and filled from a state dict.",
    witness=(
        '{"settings":{"num_heads":3},"batch":2,"heads":3,"query_length":5,"key_length":7,"head_dim":8,"offset":2,"seed":1,'
        '"extra":{"way":"meta"}}'
    ),
)
NO_HEADS = Deviation(
    name="no biased head raises",
    law="L1",
    says="math domain error",
    also=("L2", "L3", "L4", "L6", "L10", "L11", "L26", "L28", "L30"),
    reason="heads=0 takes the logarithm of 0; no refusal by name.",
    bound="At heads=0 alone.",
    witness='{"settings":{"num_heads":1,"num_biased_heads":0},"query_positions":[0],"key_positions":[0]}',
)

PEERS = (
    Peer(**X, **ITSELF, name="x-transformers/alibi by length", deviations=(ALIAS, UNSAVED), note="its own class, no adapter"),
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
