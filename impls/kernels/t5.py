"""t5, in a Triton kernel: a number per distance, looked up in the tile; a learned table trains through it."""

from collections.abc import Mapping

from torch import Tensor

from relpos.impls._tables import distances
from relpos.impls.card import implements
from relpos.impls.kernels._launch import LINE, Hook
from relpos.impls.kernels._launch import attention as launched
from relpos.impls.t5 import line_of, scale_of
from relpos.spec.t5 import T5


@implements(
    "t5", level="attention", positions="offset", binds=("causal", "scale"), devices=("cpu", "cuda"),
    dtypes=("float32", "bfloat16", "float16"), max_position=2**17, memory="H*Lq + H*Lk + B*H*Lq*D + B*H*Lk*D", vmap=False,
    export=False,
)  # fmt: skip
def attention(
    settings: T5,
    params: Mapping[str, Tensor],
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
    """Attention [B, H, Lq, D]; q [B, H, Lq, D], k and v [B, Hkv, Lk, D], queries from position `offset` on. Scale None: 1."""
    values = line_of(settings, params, q, distances(query_length, key_length, offset, q.device))
    hook = Hook(scheme="t5", kind=LINE)
    return launched(hook, q, k, v, values, offset=offset, causal=causal, scale=scale_of(settings, q, scale))
