"""Inputs that all variants of a shape share, and a copy of them: who writes into them is named, and nobody else sees it."""

import torch
from torch import Tensor

from relpos.perf.data import Data
from relpos.perf.point import Shape

WORDS = {"cotangent": "the gradient of its output"}
BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


class Guarded:
    """q, k, v and the cotangent of one shape, refilled in place: what is cached by their address is then wrong.

    Comparing reads all of them, after every call of whatever variant: the next one finds them as warm as any other does.
    """

    def __init__(self, shape: Shape, seed: int) -> None:
        self.data, self._kept = Data(shape, seed), Data(shape, seed)

    def refill(self, seed: int) -> None:
        """Numbers that nobody has seen, where the old ones were."""
        self._kept.refill(seed)
        self._put_right()

    def written(self) -> list[str]:
        """Those that are no longer what they were; they are put right."""
        kept = self._kept.tensors
        found = [WORDS.get(name, name) for name, x in self.data.tensors.items() if not same_bits(x, kept[name])]
        if found:
            self._put_right()
        return found

    def _put_right(self) -> None:
        for name, x in self.data.tensors.items():
            x.data.copy_(self._kept.tensors[name])


def same_bits(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors hold the same bits, NaN and the sign of zero among them."""
    bits = BITS[a.element_size()]
    return torch.equal(a.detach().contiguous().view(bits), b.detach().contiguous().view(bits))
