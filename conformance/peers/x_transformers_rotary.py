"""x-transformers' rotary: `RotaryEmbedding` with `apply_rotary_pos_emb`, pairs (2m, 2m + 1), the leading columns, xPos off."""

from typing import Any

from x_transformers.x_transformers import RotaryEmbedding, apply_rotary_pos_emb  # type: ignore[import-not-found]

from relpos.conformance.deviations import Deviation
from relpos.conformance.peers.record import Peer


class Rotary:
    """Angles of a rotary width, applied to queries or keys."""

    def __init__(self, head_dim, rotary_dim, base):
        self.embedding = RotaryEmbedding(dim=head_dim if rotary_dim is None else rotary_dim, base=base)

    def __call__(self, x, positions):
        """x [B, H, L, D] at its positions, [L] or [B, L]."""
        angles, scale = self.embedding(positions)
        return apply_rotary_pos_emb(x, angles, scale)


HERE = "relpos.conformance.peers.x_transformers_rotary"
X: dict[str, Any] = {"package": "x-transformers", "version": "2.31.10", "scheme": "rope", "implementation": f"{HERE}:Rotary"}
CLAIMS: dict[str, Any] = {"positions": "per_row", "dtypes": ("float32", "bfloat16", "float16")}

WIDTH_2 = Deviation(
    name="width 2 raises",
    law="L1",
    says="ZeroDivisionError",
    also=("L2", "L3", "L4", "L11", "L14", "L15", "L20", "L21", "L26", "L28"),
    reason="base_rescale_factor ** (dim / (dim − 2)) is computed even when the factor is 1.",
    bound="At rotary width 2 alone.",
    witness='{"settings":{"head_dim":2},"query_positions":[0],"key_positions":[0]}',
)

PEERS = (
    Peer(**X, name="x-transformers/rotary, any width", claims=CLAIMS, deviations=(WIDTH_2,)),
    Peer(**X, name="x-transformers/rotary, width 8", settings={"head_dim": 8, "rotary_dim": None}, claims=CLAIMS),
    Peer(**X, name="x-transformers/rotary, 4 of 10", settings={"head_dim": 10, "rotary_dim": 4}, claims=CLAIMS),
)
