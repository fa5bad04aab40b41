"""ALiBi with several paths of which one is wrong: prefill and decode, a bias per sample, training, an option."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from relpos.conformance.faults.api import Planted
from relpos.spec.alibi import ALiBi

SYMMETRIC = {"distance": "symmetric", "scale_bias": False}
FUSED: Mapping[str, Any] = {"variants": {"backend": ("table", "fused")}}


def _bias(settings: ALiBi, queries: Tensor, keys: Tensor, *, other_rule: bool = False) -> Tensor:
    if other_rule:
        settings = replace(settings, slope_rule="geometric" if settings.slope_rule == "press" else "press")
    slopes = torch.tensor(settings.slopes(), dtype=torch.float32)[:, None, None]
    return -slopes * (queries[..., :, None] - keys[..., None, :]).abs().unsqueeze(-3)


def _attend(q: Tensor, k: Tensor, v: Tensor, bias: Tensor, keep: Tensor) -> Tensor:
    score = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5 + bias
    empty = ~keep.any(-1, keepdim=True)
    return score.masked_fill(~keep, -torch.inf).masked_fill(empty, 0.0).softmax(-1).masked_fill(empty, 0.0) @ v


class OtherSlopesInDecode:
    """A prefill kernel with the slopes that were asked for, a decode kernel with those of another rule."""

    def __init__(self, settings: ALiBi) -> None:
        self.settings, self.kept = settings, []

    def step(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        self.kept.append((k, v))
        keys, values = (torch.cat(pieces, dim=2) for pieces in zip(*self.kept, strict=True))
        at = torch.arange(keys.shape[2])
        new = at[-q.shape[2] :]
        return _attend(q, keys, values, _bias(self.settings, new, at, other_rule=q.shape[2] == 1), at <= new[:, None])


def cached_from_zero(settings: ALiBi, q: Tensor, k: Tensor, v: Tensor, mask: Tensor, query_positions, key_positions) -> Tensor:
    """One query against many keys is taken for a cross attention, which counts from its own first token."""
    if q.shape[2] == 1:
        query_positions = query_positions - query_positions
    return _attend(q, k, v, _bias(settings, query_positions, key_positions), mask)


def first_rows(settings: ALiBi, q: Tensor, k: Tensor, v: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor:
    """The bias has three axes: of positions per sample the first row is taken."""
    queries, keys = (p[0] if p.ndim == 2 else p for p in (query_positions, key_positions))
    return _attend(q, k, v, _bias(settings, queries, keys), torch.ones(q.shape[2], k.shape[2], dtype=torch.bool))


class UnbiasedTraining(nn.Module):
    """The bias is a buffer of evaluation; the path of training was written without it."""

    def __init__(self, settings: ALiBi) -> None:
        super().__init__()
        self.settings = settings

    def forward(self, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        return _bias(self.settings, query_positions, key_positions) * (not self.training)


def other_slopes_fused(settings: ALiBi, query_positions: Tensor, key_positions: Tensor, backend: str = "table") -> Tensor:
    """The fused option has a slope rule of its own."""
    return _bias(settings, query_positions, key_positions, other_rule=backend == "fused")


# fmt: off
PATHS = (
    Planted("prefill-and-decode", "a decode kernel with another slope rule than the prefill's", "L28", OtherSlopesInDecode,
        cases=("B003",), settings=SYMMETRIC),
    Planted("cached-from-zero", "a cached query counted from 0 where a mask is given", "L28", cached_from_zero, cases=("B022",),
        settings=SYMMETRIC),
    Planted("first-row-of-samples", "the first sample's positions in a bias of three axes", "L28", first_rows, cases=("B009",),
        settings=SYMMETRIC, claims={"positions": "per_row"}, alike=("first-rows",)),
    Planted("unbiased-training", "no bias in training", "L28", UnbiasedTraining, settings=SYMMETRIC),
    Planted("other-slopes-fused", "another slope rule where backend=fused", "L28", other_slopes_fused, cases=("B003",),
        settings=SYMMETRIC, claims=FUSED),
)
# fmt: on
