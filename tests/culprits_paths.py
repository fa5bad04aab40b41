"""Wrong implementations with several paths, for the messages: a fast path, a mode, an option, a decode."""

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from culprits import distances, turned
from relpos.impls.card import implements
from strangers import penalty
from strangers_attention import attend, past


@implements("none", binds=("mask", "causal"), corner="bottom-right")
def flag_alone(q, k, v, mask=None, causal=False):
    """Without a mask the flag is handed on to a call that ties it to the other corner."""
    if mask is None:
        return scaled_dot_product_attention(q, k, v, is_causal=causal)
    return attend(q, k, v, mask & past(q.shape[2], k.shape[2], "bottom-right") if causal else mask)


@implements("alibi")
class UnbiasedInTraining(nn.Module):
    """The path of training was written without the bias."""

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads

    def forward(self, query_length: int, key_length: int, offset: int):
        at = torch.arange(offset, offset + query_length), torch.arange(key_length)
        return penalty(self.num_heads, *at) * (not self.training)


@implements("alibi", variants={"backend": ("eager", "fused")})
def fused_clipped(num_heads, query_positions, key_positions, backend="eager"):
    """The fused path has a table that ends at distance 4."""
    distance = (query_positions[:, None] - key_positions).abs()
    return distances(num_heads, distance.clamp(max=4) if backend == "fused" else distance)


@implements("none")
def neighbours_seen(q, k, v, mask):
    """Of a mask the first query's row is read: right for padding, wrong for packed documents."""
    return attend(q, k, v, mask[:, :, :1].expand(-1, -1, q.shape[2], -1))


@implements("rope", settings={"scaling": "dynamic", "factor": 2.0, "max_position": 4})
class TurnedOnce:
    """Keys are turned when they come and kept as they are, whatever the context grows to."""

    def __init__(self):
        self.keys = self.values = None

    def step(self, q, k, v):
        before = 0 if self.keys is None else self.keys.shape[2]
        d, n = q.shape[-1], before + q.shape[2]
        base = 10000.0 * (max(n, 4) / 2 - 1) ** (d / (d - 2)) if d > 2 else 10000.0
        at, θ = torch.arange(before, n), base ** (-torch.arange(0, d, 2) / d)
        k = turned(k, at, θ)
        self.keys, self.values = (k, v) if before == 0 else (torch.cat((self.keys, k), 2), torch.cat((self.values, v), 2))
        return attend(turned(q, at, θ), self.keys, self.values, torch.arange(n) <= at[:, None])
