"""Parts of PyTorch that are used where they are there, each with a way that does the same without it, and why which.

`python -m relpos impls` prints what was chosen here. Nothing is chosen by the values of a tensor.
"""

import os
import shutil
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn.functional import scaled_dot_product_attention

from relpos.impls._attention import working


@dataclass(frozen=True)
class Operator:
    """A private operator, or the compiler: what it is for, what stands in for it, whether it is used, and why it is not."""

    name: str
    purpose: str
    instead: str
    used: bool
    lacking: str = f"this PyTorch ({torch.__version__}) has none of that signature"
    there: str = "this PyTorch has it"

    @property
    def reason(self) -> str:
        """Why it is used, or not."""
        return self.there if self.used else self.lacking


ARGUMENTS = ("query", "key", "value", "dropout_p", "is_causal", "attn_mask", "scale")
BACKWARD = ("grad_out", "query", "key", "value", "out", "logsumexp", "dropout_p", "is_causal", "attn_mask", "scale")


def _has(name: str, arguments: tuple[str, ...]) -> bool:
    packet = getattr(torch.ops.aten, name, None)
    return packet is not None and tuple(a.name for a in packet.default._schema.arguments) == arguments


FLASH = Operator(
    "aten._scaled_dot_product_flash_attention_for_cpu",
    "fused attention that also returns the logarithms of its divisors, and its backward",
    "scaled_dot_product_attention forward; backward, the weights are computed once more, block by block",
    _has("_scaled_dot_product_flash_attention_for_cpu", ARGUMENTS)
    and _has("_scaled_dot_product_flash_attention_for_cpu_backward", BACKWARD),
)
CXX = os.environ.get("CXX", "clang++" if sys.platform == "darwin" else "g++")  # as the compiler itself looks for it
COMPILER = Operator(
    "torch.compile",
    "rotations in one loop (rope: Fused), flex_attention without the matrix of all pairs",
    "several passes through a buffer that stays in a cache; flex_attention as it is written, which forms all scores",
    shutil.which(CXX) is not None,
    lacking=f"it needs a C++ compiler, and there is no {CXX} on the path; install one, or name one in CXX",
    there=f"it finds {CXX}",
)
TRANSFORMS = Operator(
    "torch._C._are_functorch_transforms_active",
    "a call that nothing is recorded of goes without the bookkeeping of autograd",
    "autograd.Function, which costs a tenth of a millisecond a call",
    hasattr(torch._C, "_are_functorch_transforms_active") and hasattr(forward_ad, "_current_level"),
)
OPERATORS = (FLASH, COMPILER, TRANSFORMS)


@cache
def compiled(function: Callable[..., Any], *, dynamic: bool | None = None) -> Callable[..., Any]:
    """The function by PyTorch's compiler, one for all callers."""
    with warnings.catch_warnings():  # what it imports warns of its own parts
        warnings.simplefilter("ignore", DeprecationWarning)
        return torch.compile(function, dynamic=dynamic)


def recorded(*tensors: Tensor) -> bool:
    """Whether autograd, forward or backward, or a transform such as vmap may have to know of a call."""
    if not TRANSFORMS.used or torch._C._are_functorch_transforms_active():
        return True
    return forward_ad._current_level >= 0 or (torch.is_grad_enabled() and any(t.requires_grad for t in tensors))


def flash(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """Attention [B, H, n, Dv] and the logarithms of its divisors [B, H, n]; no gradient flows."""
    if FLASH.used and q.device.type == "cpu" and q.shape[-1] == v.shape[-1]:
        q, k, v = (_columns_together(x) for x in (q, k, v))
        return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, False, attn_mask=mask, scale=scale)
    with torch.autocast(q.device.type, enabled=False):
        out = scaled_dot_product_attention(q, k, v, attn_mask=mask.to(q.dtype) if q.device.type != "cpu" else mask, scale=scale)
    wide = working(q.dtype)
    return out, ((q.to(wide) * scale) @ k.to(wide).transpose(-1, -2) + mask).logsumexp(-1)


def _columns_together(x: Tensor) -> Tensor:
    """The operator itself reads the columns of a row one after another, whatever their stride."""
    return x if x.stride(-1) == 1 else x.contiguous()


def flash_backward(
    gradient: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, divisor: Tensor, mask: Tensor, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of q, k and v of `flash`."""
    backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
    gradient, q, k, v, out = (_columns_together(x) for x in (gradient, q, k, v, out))
    return backward(gradient, q, k, v, out, divisor, 0.0, False, attn_mask=mask, scale=scale)
