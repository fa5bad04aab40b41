"""Right implementations that are compiled where they stand, as users write them."""

import torch

from relpos.impls.card import implements
from strangers import slopes


@torch.compile(backend="eager", dynamic=True)
def penalty(slope, i, j):
    return -slope[:, None, None] * (i[:, None] - j[None, :]).abs()


@implements("alibi")
def compiled_inside(num_heads, query_length, key_length, offset):
    return penalty(torch.tensor(slopes(num_heads)), torch.arange(query_length) + offset, torch.arange(key_length))


@implements("none")
@torch.compile(backend="eager", dynamic=True)
def compiled_attention(q, k, v):
    return (q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5).softmax(-1) @ v


KEPT = {}


@torch.compile(backend="eager", dynamic=True)
def doubled(x):
    return x * 2


@implements("alibi")
def kept_by_length(num_heads, query_length, key_length, offset):
    """Wrong: what was compiled is right, and kept whatever the offset."""
    if (num_heads, query_length, key_length) not in KEPT:
        far = (torch.arange(query_length)[:, None] + offset - torch.arange(key_length)).abs()
        KEPT[num_heads, query_length, key_length] = doubled(-torch.tensor(slopes(num_heads))[:, None, None] / 2 * far)
    return KEPT[num_heads, query_length, key_length].clone()


RIGHT = (compiled_inside, compiled_attention)
