"""What feeds a library's attention with rows of our own: it stands where a projection of the hidden state stood."""

import torch
from torch import Tensor


class Given(torch.nn.Module):
    """Stands where a projection of the hidden state stood, and gives these rows whatever comes in."""

    def __init__(self, rows: Tensor) -> None:
        super().__init__()
        self.rows = rows

    def forward(self, hidden_states: Tensor) -> Tensor:
        """The rows."""
        del hidden_states
        return self.rows


def as_rows(x: Tensor) -> Tensor:
    """Heads [B, H, L, D] as a projection gives them, [B, L, H·D]."""
    return x.transpose(1, 2).flatten(2)


def as_heads(rows: Tensor, q: Tensor) -> Tensor:
    """Rows [B, L, H·D] as heads, as many and as wide as those of q."""
    return rows.view(q.shape[0], q.shape[2], *q.shape[1::2]).transpose(1, 2)


def nothing(x: Tensor) -> Tensor:
    """Hidden states [B, L, H·D] for heads x, which nobody looks at."""
    return x.new_zeros(x.shape[0], x.shape[2], x.shape[1] * x.shape[3])
