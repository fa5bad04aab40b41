"""clipped, in a Triton kernel: a number per distance, looked up in the tile; a learned table trains through it."""

from torch import Tensor

from relpos.impls._attention import default_scale
from relpos.impls._tables import distances, line
from relpos.impls.card import implements
from relpos.impls.clipped import rows_of
from relpos.impls.kernels._launch import LINE, Hook
from relpos.impls.kernels._launch import attention as launched
from relpos.spec.clipped import Clipped


@implements(
    "clipped", level="attention", positions="offset", binds=("causal", "scale"), devices=("cpu", "cuda"),
    dtypes=("float32", "bfloat16", "float16"), max_position=2**17, memory="H*Lq + H*Lk + B*H*Lq*D + B*H*Lk*D", vmap=False,
    export=False,
)  # fmt: skip
def attention(
    settings: Clipped,
    table: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    query_length: int,
    key_length: int,
    offset: int,
    *,
    causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """Attention [B, H, Lq, D]; q [B, H, Lq, D], k and v [B, Hkv, Lk, D], queries from position `offset` on."""
    values = line(table, rows_of(settings, distances(query_length, key_length, offset, q.device)))
    values = values.expand(q.shape[1], -1)
    hook = Hook(scheme="clipped", kind=LINE)
    return launched(hook, q, k, v, values, offset=offset, causal=causal, scale=default_scale(q, scale))
