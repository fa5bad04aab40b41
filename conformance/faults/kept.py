"""Faults of what is kept: scores beyond the call, tables longer than any call, numbers that a copy loses."""

import torch
from torch import Tensor, nn

from relpos.conformance.faults.api import Planted
from relpos.spec.alibi import ALiBi

SYMMETRIC = {"distance": "symmetric"}
QUADRATIC = "B*H*Lq*Lk + B*H*Lq*D + B*H*Lk*D"
LONGER = 16  # a table is so many times longer than what is asked


def _score(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5


def _slopes(settings: ALiBi) -> Tensor:
    return torch.tensor(settings.slopes(), dtype=torch.float32)


def _bias(slopes: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor:
    return -slopes[:, None, None] * (query_positions[:, None] - key_positions).abs()


class ScoresKept(nn.Module):
    """Every layer holds its scores until it is called again."""

    def __init__(self) -> None:
        super().__init__()
        self.scores: Tensor | None = None

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        self.scores = _score(q, k)
        return self.scores.softmax(-1) @ v


class ScoresKeptByLength(nn.Module):
    """A matrix of zeros for every pair of lengths, made in the first call of them and never let go of."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[tuple[int, int], Tensor] = {}

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        size = (q.shape[2], k.shape[2])
        if size not in self.kept:
            self.kept[size] = q.new_zeros(size)
        return (_score(q, k) + self.kept[size]).softmax(-1) @ v


class LongTable(nn.Module):
    """A line of distances many times longer than the call that asks for it."""

    def __init__(self, settings: ALiBi) -> None:
        super().__init__()
        self.settings = settings
        self.line = torch.zeros(settings.num_heads, 0)

    def forward(self, query_length: int, key_length: int, offset: int) -> Tensor:
        far = LONGER * (query_length + key_length + offset)
        if self.line.shape[1] < far:
            self.line = _slopes(self.settings)[:, None] * torch.arange(far)
        i, j = torch.arange(offset, offset + query_length)[:, None], torch.arange(key_length)
        return -self.line[:, (i - j).abs()]


class LostInPickle(nn.Module):
    """What is not a parameter is left out when it is pickled, and made anew with as many heads as it does not know."""

    def __init__(self, settings: ALiBi) -> None:
        super().__init__()
        self.heads, self.slopes = settings.num_heads, _slopes(settings)

    def __getstate__(self) -> dict:
        return {name: value for name, value in self.__dict__.items() if name != "slopes"}

    def __setstate__(self, state: dict) -> None:
        super().__setstate__(state)
        self.slopes = 2.0 ** -torch.arange(1.0, self.heads + 1)

    def __deepcopy__(self, memo: dict) -> "LostInPickle":
        twin = LostInPickle.__new__(LostInPickle)
        twin.__dict__.update({n: v.clone() if isinstance(v, Tensor) else v for n, v in self.__dict__.items()})
        return twin

    def forward(self, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        return _bias(self.slopes, query_positions, key_positions)


OF_NONE = (
    Planted("scores-kept", "scores that every layer keeps until its next call", "L22", ScoresKept, ("B152",),
        claims={"memory": QUADRATIC}),
    Planted("scores-kept-by-length", "a matrix kept for every pair of lengths", "L22", ScoresKeptByLength, ("B152",),
        claims={"memory": QUADRATIC}),
)  # fmt: skip
OF_ALIBI = (
    Planted("long-table", "a table many times longer than any call", "L22", LongTable, ("B154",), SYMMETRIC,
        {"memory": "H*Lq*Lk"}),
    Planted("lost-in-pickle", "slopes that a pickle leaves out", "L23", LostInPickle, (), SYMMETRIC),
)  # fmt: skip
