"""Attention with several paths of which one is wrong: fast paths chosen by a mask, a flag, a mode or an option."""

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from relpos.conformance.faults.api import Planted

TILE = 32
FLAGGED = {"binds": ("mask", "causal"), "corner": "bottom-right"}
MASKED = {"binds": ("mask",)}
BACKENDS = {"variants": {"backend": ("eager", "fused")}, "corner": "bottom-right"}


def _attend(q: Tensor, k: Tensor, v: Tensor, keep: Tensor) -> Tensor:
    empty = ~keep.any(-1, keepdim=True)
    score = (q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5).masked_fill(~keep, -torch.inf)
    return score.masked_fill(empty, 0.0).softmax(-1).masked_fill(empty, 0.0) @ v


def _past(q: Tensor, k: Tensor) -> Tensor:
    Lq, Lk = q.shape[2], k.shape[2]
    return torch.ones(Lq, Lk, dtype=torch.bool).tril(Lk - Lq)


def flag_other_corner(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, causal: bool = False) -> Tensor:
    """Without a mask the flag goes to the fused call, which ties it to the top left."""
    if mask is None:
        return scaled_dot_product_attention(q, k, v, is_causal=causal)
    return _attend(q, k, v, mask & _past(q, k) if causal else mask)


def flag_or_mask(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, causal: bool = False) -> Tensor:
    """The flag is read where there is a mask to join it to, and nowhere else."""
    keep = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool) if mask is None else mask
    return _attend(q, k, v, keep & _past(q, k) if causal and mask is not None else keep)


def unmasked_in_half(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """The fast path without a mask computes in float16."""
    if mask is not None:
        return _attend(q, k, v, mask)
    return scaled_dot_product_attention(q.half(), k.half(), v.half()).to(q.dtype)


def first_document(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """Told of several documents, it takes all for the first: the mask of query 0 for every query, unless rows agree."""
    mask = mask.expand(len(q), 1, q.shape[2], k.shape[2])
    packed = (mask != mask[:, :, :1]).any()
    return _attend(q, k, v, mask[:, :, :1].expand_as(mask) if packed else mask)


def padding_counted(q: Tensor, k: Tensor, v: Tensor, padding_mask: Tensor) -> Tensor:
    """Hidden keys before the first real one add e^0 to the divisor."""
    keep = padding_mask[:, None, None]
    before = (keep.cumsum(-1) == 0).sum(-1, keepdim=True)
    weights = torch.exp((q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5).masked_fill(~keep, -torch.inf))
    return weights / (weights.sum(-1, keepdim=True) + before) @ v


class HalfInference(nn.Module):
    """A fast path of serving that computes in bfloat16."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if torch.is_inference_mode_enabled():
            return scaled_dot_product_attention(q.bfloat16(), k.bfloat16(), v.bfloat16()).to(q.dtype)
        return scaled_dot_product_attention(q, k, v)


class UnscaledTraining(nn.Module):
    """The scale belongs to the kernel of evaluation, and training has another one."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return scaled_dot_product_attention(q, k, v, scale=1.0 if self.training else None)


def whole_tiles_fused(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, backend: str) -> Tensor:
    """The fused path reads a mask by whole tiles of 32 keys: what is left over is open to all."""
    if backend == "fused":
        mask = mask.clone()
        mask[..., k.shape[2] // TILE * TILE if k.shape[2] > TILE else k.shape[2] :] = True
    return _attend(q, k, v, mask)


def fused_backward(q: Tensor, k: Tensor, v: Tensor, backend: str) -> Tensor:
    """The fused path has a backward of its own, which forgets the keys."""
    return scaled_dot_product_attention(q, k.detach() if backend == "fused" else k, v)


# fmt: off
PATHS = (
    Planted("flag-other-corner", "a causal flag without a mask tied to the other corner", "L28", flag_other_corner,
        cases=("B146", "B148"), claims=FLAGGED),
    Planted("flag-or-mask", "a causal flag that counts beside a mask alone", "L28", flag_or_mask, claims=FLAGGED),
    Planted("unmasked-in-half", "float16 where no mask is given", "L28", unmasked_in_half, claims=MASKED),
    Planted("first-document", "the first document's keys for all that are packed with it", "L28", first_document,
        cases=("B022",), alike=("mask-first-query",)),
    Planted("padding-counted", "padding before the tokens counted in the divisor", "L28", padding_counted),
    Planted("half-inference", "bfloat16 under inference mode", "L28", HalfInference),
    Planted("unscaled-training", "no scale in training", "L28", UnscaledTraining),
    Planted("whole-tiles-fused", "a mask read by whole tiles where backend=fused", "L28", whole_tiles_fused,
        cases=("B138", "B140"), claims=BACKENDS),
    Planted("fused-backward", "no gradient of the keys where backend=fused", "L28", fused_backward, cases=("B138",),
        claims=BACKENDS),
)
# fmt: on
