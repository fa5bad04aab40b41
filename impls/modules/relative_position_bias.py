"""A bias that owns what it learns: for attention written by others, which adds it to its logits."""

from typing import Any

import torch
from torch import Tensor, nn

from relpos.impls.modules._checks import check_positions, require
from relpos.impls.modules._schemes import INIT_STD, Asked, check_settings, draw_parameters, name_of, own_parameters

WHERE = "RelativePositionBias"


class RelativePositionBias(nn.Module):
    """The bias of a scheme of form "bias", [H, Lq, Lk], to be added to scaled logits before the softmax.

    settings  of a bias scheme: T5(num_heads=8), Clipped(num_heads=8, max_distance=16), ALiBi(num_heads=8) …
    init_std  deviation of the normal distribution that learned tensors are drawn from; 0.02 is what articles advise

    Learned tensors are parameters under their own names (`table`); a scheme that learns nothing has none. A stack that
    shares one table, as T5 does, shares the module. Multiply by the scale yourself where a setting (`scale_bias`) says so.
    """

    def __init__(self, settings: Any, *, init_std: float = INIT_STD) -> None:
        super().__init__()
        check_settings(WHERE, settings)
        is_bias, hint = settings.form == "bias", "MultiHeadAttention takes schemes of every form."
        require(WHERE, "settings", is_bias, 'of form "bias"', f'{name_of(settings)} of form "{settings.form}"', hint)
        require(WHERE, "init_std", init_std >= 0, "0 or more", init_std)
        self.settings, self.init_std = settings, init_std
        own_parameters(self, settings)
        self._bias = Asked(settings, "bias")
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the learned tensors anew."""
        draw_parameters(self, self.init_std)

    def forward(self, query_positions: Tensor, key_positions: Tensor, *, dtype: torch.dtype | None = None) -> Tensor:
        """The bias, [H, Lq, Lk], or [B, H, Lq, Lk] where positions differ per sample; queries or heads may broadcast.

        query_positions, key_positions  whole numbers, [L] or [B, L]; on n axes [L, n] or [B, L, n]
        dtype                           of the answer; None: the learned tensors' own, float32 where nothing is learned
        """
        axes = getattr(self.settings, "axes", 1)
        check_positions(WHERE, "query_positions", query_positions, axes=axes)
        check_positions(WHERE, "key_positions", key_positions, axes=axes)
        learned = dict(self.named_parameters(recurse=False))
        dtype = dtype or next((parameter.dtype for parameter in learned.values()), torch.float32)
        learned = {name: parameter.to(dtype) for name, parameter in learned.items()}
        at = {"query_positions": query_positions, "key_positions": key_positions}
        offered = {"settings": self.settings, "params": learned, "dtype": dtype, "device": key_positions.device}
        return self._bias(**offered, **learned, **at).to(dtype)

    def extra_repr(self) -> str:
        return repr(self.settings)
