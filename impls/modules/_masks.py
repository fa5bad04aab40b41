"""A mask as it is given, read into the four axes of the scores; what could be read in two ways is refused.

[B, Lk]          padding: the same keys for every query of a sample. With B = Lq it could as well be [Lq, Lk]: refused
[B, Lq, Lk]      the same for every head; [B, 1, Lk] is padding, [1, Lq, Lk] the same for every sample, never ambiguous
[B, H, Lq, Lk]   any axis but the last may have size 1
"""

from typing import Literal, get_args

import torch
from torch import Tensor

from relpos.impls.modules._checks import refusal

Sense = Literal["true_keeps", "true_drops", "additive"]
SENSES = get_args(Sense)


def read_mask(
    where: str, mask: Tensor | None, sense: Sense | None, shape: tuple[int, int, int, int]
) -> tuple[Tensor | None, Tensor | None]:
    """Which keys are seen, boolean, and what is added to the scores; each None or broadcastable to shape [B, H, Lq, Lk].

    An additive entry of −inf, or of the lowest number of the mask's dtype, drops the key.
    """
    if mask is None:
        if sense is not None:
            raise refusal(where, "mask_sense", "left out without a mask", repr(sense))
        return None, None
    _check_sense(where, mask, sense)
    mask = _four_axes(where, mask, shape)
    if sense == "additive":
        return mask > torch.finfo(mask.dtype).min, mask
    return (mask if sense == "true_keeps" else ~mask), None


def _check_sense(where: str, mask: Tensor, sense: Sense | None) -> None:
    if sense not in SENSES:
        required = f"one of {', '.join(map(repr, SENSES))} when a mask is given"
        raise refusal(where, "mask_sense", required, repr(sense), "PyTorch's own modules disagree on what True means: say it.")
    if sense == "additive" and not mask.dtype.is_floating_point:
        hint = "0 keeps and −inf drops; a boolean mask has another sense."
        raise refusal(where, "mask", 'of a floating dtype under mask_sense="additive"', mask.dtype, hint)
    if sense != "additive" and mask.dtype != torch.bool:
        hint = 'Convert 0 and 1 with .bool(); numbers to be added have the sense "additive".'
        raise refusal(where, "mask", f'boolean under mask_sense="{sense}"', mask.dtype, hint)


def _four_axes(where: str, mask: Tensor, shape: tuple[int, int, int, int]) -> Tensor:
    B, _, Lq, Lk = shape
    if mask.ndim == 2 and mask.shape == (B, Lk):
        if Lq == B and B > 1:
            raise ValueError(
                f"{where}: `mask` of shape {list(mask.shape)} could be [B, Lk] or [Lq, Lk], because B = Lq = {B}. "
                f"Write {_unambiguous(shape)}."
            )
        return mask[:, None, None, :]
    wide = mask[:, None] if mask.ndim == 3 else mask
    if wide.ndim != 4 or wide.shape[3] != Lk or any(wide.shape[a] not in (1, shape[a]) for a in range(3)):
        required = "of shape [B, Lk], [B, Lq, Lk] or [B, H, Lq, Lk] with B, H, Lq, Lk = " + ", ".join(map(str, shape))
        raise refusal(where, "mask", required, list(mask.shape), f"An axis of size 1 is shared: {_unambiguous(shape)}.")
    return wide


def _unambiguous(shape: tuple[int, int, int, int]) -> str:
    B, _, Lq, Lk = shape
    return f"mask[:, None] ([{B}, 1, {Lk}]) for padding, mask[None] ([1, {Lq}, {Lk}]) for one mask of all samples"
