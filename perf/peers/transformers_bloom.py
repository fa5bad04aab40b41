"""BLOOM of transformers: the attention of a model of one layer, with its ALiBi made at every call; eager is all it has."""

from importlib.metadata import version
from typing import Any

import torch

from relpos.conformance.peers.transformers_bloom import one_layer, through
from relpos.perf.point import Variant


class Layer:
    """A model of one attention layer, built once for a width."""

    def __init__(self):
        self.models: dict[Any, Any] = {}

    def __call__(self, q, k, v):
        """q, k, v [B, H, L, D]; the output [B, H, L, D]."""
        made = q.shape[1], q.shape[3], q.dtype
        if made not in self.models:
            with torch.inference_mode(False):  # what is kept outlives a call under it
                self.models[made] = one_layer(*made)
        return through(self.models[made], q, k, v, use_cache=False)


PEERS = (
    Variant(
        label="alibi/transformers-bloom",
        spec=f"{__name__}:Layer",
        scheme="alibi",
        claims=(
            ("level", "attention"),
            ("positions", "contiguous"),
            ("softmax", "causal"),
            ("dtypes", ("float32", "bfloat16")),
        ),
        origin=f"transformers {version('transformers')}",
    ),
)
