"""More wrong implementations for the messages: heads of a shard, state of a module, a position where there is none."""

import torch
from torch import nn

from relpos.impls.card import implements


@implements("alibi")
def first_rank(num_heads, head_indices, query_positions, key_positions):
    """Every rank takes the slopes of the first one."""
    total = 1 << (num_heads - 1).bit_length()
    m = [2.0 ** (-8 * h / total) for h in range(1, total + 1)]
    m = torch.tensor(m if total == num_heads else (m[1::2] + m[::2])[:num_heads])[: len(head_indices)]
    return -m.view(-1, 1, 1) * (query_positions[:, None] - key_positions).abs()


@implements("clipped", settings={"max_distance": 2, "directions": "both", "beyond": "repeat", "heads": "own"})
class NotSaved(nn.Module):
    """The index is a buffer that is kept out of the state dict."""

    def __init__(self, num_heads):
        super().__init__()
        self.table = nn.Parameter(torch.zeros(5, num_heads))
        self.register_buffer("index", (torch.arange(64)[:, None] - torch.arange(64)).clamp(-2, 2) + 2, persistent=False)

    def forward(self, query_length, key_length, offset):
        return self.table[self.index[offset : offset + query_length, :key_length]].permute(2, 0, 1)


NotSaved.__relpos__["max_length"] = 32
NotSaved.__relpos__["max_position"] = 31


@implements("none")
def later_keys_louder(q, k, v):
    """A position term in a model that has none."""
    return q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5 + 0.1 * torch.arange(k.shape[-2])
