"""Whether what a variant returns may have a figure: a tensor of the right shape, finite, of the inputs that it was given."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import torch
from torch import Tensor

from relpos.perf.point import Shape

SAME_ULPS = {
    2: 4,
    4: 64,
    8: 64,
}  # by bytes of a number: a kernel may add in another order from call to call, and 16 bits are coarse
SAMPLED = 4096  # numbers of an output that are kept of a round


class Wrong(Exception):
    """What a variant did makes its figures none: the reason, in words for the row."""


def tensor_of(found: Any) -> Any:
    """What a call returned; Wrong if it is no tensor."""
    if not hasattr(found, "shape"):
        raise Wrong(f"it returned {'None' if found is None else type(found).__name__}, not a tensor")
    return found


def well_formed(found: Any, shape: Shape) -> Tensor:
    """The output of a call. Wrong: it is no tensor, of another shape, or not finite."""
    wanted = [shape.batch, shape.heads, shape.query_length, shape.head_dim]
    out = tensor_of(found)
    if list(out.shape) != wanted:
        raise Wrong(f"its output has shape {list(out.shape)}, expected {wanted}")
    for word, bad in (("NaN", out.isnan()), ("infinity", out.isinf())):
        if number := int(bad.sum()):
            raise Wrong(f"its output has {word} in {number} of {out.numel()} numbers")
    return out


def sampled(found: Any) -> Tensor | None:
    """A few numbers of an output, by which it is known again; None of what is no tensor."""
    if not isinstance(found, Tensor) or found.numel() == 0:
        return None
    flat = found.detach().reshape(-1)
    return flat[:: max(flat.numel() // SAMPLED, 1)].clone()


def alike(before: Tensor, after: Tensor) -> bool:
    """Whether two outputs are one but for rounding."""
    close = torch.finfo(before.dtype).eps * SAME_ULPS[before.element_size()]
    return torch.equal(before, after) or torch.allclose(before, after, rtol=close, atol=close * float(before.abs().max()))


def check_rounds(seen: Sequence[Tensor], first: Tensor, again: Tensor) -> None:
    """Wrong if a timed call gave something else than what its inputs give.

    seen    numbers of the outputs of all rounds, `sampled`; every round has other inputs
    first   output of the first call, on other inputs; again: of the inputs of the last round, at another address
    """
    if not seen:
        return
    before, now = sampled(first), sampled(again)
    assert before is not None and now is not None
    # Bit by bit: in 16 bits outputs of other inputs may well be near each other.
    if any(torch.equal(a, b) for a, b in combinations((before, *seen), 2)):
        raise Wrong(
            "it gives other inputs the output of an earlier call: it keeps outputs, so that its time is not that of a call"
        )
    if not alike(now, seen[-1]):
        raise Wrong("in the timed loop it gave another output than for the same numbers at another address: what it keeps "
                    "hangs on where its inputs lie, not on what they are")  # fmt: skip
