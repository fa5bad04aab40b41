"""`flex_attention` of PyTorch with a score_mod: compiled where it is measured, interpreted at the short lengths of the judge.

On CPUs it has no backward: the row says so.
"""

from functools import cache
from typing import Any

import torch
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

from relpos.perf.point import Variant

BLOCK = 128  # of the compiled kernel: shorter lengths, and those between blocks, are interpreted


class Alibi:
    """ALiBi's −m·|i − j| with geometric slopes, made once."""

    def __init__(self, num_heads):
        self.slopes = torch.tensor([2.0 ** (-8 * (h + 1) / num_heads) for h in range(num_heads)])

    def __call__(self, q, k, v, causal):
        """q, k, v [B, H, L, D]; the output [B, H, L, D]."""
        slopes = self.slopes.to(q.device)

        def mod(score, b, h, q_idx, kv_idx):
            del b
            return score - slopes[h] * (q_idx - kv_idx).abs()

        return _attention(q, k, v, mod, causal)


def _attention(q: Any, k: Any, v: Any, mod: Any, causal: bool) -> Any:
    L = q.shape[2]
    mask = _blocks(L, str(q.device)) if causal else None
    if L % BLOCK:
        return flex_attention(q, k, v, score_mod=mod, block_mask=mask)
    return _compiled()(q, k, v, score_mod=mod, block_mask=mask)


@cache
def _compiled() -> Any:
    return torch.compile(flex_attention, dynamic=False)


@cache
def _blocks(length: int, device: str) -> BlockMask:
    return create_block_mask(lambda b, h, q_idx, kv_idx: q_idx >= kv_idx, None, None, length, length, device=device)


PEERS = (
    Variant(
        label="alibi/torch-flex",
        spec=f"{__name__}:Alibi",
        scheme="alibi",
        settings=(("slope_rule", "geometric"),),
        claims=(("level", "attention"), ("positions", "contiguous"), ("gradient", False)),
        origin=f"torch {torch.__version__}",
    ),
)
