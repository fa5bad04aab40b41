"""What a user's file may hold: right, wrong, interrupted, hanging, crashing. Copied away before it is judged."""

import os
import time

import torch


def slopes(num_heads):
    if num_heads & (num_heads - 1) == 0:
        return [2 ** (-8 * (h + 1) / num_heads) for h in range(num_heads)]
    p = 2 ** (num_heads.bit_length() - 1)
    return slopes(p) + slopes(2 * p)[0::2][: num_heads - p]


def press(num_heads, query_positions, key_positions):
    return -torch.tensor(slopes(num_heads)).view(-1, 1, 1) * (query_positions[:, None] - key_positions).abs()


def geometric(num_heads, query_positions, key_positions):
    m = torch.tensor([2 ** (-8 * (h + 1) / num_heads) for h in range(num_heads)])
    return -m.view(-1, 1, 1) * (query_positions[:, None] - key_positions).abs()


def rewarded(num_heads, query_positions, key_positions):
    return -press(num_heads, query_positions, key_positions)


def key_only(num_heads, key_positions):
    return torch.tensor(slopes(num_heads)).view(-1, 1, 1) * key_positions


def no_arguments_known(heads_and_lengths):
    return heads_and_lengths


def after(calls, what):
    """ALiBi that does something else in place of one call."""

    def it(num_heads, query_positions, key_positions):
        it.calls += 1
        if it.calls == calls:
            what()
        return press(num_heads, query_positions, key_positions)

    it.calls = 0
    return it


def interrupt():
    raise KeyboardInterrupt


interrupted = after(6, interrupt)
interrupted_at_once = after(1, interrupt)
crashing = after(6, lambda: os._exit(9))
aborting = after(1, os.abort)
hanging = after(6, lambda: time.sleep(60))


def scaled(q, k, v, scale=None):
    return torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5 * (scale or 1), -1) @ v
