"""Private operators of PyTorch that are used where they are there, each with a public way that does the same, and why which.

`python -m relpos impls` prints what was chosen here. Nothing is chosen by the values of a tensor.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from relpos.impls._attention import working


@dataclass(frozen=True)
class Operator:
    """A private operator, what it is for, what stands in for it, and whether it is used."""

    name: str
    purpose: str
    instead: str
    used: bool

    @property
    def reason(self) -> str:
        """Why it is used, or not."""
        return "this PyTorch has it" if self.used else f"this PyTorch ({torch.__version__}) has none of that signature"


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
OPERATORS = (FLASH,)


def flash(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """Attention [B, H, n, Dv] and the logarithms of its divisors [B, H, n]; no gradient flows."""
    if FLASH.used and q.device.type == "cpu" and q.shape[-1] == v.shape[-1]:
        return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, False, attn_mask=mask, scale=scale)
    with torch.autocast(q.device.type, enabled=False):
        out = scaled_dot_product_attention(q, k, v, attn_mask=mask.to(q.dtype) if q.device.type != "cpu" else mask, scale=scale)
    wide = working(q.dtype)
    return out, ((q.to(wide) * scale) @ k.to(wide).transpose(-1, -2) + mask).logsumexp(-1)


def flash_backward(
    gradient: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, divisor: Tensor, mask: Tensor, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of q, k and v of `flash`."""
    backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
    return backward(gradient, q, k, v, out, divisor, 0.0, False, attn_mask=mask, scale=scale)
