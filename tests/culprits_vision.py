"""Deliberately wrong implementations on several axes, for the laws that look at them."""

import torch

from relpos.impls.card import implements


@implements("swin", settings={"window_size": (2, 3), "sign": "query_minus_key"})
def height_for_width(table, window_size, query_positions, key_positions):
    """The multiplier is 2h − 1, which is right where windows are square."""
    height, width = window_size
    dy, dx = (query_positions[:, None] - key_positions).unbind(-1)
    return table[(dy + height - 1) * (2 * height - 1) + dx + width - 1].permute(2, 0, 1)


@implements("swin")
def cut_to_size(table, source_window, window_size):
    """The first rows and columns are taken over, whatever offset they stand for."""
    (h, w), (height, width) = ([2 * n - 1 for n in window] for window in (source_window, window_size))
    found = torch.zeros(height, width, table.shape[1])
    found[:h, :w] = table.view(h, w, -1)[:height, :width]
    return found.flatten(0, 1)
