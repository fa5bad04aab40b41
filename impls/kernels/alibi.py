"""alibi, in a Triton kernel: two slopes per head, and the distance computed in the tile. No bias is ever in memory."""

import torch
from torch import Tensor

from relpos.impls._attention import default_scale
from relpos.impls._slopes import half_of, slopes_of
from relpos.impls.card import implements
from relpos.impls.kernels._launch import SLOPES, Hook
from relpos.impls.kernels._launch import attention as launched
from relpos.spec.alibi import ALiBi


@implements(
    "alibi", level="attention", positions="offset", binds=("causal", "scale", "num_kv_heads"), devices=("cpu", "cuda"),
    dtypes=("float32", "bfloat16", "float16"), max_position=2**17, memory="B*H*Lq*D + B*H*Lk*D", vmap=False, export=False,
)  # fmt: skip
def attention(
    settings: ALiBi,
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
    del query_length, key_length  # those of q and k
    scale = default_scale(q, scale)
    slopes = _sides(settings, q.device) * (scale if settings.scale_bias else 1.0)
    return launched(Hook(scheme="alibi", kind=SLOPES), q, k, v, slopes, offset=offset, causal=causal, scale=scale)


def _sides(settings: ALiBi, device: torch.device) -> Tensor:
    """Slopes before and after the query, [H, 2]; infinite where a head does not listen."""
    past = slopes_of(settings, torch.float32, device)
    future = past.clone()
    if settings.distance == "causal":
        future.zero_()
    elif settings.distance == "key_only":
        future.neg_()
    elif settings.distance == "half_half":
        half = half_of(settings)
        future[:half] = torch.inf
        past = past.clone()
        past[half : 2 * half] = torch.inf
    return torch.stack((past, future), dim=-1)
