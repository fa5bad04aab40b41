"""none (NoPE): attention without a position term, the limit that every scheme is measured against.

    logit[b, h, i, j] = scale · q_i · k_j

Positions, where asked for, decide only what `causal` hides.
"""

from torch import Tensor, nn

from relpos.impls._attention import DTYPES, attend, contiguous, fused, visible
from relpos.impls.card import implements

MEMORY = "B*H*Lq*Lk + B*H*Lq*D + B*H*Lk*D"


@implements(
    "none",
    level="attention",
    corner="bottom-right",
    binds=("mask", "causal", "scale", "num_kv_heads"),
    dtypes=DTYPES,
    memory=MEMORY,
)
def attention(
    q: Tensor, k: Tensor, v: Tensor, *, mask: Tensor | None = None, causal: bool = False, scale: float | None = None
) -> Tensor:
    """Attention [B, H, Lq, D]; the last query sits on the last key.

    q [B, H, Lq, D]; k, v [B, Hkv, Lk, D]; mask boolean [B, 1 or H, Lq, Lk], True = may attend.
    """
    queries, keys = contiguous(q.shape[-2], k.shape[-2], k.shape[-2] - q.shape[-2], q.device)
    return attend(q, k, v, visible=visible(queries, keys, mask, causal), scale=scale)


@implements(
    "none",
    level="attention",
    positions="per_row",
    binds=("mask", "causal", "scale", "num_kv_heads"),
    dtypes=DTYPES,
    max_position=2**32,
    memory=MEMORY,
)
def attention_at(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    query_positions: Tensor,
    key_positions: Tensor,
    *,
    mask: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """Attention [B, H, Lq, D] of queries and keys at explicit positions [L] or [B, L], for offsets and left padding."""
    return attend(q, k, v, visible=visible(query_positions, key_positions, mask, causal), scale=scale)


@implements(
    "none",
    level="attention",
    positions="per_row",
    binds=("mask", "causal", "scale", "num_kv_heads"),
    dtypes=DTYPES,
    max_position=2**32,
)
class Attention(nn.Module):
    """Attention [B, H, Lq, D] through PyTorch's fused kernel, at explicit positions."""

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        query_positions: Tensor,
        key_positions: Tensor,
        mask: Tensor | None = None,
        causal: bool = False,
        scale: float | None = None,
    ) -> Tensor:
        seen = visible(query_positions, key_positions, mask, causal)
        return fused(q, k, v, mask=seen, scale=scale)
