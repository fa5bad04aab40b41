"""flex_attention under a line of biases: what a user of PyTorch would try first, beside the Toeplitz engine.

    score_mod(score, b, h, i, j) = score + line[h, j − i + Lq − 1]          the same line, looked up in the kernel

Compiled where blocks of 128 fit the lengths and nothing else compiles already, interpreted elsewhere: that forms all scores. On
CPUs it has no backward, and says so in a sentence of ours.
Cost on CPUs: compiling, seconds for every length, and then a lookup per score, where the Toeplitz engine adds a view.
Source: Dong et al. (FlexAttention, 2024), by way of PyTorch.
"""

import warnings
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

from relpos.impls._attention import group_size, working
from relpos.impls._operators import COMPILER, compiled

BLOCK = 128


def flexed(scheme: str, line: Tensor, q: Tensor, k: Tensor, v: Tensor, *, offset: int, causal: bool, scale: float) -> Tensor:
    """Attention [B, H, Lq, D] under a line [H or 1, Lq + Lk − 1] of biases over rising distances, key minus query.

    NotImplementedError where gradients are asked for on a CPU.
    """
    if q.device.type == "cpu" and torch.is_grad_enabled() and any(x.requires_grad for x in (line, q, k, v)):
        raise NotImplementedError(
            f"{scheme}: flex_attention has no backward on a CPU; use `toeplitz`, or call it under torch.no_grad()."
        )
    size, Lq, Lk = group_size(k.shape[1], q.shape[1]), q.shape[2], k.shape[2]
    # It refuses what merely could ask for a gradient, even where none is recorded.
    q, k, v, line = (x.detach() if q.device.type == "cpu" else x for x in (q, k, v, line))
    line = line.expand(q.shape[1], -1).to(working(q.dtype)).contiguous()

    def biased(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        del b
        found = score + line[h, j - i + Lq - 1]
        return torch.where(j <= i + offset, found, -torch.inf) if causal else found

    given: dict[str, Any] = {"score_mod": biased, "scale": scale, "enable_gqa": size > 1}
    k, v = k.to(q.dtype), v.to(q.dtype)
    if torch.compiler.is_compiling():
        return flex_attention(q, k, v, **given)
    if Lq % BLOCK or Lk % BLOCK or not COMPILER.used:
        with warnings.catch_warnings():  # it warns that it forms all scores, which is why it is not for long ones
            warnings.simplefilter("ignore", UserWarning)
            return flex_attention(q, k, v, **given)
    blocks = _blocks(Lq, Lk, offset, q.device) if causal else None
    return compiled(flex_attention, dynamic=False)(q, k, v, block_mask=blocks, **given)


@cache
def _blocks(query_length: int, key_length: int, offset: int, device: torch.device) -> BlockMask:
    return create_block_mask(lambda b, h, i, j: j <= i + offset, None, None, query_length, key_length, device=device)
