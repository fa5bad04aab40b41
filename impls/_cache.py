"""What is kept between calls: keys and values of a decode, and values of a function of position over a growing window."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


class KVCache:
    """Keys and values seen so far, in buffers that double when full, so that appending costs what is appended.

    No gradient flows through it: a later step writes into the buffer an earlier one has read.
    """

    def __init__(self, scheme: str) -> None:
        self.scheme, self.length = scheme, 0
        self._keys: Tensor | None = None
        self._values: Tensor | None = None

    def append(self, k: Tensor, v: Tensor, q: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Take in k, v [B, Hkv, n, D]; all keys and values so far, as views.

        ValueError: shapes of k, v and of what asks, q, do not fit each other or earlier steps; then nothing is taken in.
        """
        self.check(k, v, k if q is None else q)
        n, start = k.shape[-2], self.length
        stop = start + n
        if self._keys is None or self._values is None or stop > self._keys.shape[-2]:
            # A buffer born under inference_mode could not be written outside of it.
            with torch.inference_mode(False), torch.no_grad():
                self._keys, self._values = (_grown(*pair, start, stop) for pair in ((self._keys, k), (self._values, v)))
        self._keys.narrow(-2, start, n).copy_(k.detach())
        self._values.narrow(-2, start, n).copy_(v.detach())
        self.length = stop
        return self._keys.narrow(-2, 0, stop), self._values.narrow(-2, 0, stop)

    def check(self, k: Tensor, v: Tensor, q: Tensor, held: tuple[Tensor, Tensor] | None = None) -> None:
        """ValueError where a step does not fit itself, or the keys and values that are held, here or elsewhere."""
        keys, values = (self._keys, self._values) if held is None else held
        for name, x in (("q", q), ("k", k), ("v", v)):
            if x.ndim != 4 or not x.is_floating_point():
                raise self._wrong(name, "be a floating tensor [batch, heads, tokens, dim]", f"{x.dtype} {list(x.shape)}")
        B, H, n, D = k.shape
        if v.shape[:3] != k.shape[:3]:
            raise self._wrong("v", f"have batch, heads and tokens of `k`, {[B, H, n]}", str(list(v.shape)))
        if (q.shape[0], q.shape[2], q.shape[3]) != (B, n, D) or q.shape[1] % max(H, 1):
            raise self._wrong("q", f"be [{B}, a multiple of {H} heads, {n}, {D}], as `k` is {[B, H, n, D]}", str(list(q.shape)))
        if keys is None and not n:
            raise self._wrong("k", "hold at least one token in a first step", "none")
        for name, there, x in (("k", keys, k), ("v", values, v)):
            if there is not None and (there.shape[:2] != x.shape[:2] or there.shape[3] != x.shape[3]):
                was = [*there.shape[:2], n, there.shape[3]]
                raise self._wrong(name, f"be {was}, as in earlier steps", f"{list(x.shape)}; begin a new decoder for others")

    def _wrong(self, name: str, required: str, came: str) -> ValueError:
        return ValueError(f"{self.scheme}: `{name}` of a step must {required}; got {came}.")


def _grown(buffer: Tensor | None, x: Tensor, start: int, stop: int) -> Tensor:
    grown = x.new_empty((*x.shape[:-2], max(stop, 2 * start), x.shape[-1]))
    if buffer is not None:
        grown[..., :start, :] = buffer[..., :start, :]
    return grown


class Kept:
    """What is computed of parameters, once for a dtype."""

    def __init__(self, compute: Callable[[torch.dtype], Any]) -> None:
        self._compute, self._dtype, self._held = compute, None, None

    def __call__(self, dtype: torch.dtype) -> Any:
        if self._dtype != dtype:
            # Built normal even under inference_mode: a later step may be taken outside of it.
            with torch.inference_mode(False), torch.no_grad():
                self._held, self._dtype = self._compute(dtype), dtype
        return self._held


class Window:
    """Values of a function of whole numbers on start … stop−1, kept and extended from call to call.

    compute   compute(positions, dtype, device) -> tensor with the positions along `dim`

    The held tensor is replaced, never written to; what `__call__` returns is a view of it, not to be handed out.
    """

    def __init__(self, compute: Callable[[Tensor, torch.dtype, torch.device], Tensor], *, dim: int) -> None:
        self._compute, self._dim = compute, dim
        self._start = self._stop = 0
        self._held: Tensor | None = None

    def __call__(self, start: int, stop: int, dtype: torch.dtype, device: torch.device) -> Tensor:
        if torch.compiler.is_compiling():  # the compiler fuses the function; a graph that holds a table would break
            return self._values(start, stop, dtype, device)
        if not self._holds(start, stop, dtype, device):
            # Built normal even under inference_mode: a training call may have to save it for backward.
            with torch.inference_mode(False), torch.no_grad():
                self._grow(start, stop, dtype, device)
        assert self._held is not None  # it has just been grown
        return self._held.narrow(self._dim, start - self._start, stop - start)

    def _holds(self, start: int, stop: int, dtype: torch.dtype, device: torch.device) -> bool:
        held = self._held
        same = held is not None and held.dtype == dtype and held.device == device
        return same and self._start <= start and stop <= self._stop

    def _grow(self, start: int, stop: int, dtype: torch.dtype, device: torch.device) -> None:
        low, high = min(start, self._start), max(stop, self._stop)
        # A far-away request starts anew; a near one doubles, so that a decode recomputes seldom.
        if self._held is not None and high - low <= 2 * (stop - start + self._stop - self._start):
            start, stop = low, max(high, low + 2 * (self._stop - self._start))
        self._held = self._values(start, stop, dtype, device)
        self._start, self._stop = start, stop

    def _values(self, start: int, stop: int, dtype: torch.dtype, device: torch.device) -> Tensor:
        return self._compute(torch.arange(start, stop, device=device), dtype, device)
