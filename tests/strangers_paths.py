"""Right implementations that have several paths: options, fast paths, modes, caches, decoders that are told of masks."""

from functools import lru_cache

import numpy as np
import torch
from torch import nn
from torch.nn.functional import dropout, scaled_dot_product_attention

from relpos.impls.card import implements
from strangers import penalty, slopes
from strangers_attention import attend, past


def by_twos(q, k, v, keep):
    """Softmax in base 2, keys added from the last to the first: other roundings than `attend`."""
    score = torch.stack([(q * k[:, :, j, None]).sum(-1) for j in range(k.shape[2])], -1) * q.shape[-1] ** -0.5
    score = torch.where(keep, score * 1.4426950408889634, -torch.inf)
    weights = torch.exp2(score - score.amax(-1, keepdim=True).clamp(min=-3e38))
    total = weights.flip(-1).sum(-1, keepdim=True)
    return (weights / total.clamp(min=1e-38)) @ v


@implements("none", variants={"backend": ("eager", "twos", "fused")})
def three_backends(q, k, v, mask, backend="eager"):
    """All right, each with its own rounding."""
    if backend == "fused":
        empty = ~mask.any(-1, keepdim=True)
        return scaled_dot_product_attention(q, k, v, attn_mask=mask | empty).masked_fill(empty, 0.0)
    return (attend if backend == "eager" else by_twos)(q, k, v, mask)


@implements("none", binds=("mask", "causal", "scale"), corner="bottom-right")
def fast_paths(q, k, v, mask=None, causal=False, scale=None):
    """The flag is handed on where both corners are the same, and joined to the mask elsewhere."""
    if mask is None and (not causal or q.shape[2] == k.shape[2]):
        return scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale)
    keep = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool) if mask is None else mask
    return attend(q, k, v, keep & past(q.shape[2], k.shape[2], "bottom-right") if causal else keep, scale)


@implements("none", binds=("padding_mask",))
def padding_or_none(q, k, v, padding_mask=None):
    keep = torch.ones(k.shape[0], k.shape[2], dtype=torch.bool) if padding_mask is None else padding_mask
    return attend(q, k, v, keep[:, None, None])


@implements("alibi")
def offset_and_mask(num_heads, q, k, v, mask, offset):
    """Only distances are known, so a document may lie anywhere in its row."""
    bias = penalty(num_heads, torch.arange(q.shape[2]) + offset, torch.arange(k.shape[2]))
    empty = ~mask.any(-1, keepdim=True)
    score = (q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5 + bias).masked_fill(~mask, -torch.inf).masked_fill(empty, 0.0)
    return score.softmax(-1).masked_fill(empty, 0.0) @ v


@implements("none")
class Dropping(nn.Module):
    """Weights are dropped in training, as they should be."""

    def forward(self, q, k, v):
        weights = (q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5).softmax(-1)
        return dropout(weights, 0.5, self.training) @ v


@implements("alibi", variants={"kind": ("built", "kept")})
class Options(nn.Module):
    """An option of the constructor."""

    def __init__(self, num_heads: int, kind: str) -> None:
        super().__init__()
        self.m = None if kind == "built" else torch.tensor(slopes(num_heads))
        self.num_heads = num_heads

    def forward(self, query_positions, key_positions):
        if self.m is None:
            return penalty(self.num_heads, query_positions, key_positions)
        return -self.m.view(-1, 1, 1) * (query_positions[:, None] - key_positions).abs()


@lru_cache
def kept_distances(Lq, Lk):
    return (torch.arange(Lq)[:, None] - torch.arange(Lk)).abs().float()


@implements("clipped", settings={"max_distance": 2, "directions": "both", "beyond": "repeat", "heads": "own"})
def table_kept(table, query_length, key_length):
    """What it keeps for the next call must not belong to inference alone."""
    sides = torch.sign(torch.arange(query_length)[:, None] - torch.arange(key_length))
    return table[(kept_distances(query_length, key_length).clamp(max=2) * sides + 2).long()].permute(2, 0, 1)


@implements("none")
class ToldOfAll:
    """A decoder that is told of masks and of where it is."""

    def __init__(self):
        self.kept, self.at = [], torch.zeros(0, dtype=torch.int64)

    def step(self, q, k, v, mask, offset, key_length, query_positions):
        self.kept.append((k, v))
        self.at = torch.cat((self.at, query_positions))
        keys, values = (torch.cat(x, 2) for x in zip(*self.kept, strict=True))
        assert keys.shape[2] == key_length == mask.shape[-1] and mask.shape[-2] == q.shape[2] == len(query_positions)
        assert query_positions[0] == offset == self.at[0] + key_length - q.shape[2]
        return attend(q, keys, values, mask & (self.at <= query_positions[:, None]))


@implements("none")
class InNumpy:
    """A decoder without torch."""

    def __init__(self):
        self.k = self.v = None

    def step(self, q, k, v):
        q = np.asarray(q)
        if not isinstance(k, np.ndarray):
            raise TypeError("NumPy arrays, please")
        self.k = k if self.k is None else np.concatenate((self.k, k), 2)
        self.v = v if self.v is None else np.concatenate((self.v, v), 2)
        score = q @ self.k.swapaxes(-1, -2) * q.shape[-1] ** -0.5
        score = np.where(np.tri(q.shape[2], self.k.shape[2], self.k.shape[2] - q.shape[2], dtype=bool), score, -np.inf)
        weights = np.exp(score - score.max(-1, keepdims=True))
        return weights / weights.sum(-1, keepdims=True) @ self.v


RIGHT = (
    *(three_backends, fast_paths, padding_or_none, offset_and_mask, Dropping, Options, table_kept),
    *(ToldOfAll, InNumpy),
)
