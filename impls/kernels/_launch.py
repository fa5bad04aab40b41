"""Calls the kernels: strides, sizes of tiles, and the autograd function around forward and backward."""

import os
from dataclasses import dataclass
from typing import Any

import torch
import triton
from torch import Tensor
from torch.autograd.function import once_differentiable

from relpos.impls._attention import group_size
from relpos.impls.kernels._backward import of_keys, of_queries
from relpos.impls.kernels._forward import forward

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"  # read when Triton's decorators are, at import
NONE, SLOPES, LINE = 0, 1, 2
LEAST = 16  # sides of a product of tiles


@dataclass(frozen=True, kw_only=True)
class Hook:
    """What the kernel does with positions.

    kind      NONE, SLOPES (bias [H, 2]: before and after the query) or LINE (bias [H, Lq + Lk − 1] over rising distances)
    columns   of a rotation: the first and the second columns of all pairs, int64 [2, D/2]; None: nothing is turned
    """

    scheme: str
    kind: int = NONE
    columns: Tensor | None = None


@dataclass(frozen=True, kw_only=True)
class Call:
    """All that is no tensor."""

    hook: Hook
    offset: int
    causal: bool
    scale: float


def attention(
    hook: Hook, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None, turns: tuple[Tensor, Tensor] | None = None,
    *, offset: int, causal: bool, scale: float,
) -> Tensor:  # fmt: skip
    """Attention [B, H, Lq, Dv] of contiguous positions under a hook; gradients for q, k, v and, of a line, its numbers.

    turns   cosines and sines [positions, D/2], float32, of all positions from 0 on

    RuntimeError: tensors are not on a GPU, and Triton does not interpret.
    """
    refuse(hook.scheme, q)
    group_size(k.shape[1], q.shape[1])
    nothing = q.new_empty(0, dtype=torch.float32)
    bias = nothing if bias is None else bias.to(torch.float32).contiguous()
    cosine, sine = (nothing, nothing) if turns is None else (part.to(torch.float32).contiguous() for part in turns)
    call = Call(hook=hook, offset=offset, causal=causal, scale=scale)
    return _Attention.apply(call, q, k.to(q.dtype), v.to(q.dtype), bias, cosine, sine)[0]


def refuse(scheme: str, q: Tensor) -> None:
    """RuntimeError unless a kernel can be run on the device of q."""
    if q.device.type != "cuda" and not INTERPRETED:
        raise RuntimeError(
            f"{scheme}: the Triton kernel needs tensors on a GPU, got `q` on {q.device}; move them there, or set "
            "TRITON_INTERPRET=1 before Python starts, which interprets it on a CPU, slowly."
        )


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(
        call: Call, q: Tensor, k: Tensor, v: Tensor, bias: Tensor, cosine: Tensor, sine: Tensor
    ) -> tuple[Tensor, Tensor]:
        q, k, v = (x if x.stride(-1) == 1 else x.contiguous() for x in (q, k, v))
        B, H, Lq, _ = q.shape
        dtype = torch.float32 if INTERPRETED else q.dtype  # what is stored in 16 bits is wrong in the interpreter
        out = q.new_empty((B, H, Lq, v.shape[-1]), dtype=dtype)
        divisor = q.new_empty((B, H, Lq), dtype=torch.float32)
        sizes = _sizes(call, q, k, v)
        grid = (triton.cdiv(Lq, sizes["ROWS"]), B * H)
        if out.numel():
            forward[grid](q, k, v, bias, cosine, sine, _columns(call, q), out, divisor, *_steps(call, q, k, v), **sizes)
        return out.to(q.dtype), divisor

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: tuple) -> None:
        ctx.call, *tensors = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(*tensors, *output)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, bias, cosine, sine, out, divisor = ctx.saved_tensors
        q, k, v = (x if x.stride(-1) == 1 else x.contiguous() for x in (q, k, v))
        call, gradient = ctx.call, gradient.to(q.dtype).contiguous()
        delta = (gradient.float() * out.float()).sum(-1)
        found = [torch.zeros(x.shape, dtype=torch.float32, device=q.device) for x in (q, k, v, bias)]
        sizes, steps = _sizes(call, q, k, v), _steps(call, q, k, v)
        same = (q, k, v, gradient, bias, cosine, sine, _columns(call, q), divisor, delta)
        learned = ctx.needs_input_grad[4] and call.hook.kind == LINE
        if out.numel():
            rows = (triton.cdiv(q.shape[2], sizes["ROWS"]), q.shape[0] * q.shape[1])
            of_queries[rows](*same, found[0], found[3], *steps, LEARNED=learned, **sizes)
            of_keys[(triton.cdiv(k.shape[2], sizes["KEYS"]), k.shape[0] * k.shape[1])](*same, *found[1:3], *steps, **sizes)
        grads = (x.to(y.dtype) for x, y in zip(found[:3], (q, k, v), strict=True))
        return None, *grads, found[3] if learned else None, None, None


def _columns(call: Call, q: Tensor) -> Tensor:
    return q.new_empty(0, dtype=torch.int64) if call.hook.columns is None else call.hook.columns.to(q.device).contiguous()


def _steps(call: Call, q: Tensor, k: Tensor, v: Tensor) -> tuple[Any, ...]:
    strides = (step for x in (q, k, v) for step in x.stride()[:3])
    return *strides, q.shape[1], q.shape[2], k.shape[2], call.offset, call.scale


def _sizes(call: Call, q: Tensor, k: Tensor, v: Tensor) -> dict[str, Any]:
    """What a kernel is compiled for."""
    D, Dv = q.shape[-1], v.shape[-1]
    half = (D + 1) // 2
    rows, keys = (32, 32) if INTERPRETED else (64, 64)
    return {
        "GROUP": q.shape[1] // k.shape[1], "HALF": half, "DIM": D, "PADDED": max(triton.next_power_of_2(half), LEAST),
        "VALUES": Dv, "VALUES_PADDED": max(triton.next_power_of_2(Dv), LEAST), "HOOK": call.hook.kind,
        "TURNED": call.hook.columns is not None, "CAUSAL": call.causal, "WIDEN": INTERPRETED, "ROWS": rows, "KEYS": keys,
    }  # fmt: skip
