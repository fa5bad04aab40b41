"""Decoders of Transformer-XL that forget too early, or count what they have forgotten."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from relpos.conformance.faults.api import Planted
from relpos.spec.positions import Range
from relpos.spec.transformer_xl import TransformerXL

SHORT: Mapping[str, Any] = {"variant": "transformer_xl", "clamp_len": None, "d_model": None}
SEGMENTS = {**SHORT, "same_length": False, "segment_length": 2, "memory_length": 2}


class _Decoder:
    """Right: everything is kept, and what is seen is the definition's."""

    def __init__(self, settings: TransformerXL, params: Mapping[str, Tensor]) -> None:
        self.settings, self.params = settings, {name: x.detach().double().numpy() for name, x in params.items()}
        self.dropped, self.length = 0, 0
        self.kept: tuple[Tensor, Tensor] | None = None

    def step(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        keys, values = (k, v) if self.kept is None else (torch.cat(x, dim=2) for x in zip(self.kept, (k, v), strict=True))
        queries, there = self.places(q.shape[2], keys.shape[2])
        term = np.stack([self._term(q[b], keys[b], queries, there) for b in range(len(q))])
        score = q @ keys.transpose(-1, -2) * q.shape[-1] ** -0.5 + torch.from_numpy(term).to(q.dtype)
        hidden = torch.tensor([[j > i for j in there] for i in queries])
        self.length += q.shape[2]
        drop = max(keys.shape[2] - self.most(keys.shape[2]), 0)
        self.dropped, self.kept = self.dropped + drop, (keys[:, :, drop:], values[:, :, drop:])
        return score.masked_fill(hidden, -torch.inf).softmax(-1) @ values

    def _term(self, q: Tensor, k: Tensor, queries: Range, keys: Range) -> np.ndarray:
        at = (q.detach().double().numpy(), k.detach().double().numpy(), queries, keys)
        return self.settings.logits(self.params, *at, scale=q.shape[-1] ** -0.5)

    def places(self, new: int, there: int) -> tuple[Range, Range]:
        """Positions of the queries and of the keys that are kept."""
        return Range(self.length, new), Range(self.dropped, there)

    def most(self, there: int) -> int:
        """How many keys are kept."""
        return there


class MemoryPerStep(_Decoder):
    """After every step the last M tokens are kept: right if a step is a segment, too few inside of one."""

    def most(self, there: int) -> int:
        return self.settings.memory_length or 0


class ForgottenCounted(_Decoder):
    """Right in what it keeps, but positions begin at the first key that is left."""

    def places(self, new: int, there: int) -> tuple[Range, Range]:
        return Range(self.length, new), Range(0, there)

    def most(self, there: int) -> int:
        return (self.settings.memory_length or 0) + (self.settings.segment_length or 0)


MEMORY = (
    Planted("memory-per-step", "a memory of M tokens before every step, not before the segment", "L3", MemoryPerStep,
            settings=SEGMENTS),
    Planted("forgotten-counted", "keys counted from the first that is left of the memory", "L3", ForgottenCounted,
            cases=("B035",), settings=SEGMENTS),
)  # fmt: skip
