"""What a decode keeps between steps: keys and values of the tokens so far, and where they are."""

import torch
from torch import Tensor

from relpos.impls._cache import KVCache
from relpos.impls.modules._checks import refusal


class Past:
    """Keys and values [B, Hkv, L, D] as they were projected, not yet turned, and their positions."""

    def __init__(self) -> None:
        self._cache = KVCache("MultiHeadAttention")
        self._kind: tuple[int, torch.dtype, torch.device] | None = None
        self._listed: Tensor | None = None  # positions that were given, [B, L]; None: they count from 0

    @property
    def length(self) -> int:
        """Tokens so far."""
        return self._cache.length

    def place(self, where: str, x: Tensor, positions: Tensor | None) -> Tensor:
        """Positions of the new tokens x [B, n, E]: [n] that count on, or the given ones, [B, n]."""
        if self._kind is not None and (positions is None) != (self._listed is None):
            words = ("listed", "left out") if positions is None else ("left out", "given")
            hint = "They are listed in every step of a sequence or in none; reset() begins another."
            raise refusal(where, "positions", f"{words[0]}, as in the steps before", words[1], hint)
        if positions is None:
            return torch.arange(self.length, self.length + x.shape[1], device=x.device)
        return positions.expand(len(x), -1)

    def append(self, where: str, k: Tensor, v: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Take in new keys and values; all keys, values and positions so far."""
        kind = (len(k), k.dtype, k.device)
        if self._kind not in (None, kind):
            required = "of the batch size, dtype and device of the steps before, {}, {}, {}".format(*self._kind)
            raise refusal(where, "x", required, "{}, {}, {}".format(*kind), "reset() begins another sequence.")
        self._kind = kind
        keys, values = self._cache.append(k, v)
        if positions.ndim == 1:
            return keys, values, torch.arange(self.length, device=k.device)
        self._listed = positions if self._listed is None else torch.cat((self._listed, positions), dim=1)
        return keys, values, self._listed
