"""A decode under a bias of the distance alone: one new token costs a slice of a line, never a matrix.

    tokens so far 0 … t      bias of the new query t      line[−t]  …  line[−1]  line[0]
                             and of the next, t + 1       line[−t − 1]  …  line[−1]  line[0]

Numbers of distances are kept, for twice as many as there are tokens, and computed again when they run out. Heads that share
keys are asked together, as so many queries of one head, so that no key is copied. A prompt of many tokens goes through the
Toeplitz engine, which forms no matrix either.

Cost over attention's own Lk·D per head and step: Lk additions, and a view.
Source: keys and values kept, heads that share them asked together, as in Shazeer (Fast Transformer Decoding, 2019).
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import pad

from relpos.impls._attention import default_scale, fused, group_size, working
from relpos.impls._toeplitz import under_line

Line = Callable[[int, int, torch.dtype, torch.device], Tensor]  # first, one past the last distance → numbers [H or 1, n]


def stepped(
    q: Tensor, keys: Tensor, values: Tensor, start: int, line: Line | None = None, *, scale: float | None = None
) -> Tensor:
    """Outputs [B, H, n, Dv] of new queries from position `start` on, of keys [B, Hkv, start + n, D] from position 0 on.

    Without a line there is no bias.
    """
    n, dtype = q.shape[2], working(q.dtype)
    biases = None if line is None else line(1 - start - n, n, dtype, q.device)
    if n == 1:
        return _one(q, keys, values, biases, scale)
    biases = q.new_zeros((1, 2 * n + start - 1), dtype=dtype) if biases is None else biases
    return under_line(biases, q, keys, values, offset=start, causal=True, scale=default_scale(q, scale))


class Past:
    """A function of distances, its numbers on −n + 1 … 0 kept; `compute(distances, dtype)` has them at `dim`, −1 or −2.

    Of a prompt some keys lie ahead of some queries, which nobody sees: there it is 0.
    """

    def __init__(self, compute: Callable[[Tensor, torch.dtype], Tensor], *, dim: int = -1) -> None:
        self._compute, self._dim = compute, dim
        self._for: tuple[torch.dtype, torch.device] | None = None
        self._held = torch.empty(0, 0)

    def __call__(self, first: int, last: int, dtype: torch.dtype, device: torch.device) -> Tensor:
        if self._for != (dtype, device) or self._held.shape[self._dim] < 1 - first:
            # Built normal even under inference_mode: a later step may be taken outside of it.
            with torch.inference_mode(False), torch.no_grad():
                self._held = self._compute(torch.arange(2 * first - 1, 1, device=device), dtype)
            self._for = (dtype, device)
        found = self._held.narrow(self._dim, self._held.shape[self._dim] + first - 1, 1 - first)
        return found if last == 1 else pad(found, (*(0, 0) * (-self._dim - 1), 0, last - 1))


def _one(q: Tensor, k: Tensor, v: Tensor, line: Tensor | None, scale: float | None) -> Tensor:
    """Attention of a single query, [B, H, 1, Dv], under a line of biases [H or 1, Lk]."""
    B, H, _, D = q.shape
    size = group_size(k.shape[1], H)
    if size == 1:
        return fused(q, k, v, mask=None if line is None else line.unsqueeze(-2).unsqueeze(0), scale=scale)
    mask = None if line is None else line.expand(H, -1).unflatten(0, (-1, size)).unsqueeze(0)
    return fused(q.reshape(B, -1, size, D), k, v, mask=mask, scale=scale).reshape(B, H, 1, -1)
