"""Right attention without a position term, in every layout, mask sense and corner that somebody uses."""

import numpy as np
import torch
from torch import Tensor

from relpos.impls.card import implements


def attend(q: Tensor, k: Tensor, v: Tensor, keep: Tensor, scale: float | None = None) -> Tensor:
    """Softmax over what is kept; a row without any is zero, and so is its gradient."""
    logits = (q @ k.transpose(-1, -2)) * (q.shape[-1] ** -0.5 if scale is None else scale)
    empty = ~keep.any(-1, keepdim=True)
    weights = logits.masked_fill(~keep, -torch.inf).masked_fill(empty, 0.0).softmax(-1)
    return weights.masked_fill(empty, 0.0) @ v


def past(Lq: int, Lk: int, corner: str) -> Tensor:
    return torch.ones(Lq, Lk, dtype=torch.bool).tril(Lk - Lq if corner == "bottom-right" else 0)


def plain(q, k, v):
    return attend(q, k, v, torch.ones(q.shape[2], k.shape[2], dtype=torch.bool))


@implements("none", binds=("scale",))
def scaled(q, k, v, scale=None):
    return attend(q, k, v, torch.ones(q.shape[2], k.shape[2], dtype=torch.bool), scale)


@implements("none")
def with_a_scale_of_its_own(q, k, v, scale=None):
    return scaled(q, k, v, None if scale is None else scale**2)


@implements("none", layout="blhd")
def heads_third(q, k, v):
    return plain(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)).transpose(1, 2)


@implements("none")
def masked(q, k, v, mask):
    return attend(q, k, v, mask)


@implements("none", mask="true_drops", rename={"attention_mask": "mask"})
def true_drops(q, k, v, attention_mask):
    return attend(q, k, v, ~attention_mask)


@implements("none", mask="additive")
def additive(q, k, v, mask):
    assert mask.dtype == q.dtype and set(mask.unique().tolist()) <= {0.0, -np.inf}
    return attend(q, k, v, mask == 0)


@implements("none")
def padded(q, k, v, padding_mask):
    return attend(q, k, v, padding_mask[:, None, None, :])


@implements("none", softmax="causal", corner="bottom-right")
def bottom_right(q, k, v):
    return attend(q, k, v, past(q.shape[2], k.shape[2], "bottom-right"))


@implements("none", softmax="causal", corner="top-left")
def top_left(q, k, v):
    return attend(q, k, v, past(q.shape[2], k.shape[2], "top-left"))


@implements("none", corner="top-left")
def flagged(q, k, v, causal):
    keep = past(q.shape[2], k.shape[2], "top-left")
    return attend(q, k, v, keep if causal else torch.ones_like(keep))


@implements("none")
def grouped(q, k, v, num_kv_heads):
    assert k.shape[1] == num_kv_heads
    k, v = (x.repeat_interleave(q.shape[1] // num_kv_heads, 1) for x in (k, v))
    return plain(q, k, v)


@implements("none", level="logits")
def scores(q, k, scale):
    return (q @ k.transpose(-1, -2)) * scale


@implements("rope")
def both_rotated(q, k, head_dim):
    """q and k in, both rotated out."""
    n = q.shape[2]
    θ = 10000.0 ** (-torch.arange(0, head_dim, 2) / head_dim)
    angles = torch.arange(n)[:, None] * θ
    turned = []
    for x in (q, k):
        a, b = x[..., 0::2], x[..., 1::2]
        pairs = torch.stack([a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()], -1)
        turned.append(pairs.flatten(-2))
    return tuple(turned)


@implements("sinusoidal")
def added(x, embed_dim):
    """Embeddings come added to their tokens."""
    m = torch.arange(0, embed_dim, 2)
    angles = torch.arange(x.shape[1])[:, None] * 10000.0 ** (-m / embed_dim)
    return x + torch.stack([angles.sin(), angles.cos()], -1).flatten(-2)[:, :embed_dim]
