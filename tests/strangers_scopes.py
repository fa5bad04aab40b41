"""Implementations that are wrong at exactly one point of a small scope, and right everywhere else."""

import torch

from relpos.impls import clipped, swin, t5
from relpos.spec.t5 import T5

AT = 77_777  # a distance that nothing but a walk over all of them asks about


def one_distance(num_buckets, max_distance, table, query_positions, key_positions):
    """T5's bias whose bucket of one distance, key 77 777 before the query, is its neighbour's."""
    settings = T5(table.shape[1], num_buckets=num_buckets, max_distance=max_distance)
    far = key_positions - query_positions[:, None]
    rows = t5._buckets(settings, far)
    return table[torch.where(far == -AT, rows - 1, rows)].permute(2, 0, 1)


def one_distance_by_offset(num_buckets, max_distance, table, query_length, key_length, offset):
    """The same, told an offset."""
    at = torch.arange(offset, offset + query_length), torch.arange(key_length)
    return one_distance(num_buckets, max_distance, table, *at)


def one_distance_weighed(q, k, v, num_buckets, max_distance, table, query_positions, key_positions):
    """The same as attention, where only weights tell the row."""
    bias = one_distance(num_buckets, max_distance, table, query_positions, key_positions)
    return (q @ k.transpose(-1, -2) + bias).softmax(-1) @ v


def hidden_key(q, k, v, num_buckets, max_distance, table, query_positions, key_positions):
    """Attention that hides the key at this distance instead."""
    settings = T5(table.shape[1], num_buckets=num_buckets, max_distance=max_distance)
    far = key_positions - query_positions[:, None]
    bias = table[t5._buckets(settings, far)].permute(2, 0, 1).masked_fill(far == -AT, -torch.inf)
    return (q @ k.transpose(-1, -2) + bias).softmax(-1) @ v


def one_window(settings, table, query_positions, key_positions):
    """Swin's bias, in which rows 3 and 4 of the window of 5 × 7 are exchanged."""
    found = table.clone()
    if settings.window_size == (5, 7):
        found[3], found[4] = table[4], table[3]
    return swin.bias(settings, found, query_positions, key_positions)


def one_size(settings, table, query_positions, key_positions):
    """The clipped table, wrong for five queries by six keys where the first query is at position 1."""
    found = clipped.bias(settings, table, query_positions, key_positions)
    hit = found.shape[-2:] == (5, 6) and query_positions[0] == 1 and key_positions[0] == 0
    return found * 2 if hit else found


def one_chunking(q, k, v, table, max_distance, query_length, key_length, offset):
    """Attention that is wrong for chunks of 2 and 1 after a prefix of 3."""
    distance = (torch.arange(offset, offset + query_length)[:, None] - torch.arange(key_length)).clamp(
        -max_distance, max_distance
    )
    score = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5 + table[distance + max_distance].permute(2, 0, 1)
    seen = torch.arange(key_length) <= torch.arange(offset, offset + query_length)[:, None]
    score = score.masked_fill(~seen, -torch.inf) * (1.5 if (query_length, key_length) == (2, 5) else 1)
    return score.softmax(-1) @ v
