"""rotary-embedding-torch: `RotaryEmbedding.rotate_queries_or_keys` with its cache of angles, told an offset; xPos off."""

from rotary_embedding_torch import RotaryEmbedding  # type: ignore[import-not-found]

from relpos.conformance.peers.record import Deviation, Peer


class Rotary:
    """One `RotaryEmbedding`, as a model keeps it."""

    def __init__(self, head_dim, rotary_dim, base):
        self.embedding = RotaryEmbedding(dim=head_dim if rotary_dim is None else rotary_dim, theta=base)

    def __call__(self, x, offset):
        """x [B, H, L, D], its first row at position `offset`."""
        return self.embedding.rotate_queries_or_keys(x, offset=offset)


HERE = "relpos.conformance.peers.rotary_embedding_torch"
ROTARY = {"package": "rotary-embedding-torch", "version": "0.9.1", "scheme": "rope", "implementation": f"{HERE}:Rotary"}

PEERS = (
    Peer(**ROTARY, name="rotary-embedding-torch"),
    Peer(**ROTARY, name="rotary-embedding-torch, width 8", settings={"head_dim": 8, "rotary_dim": None}),
    Peer(**ROTARY, name="rotary-embedding-torch, 4 of 10", settings={"head_dim": 10, "rotary_dim": 4}),
    Peer(
        **ROTARY,
        name="rotary-embedding-torch, bfloat16",
        settings={"head_dim": 8, "rotary_dim": None},
        claims={"dtypes": ("float32", "bfloat16")},
    ),
)
