"""What every scheme's attention shares: who sees whom, the exact softmax, grouped heads, and the fused call.

    out[b, h, i] = Σ_j softmax_j(scale · q_i · k_j + bias_ij) · v_j        over the visible keys j

float16 and bfloat16 are computed in float32 and rounded once, at the end. A row that sees no key has output 0 and
gradient 0: no branch depends on the values of a tensor, so that compile, export and vmap work.
"""

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

LOW = (torch.float16, torch.bfloat16)
DTYPES = ("float32", "float64", "bfloat16", "float16")


def working(dtype: torch.dtype) -> torch.dtype:
    """The dtype to compute in, float32 for the 16-bit ones."""
    return torch.float32 if dtype in LOW else dtype


def relative(query_positions: Tensor, key_positions: Tensor) -> Tensor:
    """Key minus query, exact in int64, [..., Lq, Lk]; either side [L] or [B, L]."""
    return key_positions.unsqueeze(-2) - query_positions.unsqueeze(-1)


def contiguous(query_length: int, key_length: int, offset: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Positions of queries, from `offset`, and of keys, from 0."""
    return torch.arange(offset, offset + query_length, device=device), torch.arange(key_length, device=device)


def visible(query_positions: Tensor, key_positions: Tensor, mask: Tensor | None, causal: bool) -> Tensor | None:
    """Which query sees which key, boolean, broadcastable to [B, H, Lq, Lk] and of four axes; None: all see all."""
    if not causal:
        return mask
    past = relative(query_positions, key_positions) <= 0
    past = past[None, None] if past.ndim == 2 else past.unsqueeze(1)
    return past if mask is None else past & mask


def shared_heads(x: Tensor, num_heads: int) -> Tensor:
    """Give every query head its key head: [B, Hkv, L, D] -> [B, H, L, D], head h reads h // (H / Hkv)."""
    size = group_size(x.shape[1], num_heads)
    return x if size == 1 else x.repeat_interleave(size, dim=1)


def group_size(groups: int, num_heads: int) -> int:
    """Query heads that share a key head."""
    if num_heads % groups:
        raise ValueError(f"attention: {num_heads} query heads cannot share num_kv_heads = {groups} evenly; make it a multiple.")
    return num_heads // groups


def score(q: Tensor, k: Tensor, scale: float | None = None) -> Tensor:
    """scale · q · k in the working dtype, [B, H, Lq, Lk]; scale None is 1/√D."""
    dtype = working(q.dtype)
    q = q.to(dtype) * default_scale(q, scale)
    # Autocast multiplies in 16 bits; the position term and the softmax that follow must not.
    return (q @ shared_heads(k, q.shape[1]).to(dtype).transpose(-1, -2)).to(dtype)


def default_scale(q: Tensor, scale: float | None) -> float:
    """1/√D unless given."""
    return q.shape[-1] ** -0.5 if scale is None else scale


def softmax(score: Tensor, visible: Tensor | None = None) -> Tensor:
    """Weights over the visible keys, [B, H, Lq, Lk]; a row without any is all zeros, with gradient zero."""
    if visible is None:
        return torch.softmax(score, dim=-1)
    empty = ~visible.any(dim=-1, keepdim=True)
    # A row of −inf would be NaN, and stay NaN in the gradient: it is made harmless before the softmax, erased after it.
    shown = score.masked_fill(~visible, -torch.inf).masked_fill(empty, 0.0)
    return torch.softmax(shown, dim=-1).masked_fill(empty, 0.0)


def mixed(weights: Tensor, v: Tensor) -> Tensor:
    """Σ_j weight · v_j in the dtype of the weights, [B, H, Lq, D]."""
    return (weights @ shared_heads(v, weights.shape[1]).to(weights.dtype)).to(weights.dtype)


def attend(
    q: Tensor, k: Tensor, v: Tensor, *, bias: Tensor | None = None, visible: Tensor | None = None, scale: float | None = None
) -> Tensor:
    """Attention with every step written out, [B, H, Lq, D] in q's dtype; `bias` in the working dtype, broadcastable."""
    logits = score(q, k, scale)
    logits = logits if bias is None else logits + bias
    return mixed(softmax(logits, visible), v).to(q.dtype)


def fused(q: Tensor, k: Tensor, v: Tensor, *, mask: Tensor | None = None, scale: float | None = None) -> Tensor:
    """The same through PyTorch's fused kernel; `mask` boolean or additive, strides of any kind."""
    k, v = (shared_heads(x, q.shape[1]).to(q.dtype) for x in (k, v))
    if not torch.is_autocast_enabled(q.device.type):
        return scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)
    # Autocast would round an additive mask to 16 bits, and bfloat16 cannot tell distance 257 from 256.
    with torch.autocast(q.device.type, enabled=False):
        return scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)
