"""Refusals of what is given to a module: which argument, what was required, what came, what to do."""

from typing import Any

import torch
from torch import Tensor


def refusal(where: str, argument: str, required: str, got: Any, hint: str = "") -> ValueError:
    """The error. Forward passes raise it under an `if`: a sentence built in vain would pin a compiled length."""
    tail = f" {hint}" if hint else ""
    return ValueError(f"{where}: `{argument}` must be {required}, got {got}.{tail}")


def require(where: str, argument: str, ok: bool, required: str, got: Any, hint: str = "") -> None:
    """Raise the refusal unless `ok`."""
    if not ok:
        raise refusal(where, argument, required, got, hint)


def check_input(where: str, argument: str, x: Tensor, embed_dim: int, batch: int | None = None) -> None:
    """Refuse an input that is not [B, L, embed_dim], or not of that batch."""
    if x.ndim != 3 or x.shape[2] != embed_dim or (batch is not None and x.shape[0] != batch):
        B = "B" if batch is None else batch
        raise refusal(where, argument, f"of shape [B, L, E] = [{B}, L, {embed_dim}]", list(x.shape))


def check_positions(
    where: str, argument: str, positions: Tensor | None, length: int | None = None, batch: int | None = None, axes: int = 1
) -> None:
    """Refuse positions that are not whole numbers of shape [L] or [B, L]; on several axes [L, axes] or [B, L, axes]."""
    if not isinstance(positions, Tensor):
        got, hint = (
            type(positions).__name__,
            "torch.arange(L) counts from 0." if axes == 1 else "List the place of every token.",
        )
        raise refusal(where, argument, "a tensor of whole numbers", got, hint)
    if positions.dtype.is_floating_point or positions.dtype.is_complex or positions.dtype == torch.bool:
        hint = "Convert them with .long(); float16 and bfloat16 have merged far ones before."
        raise refusal(where, argument, "whole numbers", positions.dtype, hint)
    tokens = positions.shape if axes == 1 else positions.shape[:-1]
    one_each = (length is None or tokens[-1:] == (length,)) and (axes == 1 or positions.shape[-1:] == (axes,))
    rows = len(tokens) == 1 or (len(tokens) == 2 and batch in (None, tokens[0]))
    if not (one_each and rows):
        L, B, n = ("L" if length is None else length), ("B" if batch is None else batch), "" if axes == 1 else f", {axes}"
        required = f"of shape [L{n}] = [{L}{n}] or [B, L{n}] = [{B}, {L}{n}]"
        raise refusal(where, argument, required, list(positions.shape), "Give every token one position.")
