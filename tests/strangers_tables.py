"""Tables of numbers per distance as other people publish them, with little changed but names."""

import math

import torch
from torch import Tensor, nn


def relative_position_bucket(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    """Hugging Face's T5, `T5Attention._relative_position_bucket` (Apache 2.0, after mesh_tensorflow): a float32 logarithm."""
    relative_buckets = 0
    if bidirectional:
        num_buckets //= 2
        relative_buckets += (relative_position > 0).to(torch.long) * num_buckets
        relative_position = torch.abs(relative_position)
    else:
        relative_position = -torch.min(relative_position, torch.zeros_like(relative_position))
    max_exact = num_buckets // 2
    is_small = relative_position < max_exact
    relative_position_if_large = max_exact + (
        torch.log(relative_position.float() / max_exact) / math.log(max_distance / max_exact) * (num_buckets - max_exact)
    ).to(torch.long)
    relative_position_if_large = torch.min(
        relative_position_if_large, torch.full_like(relative_position_if_large, num_buckets - 1)
    )
    relative_buckets += torch.where(is_small, relative_position, relative_position_if_large)
    return relative_buckets


class HuggingFaceBias(nn.Module):
    """Its `compute_bias`, with the offset its caches give it."""

    def __init__(self, num_heads: int, bidirectional: bool, num_buckets: int, max_distance: int) -> None:
        super().__init__()
        self.settings = bidirectional, num_buckets, max_distance
        self.relative_attention_bias = nn.Embedding(num_buckets, num_heads)

    def forward(self, query_length: int, key_length: int, offset: int) -> Tensor:
        context_position = torch.arange(query_length)[:, None] + offset
        memory_position = torch.arange(key_length)[None, :]
        bucket = relative_position_bucket(memory_position - context_position, *self.settings)
        return self.relative_attention_bias(bucket).permute([2, 0, 1]).unsqueeze(0)


def x_transformers(q, k, table, query_positions, key_positions):
    """As x-transformers adds it: q·k/√D + √D · bias."""
    bucket = relative_position_bucket(key_positions - query_positions[:, None])
    return q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5 + table[bucket].permute(2, 0, 1) * q.shape[-1] ** 0.5


class RelativePositionBias(nn.Module):
    """A much copied tutorial's module, as printed."""

    def __init__(self, num_heads, max_relative_distance=128):
        super().__init__()
        self.num_heads = num_heads
        self.max_relative_distance = max_relative_distance
        self.relative_position_bias_table = nn.Parameter(torch.zeros(2 * max_relative_distance + 1, num_heads))
        nn.init.trunc_normal_(self.relative_position_bias_table, std=0.02)

    def _generate_relative_position_index(self, seq_len):
        coords = torch.arange(seq_len)
        relative_coords = coords[:, None] - coords[None, :]
        relative_coords = torch.clamp(relative_coords + self.max_relative_distance, 0, 2 * self.max_relative_distance)
        return relative_coords.long()

    def forward(self, seq_len):
        relative_position_index = self._generate_relative_position_index(seq_len)
        relative_position_bias = self.relative_position_bias_table[relative_position_index.view(-1)]
        relative_position_bias = relative_position_bias.view(seq_len, seq_len, self.num_heads)
        return relative_position_bias.permute(2, 0, 1).unsqueeze(0)
