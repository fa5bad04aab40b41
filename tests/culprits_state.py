"""More wrong implementations for the messages: shards, state of a module, a position where there is none, far and long."""

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


def penalties(num_heads, distance):
    total = 1 << (num_heads - 1).bit_length()
    m = [2.0 ** (-8 * h / total) for h in range(1, total + 1)]
    m = m if total == num_heads else (m[1::2] + m[::2])[:num_heads]
    return -torch.tensor(m).view(-1, 1, 1) * distance.abs()


@implements("alibi")
def short_integers(num_heads, query_positions, key_positions):
    """Positions are kept in 16 bits."""
    queries, keys = query_positions.to(torch.int16), key_positions.to(torch.int16)
    return penalties(num_heads, queries[:, None].long() - keys.long())


@implements("alibi")
def counted_on(num_heads, query_positions, key_positions):
    """Only the first position of a shard is read."""
    return penalties(num_heads, (query_positions[0] + torch.arange(len(query_positions)))[:, None] - key_positions)


@implements("none")
def whole_tiles(q, k, v):
    """Keys beyond the last whole tile of 32 are forgotten."""
    kept = max(k.shape[2] // 32 * 32, min(k.shape[2], 32))
    return (q @ k[:, :, :kept].transpose(-1, -2) * q.shape[-1] ** -0.5).softmax(-1) @ v[:, :, :kept]


@implements("none", memory="B*H*Lq*D + B*H*Lk*D")
def scores_formed(q, k, v):
    """The card claims the memory of a fused kernel."""
    return (q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5).softmax(-1) @ v


@implements("none")
def eight_keys_compiled(q, k, v):
    """A path for the compiler that was written for eight keys."""
    kept = 8 if torch.compiler.is_compiling() else k.shape[2]
    return (q @ k[:, :, :kept].transpose(-1, -2) * q.shape[-1] ** -0.5).softmax(-1) @ v[:, :, :kept]


@implements("clipped", settings={"max_distance": 2, "directions": "both", "beyond": "repeat", "heads": "own"})
class KeptInEval(nn.Module):
    """In eval mode the bias is computed once, whatever happens to its table."""

    def __init__(self, num_heads):
        super().__init__()
        self.table, self.kept = nn.Parameter(torch.zeros(5, num_heads)), {}

    def forward(self, query_length, key_length, offset):
        size = (query_length, key_length, offset)
        if size in self.kept and not self.training:
            return self.kept[size].clone()
        distance = torch.arange(offset, offset + query_length)[:, None] - torch.arange(key_length)
        bias = self.table[distance.clamp(-2, 2) + 2].permute(2, 0, 1)
        if not self.training and not torch.is_grad_enabled():
            self.kept[size] = bias.clone()
        return bias
