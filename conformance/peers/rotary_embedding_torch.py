"""rotary-embedding-torch: `RotaryEmbedding.rotate_queries_or_keys` with its cache of angles, told an offset; xPos off."""

from importlib import import_module
from typing import Any

from relpos.conformance.deviations import Deviation
from relpos.conformance.peers.record import Peer


class Rotary:
    """One `RotaryEmbedding`, as a model keeps it."""

    def __init__(self, head_dim, rotary_dim, base):
        library = import_module("rotary_embedding_torch")
        self.embedding = library.RotaryEmbedding(dim=head_dim if rotary_dim is None else rotary_dim, theta=base)

    def __call__(self, x, offset):
        """x [B, H, L, D], its first row at position `offset`."""
        return self.embedding.rotate_queries_or_keys(x, offset=offset)


HERE = "relpos.conformance.peers.rotary_embedding_torch"
ROTARY: dict[str, Any] = {
    "package": "rotary-embedding-torch",
    "version": "0.9.1",
    "scheme": "rope",
    "implementation": f"{HERE}:Rotary",
}

WIDTH_2 = Deviation(
    name="width 2 raises",
    law="L1",
    says="ZeroDivisionError",
    also=("L2", "L3", "L4", "L11", "L14", "L15", "L20", "L21", "L26", "L28"),
    reason="theta_rescale_factor ** (dim / (dim − 2)) is computed even when the factor is 1.",
    bound="At rotary width 2 alone.",
    witness='{"settings":{"head_dim":2}}',
)
COLLIDE = Deviation(
    name="positions in bfloat16",
    law="L1",
    says="differs from the definition",
    also=("L2", "L3", "L4", "L18", "L20", "L21"),
    reason="Positions are counted in the dtype of the tensor, so in bfloat16 neighbours past 256 share one.",
    bound="Position p becomes the nearest bfloat16 number, up to p/128 away (row, then offset + row); exact up to 256.",
    witness='{"settings":{"head_dim":8},"head_dim":8,"offset":257,"dtype":"bfloat16"}',
)
POISONED = Deviation(
    name="bfloat16 angles stay in the cache",
    law="L4",
    says="the answer is not that of a fresh instance",
    reason="Angles computed for a bfloat16 tensor are kept and used for float32 ones.",
    bound="After a bfloat16 call of more than 257 rows at offset 0, for as long as no longer one comes.",
    witness='{"settings":{"head_dim":8},"head_dim":8,"query_length":258,"key_length":258,"dtype":"bfloat16","extra":{"steps":['
    '{"do":"call"},{"do":"call","plan":{"dtype":"float32"}}]}}',
)

PEERS = (
    Peer(**ROTARY, name="rotary-embedding-torch, any width", deviations=(WIDTH_2,)),
    Peer(**ROTARY, name="rotary-embedding-torch, width 8", settings={"head_dim": 8, "rotary_dim": None}),
    Peer(**ROTARY, name="rotary-embedding-torch, 4 of 10", settings={"head_dim": 10, "rotary_dim": 4}),
    Peer(
        **ROTARY,
        name="rotary-embedding-torch, bfloat16",
        settings={"head_dim": 8, "rotary_dim": None},
        claims={"dtypes": ("float32", "bfloat16")},
        deviations=(COLLIDE, POISONED),
    ),
)
