"""rope, in a Triton kernel: queries and keys are turned as they are loaded, and never written turned."""

import torch
from torch import Tensor

from relpos.impls._attention import default_scale
from relpos.impls._rotation import Context, angles, magnitude, split
from relpos.impls.card import implements
from relpos.impls.kernels._launch import Hook
from relpos.impls.kernels._launch import attention as launched
from relpos.spec.rope import RoPE


@implements(
    "rope", level="attention", positions="offset", binds=("causal", "scale", "num_kv_heads", "sequence_length"),
    devices=("cpu", "cuda"), dtypes=("float32", "bfloat16", "float16"), max_position=2**17, memory="B*H*Lq*D + B*H*Lk*D",
    vmap=False, export=False,
)  # fmt: skip
def attention(
    settings: RoPE,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    query_length: int,
    key_length: int,
    offset: int,
    *,
    causal: bool = False,
    scale: float | None = None,
    sequence_length: Context | None = None,
) -> Tensor:
    """Attention [B, H, Lq, D] of turned queries and keys, q [B, H, Lq, D], k and v [B, Hkv, Lk, D].

    Angles are formed in float64 whatever the dtype, cosine and sine rounded once to float32. RuntimeError: columns without a
    partner are an odd number.
    """
    last = max(offset + query_length, key_length)
    context = last if sequence_length is None else sequence_length
    found, gain = angles(settings, torch.arange(last, device=q.device), context), magnitude(settings)
    hook = Hook(scheme="rope", columns=_columns(settings, q))
    turns = tuple(_filled(part * gain, q.shape[-1] // 2, rest) for part, rest in ((found.cos(), 1.0), (found.sin(), 0.0)))
    return launched(hook, q, k, v, None, turns, offset=offset, causal=causal, scale=default_scale(q, scale))


def _columns(settings: RoPE, q: Tensor) -> Tensor:
    """First and second columns of all pairs, int64 [2, D/2]; those that are not turned are paired as they come."""
    D = q.shape[-1]
    if D % 2:
        raise RuntimeError(
            f"rope: the Triton kernel needs an even width, got `head_dim` {D}; use `rotate` before another kernel."
        )
    first, second = split(settings, torch.arange(D, device=q.device))
    turned = torch.zeros(D, dtype=torch.bool, device=q.device)
    turned[torch.cat((first, second))] = True
    rest = torch.arange(D, device=q.device)[~turned]
    return torch.stack((torch.cat((first, rest[::2])), torch.cat((second, rest[1::2]))))


def _filled(turns: Tensor, pairs: int, rest: float) -> Tensor:
    """Cosines or sines [L, r/2] as [L, D/2] in float32; `rest` for pairs that are not turned."""
    turns = turns.to(torch.float32)
    return torch.cat((turns, turns.new_full((len(turns), pairs - turns.shape[-1]), rest)), dim=-1)
