"""Faults of no position encoding: a position term that should not be there, and attention itself gone wrong."""

import torch
from torch import Tensor

from relpos.conformance.faults.api import Fault, Planted
from relpos.conformance.faults.kept import OF_NONE
from relpos.conformance.faults.none_paths import PATHS
from relpos.conformance.faults.transformed import PLANTED
from relpos.conformance.plan import Inputs
from relpos.spec.alibi import ALiBi
from relpos.spec.rope import RoPE

TILE = 32
TRACED = 8
LINEAR = "B*H*Lq*D + B*H*Lk*D"
SCORES = ("logits", "attention")
LAST = {"corner": "bottom-right"}  # queries are the last ones, so that there may be fewer of them than keys


def _turned(i: Inputs) -> Inputs:
    D = i.q.shape[-1]
    return i.but(settings=RoPE(head_dim=D, rotary_dim=D - D % 2))


def _biased(i: Inputs) -> Inputs:
    return i.but(settings=ALiBi(num_heads=i.q.shape[1]))


def _score(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5


def empty_row_nan(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """softmax of a row of −inf."""
    return _score(q, k).masked_fill(~mask, -torch.inf).softmax(-1) @ v


def finite_mask(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """A mask of −10⁴, as half precision needs it; a row that sees nothing is erased."""
    weights = _score(q, k).masked_fill(~mask, -1e4).softmax(-1)
    return (weights @ v).masked_fill(~mask.any(-1, keepdim=True), 0.0)


def empty_row_gradient_nan(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """The NaN of an empty row is erased, but 0 · NaN comes back in the gradient."""
    return empty_row_nan(q, k, v, mask).masked_fill(~mask.any(-1, keepdim=True), 0.0)


def masked_after_softmax(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """Hidden keys take part in the softmax; a large one swallows the others."""
    weights = _score(q, k).softmax(-1) * mask
    total = weights.sum(-1, keepdim=True)
    return (weights / total.masked_fill(~mask.any(-1, keepdim=True), 1.0)) @ v


def poisoned_values(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """Weight 0 times NaN is NaN."""
    empty = ~mask.any(-1, keepdim=True)
    weights = _score(q, k).masked_fill(~mask, -torch.inf).masked_fill(empty, 0.0).softmax(-1)
    return weights.masked_fill(empty, 0.0) @ v


def head_for_length(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attends over heads: right for one token and one head."""
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    return (_score(q, k).softmax(-1) @ v).transpose(1, 2)


def whole_tiles(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Keys beyond the last whole tile of 32 are forgotten."""
    kept = max(k.shape[2] // TILE * TILE, min(k.shape[2], TILE))
    return _score(q, k[:, :, :kept]).softmax(-1) @ v[:, :, :kept]


def tiles_of_48(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """One key past the last whole tile of 48 is forgotten."""
    kept = k.shape[2] - (k.shape[2] % 48 == 1 and k.shape[2] > 1)
    return _score(q, k[:, :, :kept]).softmax(-1) @ v[:, :, :kept]


def late_keys_untrained(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """A backward that walks the first 64 keys only."""
    early, late = k[:, :, : 2 * TILE], k[:, :, 2 * TILE :].detach()
    return _score(q, torch.cat([early, late], dim=2)).softmax(-1) @ v


def late_queries_untrained(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """A backward that walks the first 64 queries only."""
    early, late = q[:, :, : 2 * TILE], q[:, :, 2 * TILE :].detach()
    return _score(torch.cat([early, late], dim=2), k).softmax(-1) @ v


def tail_seen(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """Beyond the first 64 keys the mask is not read."""
    keep = torch.cat([mask[..., : 2 * TILE], torch.ones_like(mask[..., 2 * TILE :])], dim=-1)
    score = _score(q, k).masked_fill(~keep, -torch.inf)
    empty = ~keep.any(dim=-1, keepdim=True)
    return score.masked_fill(empty, 0.0).softmax(-1).masked_fill(empty, 0.0) @ v


def strides_assumed(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Keys are read as if they lay one after another, as a kernel that never asks for strides does."""
    _, H, Lk, D = k.shape
    room = k.untyped_storage().nbytes() // k.element_size() - k.storage_offset()
    assumed = (H * Lk * D, Lk * D, D, 1)
    return _score(q, k.as_strided(k.shape, assumed if room >= k.numel() else k.stride())).softmax(-1) @ v


def columns_assumed(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Strides are asked for, but columns are read as if they lay side by side."""
    B, H, Lk, D = k.shape
    ends = 1 + sum((n - 1) * s for n, s in zip((B, H, Lk), k.stride()[:3], strict=True)) + D - 1
    room = k.untyped_storage().nbytes() // k.element_size() - k.storage_offset()
    return _score(q, k.as_strided(k.shape, (*k.stride()[:3], 1)) if ends <= room else k).softmax(-1) @ v


def queries_checked(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Declines queries whose columns lie apart, and does not look at keys and values."""
    if q.stride(-1) != 1:
        raise ValueError("columns of q must lie side by side")
    return columns_assumed(q, k, v)


def strides_assumed_ragged(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """As above, but only where a mask comes with keys shared by stride 0, and one key lies over the last whole tile."""
    if k.stride(1) == 0 and k.shape[1] > 1 and k.shape[2] % TILE == 1 and not mask.all():
        k = k.roll(1, 2)
    empty = ~mask.any(-1, keepdim=True)
    weights = _score(q, k).masked_fill(~mask, -torch.inf).masked_fill(empty, 0.0).softmax(-1)
    return weights.masked_fill(empty, 0.0) @ v


def eight_keys_compiled(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """A path for the compiler that was written for eight keys."""
    kept = TRACED if torch.compiler.is_compiling() else k.shape[2]
    return _score(q, k[:, :, :kept]).softmax(-1) @ v[:, :, :kept]


def scores_formed(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Claims the memory of a fused kernel and forms the scores."""
    return _score(q, k).softmax(-1) @ v


def padding_one_late(q: Tensor, k: Tensor, v: Tensor, padding_mask: Tensor) -> Tensor:
    """Leaves 0 at padding, as many do, but one token late: real ones lose their output."""
    keep = padding_mask[:, None, None, :]
    out = _score(q, k).masked_fill(~keep, -torch.inf).softmax(-1) @ v
    return out.masked_fill(~padding_mask.roll(1, dims=1)[:, None, :, None], 0.0)


class UnmaskedChunk:
    """A decoder whose step hides nothing: tokens that arrive together see one another."""

    def __init__(self) -> None:
        self.kept: list[tuple[Tensor, Tensor]] = []

    def step(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        self.kept.append((k, v))
        keys, values = (torch.cat(pieces, dim=2) for pieces in zip(*self.kept, strict=True))
        return _score(q, keys).softmax(-1) @ values


class ForgetfulDecoder(UnmaskedChunk):
    """A decoder that keeps the last four keys only."""

    def step(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return torch.cat([self._one(*(x[:, :, n : n + 1] for x in (q, k, v))) for n in range(q.shape[2])], dim=2)

    def _one(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        self.kept = self.kept[-3:]
        return super().step(q, k, v)


class PaddingForgotten:
    """A decoder that reads the padding mask of a step's own tokens and forgets those of earlier ones."""

    def __init__(self) -> None:
        self.kept: list[tuple[Tensor, Tensor]] = []

    def step(self, q: Tensor, k: Tensor, v: Tensor, padding_mask: Tensor) -> Tensor:
        self.kept.append((k, v))
        keys, values = (torch.cat(pieces, dim=2) for pieces in zip(*self.kept, strict=True))
        there = torch.arange(keys.shape[2])
        old = torch.ones(len(q), len(there) - q.shape[2], dtype=torch.bool)
        keep = torch.cat([old, padding_mask], dim=1)[:, None, None] & (there <= there[-q.shape[2] :, None])
        return _score(q, keys).masked_fill(~keep, -torch.inf).softmax(-1) @ values


# fmt: off
FAULTS = (
    Fault("turned", "a rotation that is on by default", "L1", given=_turned, cases=("B129",), levels=SCORES),
    Fault("biased", "a distance bias where there should be none", "L1", given=_biased, levels=SCORES),
    Planted("empty-row-nan", "NaN for a query without keys", "L8", empty_row_nan, cases=("B135",)),
    Planted("empty-row-gradient-nan", "a NaN gradient beside an empty row", "L8", empty_row_gradient_nan,
        cases=("B135",)),
    Planted("masked-after-softmax", "the mask applied after the softmax", "L8", masked_after_softmax, cases=("B137",),
        claims=LAST),
    Planted("poisoned-values", "NaN of hidden values in the output", "L8", poisoned_values, cases=("B137",),
        claims=LAST | {"masked_nan": True}),
    Planted("finite-mask", "a mask of −10⁴, above what may be seen", "L8", finite_mask, claims=LAST),
    Planted("whole-tiles", "keys beyond the last whole tile forgotten", "L25", whole_tiles),
    Planted("tiles-of-48", "one key past tiles of 48 forgotten", "L25", tiles_of_48),
    Planted("tail-seen", "masks read for the first tiles of keys only", "L25", tail_seen),
    Planted("late-keys-untrained", "no gradient for keys beyond the first tiles", "L20", late_keys_untrained),
    Planted("late-queries-untrained", "no gradient for queries beyond the first tiles", "L20", late_queries_untrained),
    Planted("strides-assumed", "keys read as if they were contiguous", "L25", strides_assumed),
    Planted("columns-assumed", "columns of keys read as if they lay side by side", "L25", columns_assumed),
    Planted("queries-checked", "columns of queries checked, and of keys assumed, to lie side by side", "L25", queries_checked),
    Planted("strides-assumed-ragged", "keys of stride 0 read as contiguous, with a mask and one key over", "L25",
        strides_assumed_ragged, cases=("B140",), claims=LAST),
    Planted("eight-keys-compiled", "eight keys, once compiled", "L24", eight_keys_compiled),
    Planted("scores-formed", "scores formed where the card says that they are not", "L22", scores_formed,
        claims={"memory": LINEAR}),
    Planted("head-for-length", "heads and length exchanged", "L1", head_for_length),
    Planted("padding-one-late", "the output of the token behind padding left at 0", "L5", padding_one_late),
    Planted("unmasked-chunk", "tokens of one step that see one another", "L3", UnmaskedChunk),
    Planted("forgetful", "a cache that drops old keys", "L3", ForgetfulDecoder),
    Planted("padding-forgotten", "padding of earlier steps seen in later ones", "L3", PaddingForgotten),
    *PATHS,
    *OF_NONE,
    *PLANTED,
)
# fmt: on
