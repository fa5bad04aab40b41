"""Negative controls: right implementations that public reports took for wrong ones. No law may fail on them."""

import torch

from relpos.conformance.faults.api import Control


def _slopes(num_heads: int) -> torch.Tensor:
    return torch.tensor([2.0 ** (-8 * (h + 1) / num_heads) for h in range(num_heads)])


def one_row(num_heads, key_positions):
    """The key's position alone: every row differs from the definition's by a constant."""
    return _slopes(num_heads).view(-1, 1, 1) * key_positions


def sliced(num_heads, query_length, key_length, offset):
    """A bias built for a longer axis, anchored at its own end, and sliced."""
    del offset
    longer = key_length + 5
    row = torch.arange(longer) - (longer - 1)
    return (_slopes(num_heads).view(-1, 1, 1) * row[:key_length]).expand(-1, query_length, -1)


def closed_formula(num_heads, query_positions, key_positions):
    """The slopes of the formula in the text, for a number of heads where the released code has others."""
    return -_slopes(num_heads).view(-1, 1, 1) * (query_positions[:, None] - key_positions).abs()


def halves(embed_dim, positions):
    """All sines, then all cosines."""
    angles = positions[:, None] * 10000.0 ** (-torch.arange(0, embed_dim, 2, dtype=torch.float64) / embed_dim)
    return torch.cat([angles.sin(), angles.cos()], -1)[:, :embed_dim].float()


def half_split(x, positions):
    """Pairs made of the two halves of a head."""
    θ = 10000.0 ** (-torch.arange(0, x.shape[-1], 2) / x.shape[-1])
    c, s = (positions[:, None] * θ).cos(), (positions[:, None] * θ).sin()
    a, b = x.chunk(2, -1)
    return torch.cat([a * c - b * s, a * s + b * c], -1)


# fmt: off
CONTROLS = (
    Control("sliced-from-longer", "a bias cut out of a longer one, the zero line off the diagonal", "alibi", sliced,
        cases=("B010",), settings={"slope_rule": "geometric"}, claims={"softmax": "causal"}),
    Control("one-row", "one row for all queries under a causal softmax", "alibi", one_row,
        cases=("B011",), settings={"slope_rule": "geometric"}, claims={"softmax": "causal"}),
    Control("closed-formula", "slopes for 40 heads by the formula of the text", "alibi", closed_formula,
        cases=("B024",), settings={"slope_rule": "geometric", "num_heads": 40}),
    Control("halves", "sines and cosines in two halves", "sinusoidal", halves, cases=("B079",), settings={"layout": "halves"}),
    Control("half-split", "pairs made of two halves", "rope", half_split, cases=("B080",), settings={"layout": "half"}),
)
# fmt: on
