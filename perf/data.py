"""Inputs of one round, the limit they are first given to, and what a call is in each mode."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from relpos.conformance.precision import torch_dtype
from relpos.perf.point import Shape

Call = Callable[[], Tensor]


class Data:
    """q, k, v of one round, shared by all variants of a shape, and the cotangent of the output."""

    def __init__(self, shape: Shape, seed: int) -> None:
        dtype, B, H, D = torch_dtype(shape.dtype), shape.batch, shape.heads, shape.head_dim

        def empty(length: int) -> Tensor:
            return torch.empty(B, H, length, D, device=shape.device, dtype=dtype)

        self.q, self.k, self.v = empty(shape.query_length), empty(shape.key_length), empty(shape.key_length)
        self.cotangent = empty(shape.query_length)
        self.refill(seed)

    @property
    def tensors(self) -> dict[str, Tensor]:
        """All of them, by name."""
        return {"q": self.q, "k": self.k, "v": self.v, "cotangent": self.cotangent}

    def refill(self, seed: int) -> None:
        """Other numbers in the same places."""
        drawn = torch.Generator().manual_seed(seed)
        for tensor in self.tensors.values():
            tensor.copy_(torch.randn(tensor.shape, generator=drawn))

    def leaves(self, *, differentiable: bool) -> dict[str, Tensor]:
        """The inputs as fresh leaves, so that gradients of one call are not those of another."""
        return {name: getattr(self, name).detach().requires_grad_(differentiable) for name in ("q", "k", "v")}


def limit(shape: Shape, data: Data, *, backward: bool = True) -> Call:
    """The same attention without any position scheme; without `backward`, only what precedes it. Of a rotation: two copies."""
    leaves = data.leaves(differentiable=shape.mode == "forward_backward")
    if shape.mode == "rotation":
        return torch.no_grad()(lambda: first_of(leaves["q"].clone(), leaves["k"].clone()))
    causal = shape.causal and shape.mode != "decode"
    call = lambda: scaled_dot_product_attention(leaves["q"], leaves["k"], leaves["v"], is_causal=causal)  # noqa: E731
    return moded(shape, data, leaves, call) if backward else call


def moded(shape: Shape, data: Data, leaves: Mapping[str, Any], call: Call) -> Call:
    """With gradients of all that is differentiable, or without recording any."""
    if shape.mode != "forward_backward":
        return torch.no_grad()(call)
    learned = [leaf for leaf in leaves.values() if isinstance(leaf, Tensor)]

    def both() -> Tensor:
        for leaf in learned:
            leaf.grad = None
        out = call()
        out.backward(data.cotangent)
        return out.detach()

    return both


def first_of(query: Tensor, key: Tensor) -> Tensor:
    """The first of two that both had to be made."""
    del key
    return query
