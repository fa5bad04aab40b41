"""rope: queries and keys turned pair by pair: written out, in one pass over memory, from a growing table, by a compiled loop.

    (x'_a, x'_b) = μ · (x_a cos pθ_m − x_b sin pθ_m,  x_a sin pθ_m + x_b cos pθ_m)     θ_m = base^(−2m/r), or scaled

Angles are formed in float64 whatever the dtype of x, and μ·cosine and μ·sine rounded once. 16-bit inputs are turned in
float32 and rounded at the end.
"""

import torch
from torch import Tensor, nn

from relpos.impls._attention import DTYPES, attend, visible, working
from relpos.impls._cache import KVCache, Window
from relpos.impls._rotation import Context, angles, context_of, magnitude, turned
from relpos.impls._steps import stepped
from relpos.impls._turning import turned_in_a_loop, turned_once
from relpos.impls.card import implements
from relpos.spec.rope import RoPE

ALONE = {"level": "contribution", "binds": ("sequence_length",), "dtypes": DTYPES, "max_position": 2**32}


@implements("rope", positions="per_row", memory="B*H*L*D", double_backward=True, **ALONE)
def rotate(settings: RoPE, x: Tensor, positions: Tensor, *, sequence_length: Context | None = None) -> Tensor:
    """x [..., L, D] turned to its positions [L], or [B, L] for x [B, H, L, D]; columns without a partner untouched.

    Dynamic scaling alone looks at `sequence_length`, one number or one per sample [B]; None: the largest position + 1.
    """
    return turned(settings, x, *_turns(settings, positions, x, sequence_length))


@implements("rope", positions="per_row", memory="B*H*L*D", **ALONE)
def rotate_complex(settings: RoPE, x: Tensor, positions: Tensor, *, sequence_length: Context | None = None) -> Tensor:
    """The same as one complex product, (x_a + i·x_b) · μ e^(i·pθ_m), by the rotation engine: one pass over x."""
    return turned_once(settings, x, torch.complex(*_turns(settings, positions, x, sequence_length)))


@implements("rope", positions="offset", **ALONE)
class Rotary(nn.Module):
    """Turns x [..., L, D], whose row 0 is at position `offset`, in one pass, by a table of μ e^(i·pθ_m) that grows as needed.

    Under dynamic scaling a table belongs to one length: another length begins another table.
    """

    def __init__(self, settings: RoPE) -> None:
        super().__init__()
        self.settings, self._table = settings, _Table(settings, paired=True)

    def forward(self, x: Tensor, offset: int, *, sequence_length: int | None = None) -> Tensor:
        return turned_once(self.settings, x, self._table(x, offset, sequence_length))


@implements("rope", positions="offset", **ALONE)
class Fused(nn.Module):
    """`Rotary` as a loop that PyTorch's compiler makes, for halves and for bfloat16; the first call on long x takes seconds."""

    def __init__(self, settings: RoPE) -> None:
        super().__init__()
        self.settings, self._apart = settings, _Table(settings, paired=False)
        self._rotary = Rotary(settings)

    def forward(self, x: Tensor, offset: int, *, sequence_length: int | None = None) -> Tensor:
        if self.settings.layout == "half" or x.dtype == torch.bfloat16:
            return turned_in_a_loop(self.settings, x, *self._apart(x, offset, sequence_length))
        return self._rotary(x, offset, sequence_length=sequence_length)  # a complex product has no need of a loop


@implements(
    "rope",
    level="attention",
    positions="per_row",
    binds=("mask", "causal", "scale", "num_kv_heads", "sequence_length"),
    dtypes=DTYPES,
    max_position=2**32,
    memory="B*H*Lq*Lk + B*H*Lq*D + B*H*Lk*D",
)
def attention(
    settings: RoPE,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    query_positions: Tensor,
    key_positions: Tensor,
    *,
    mask: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
    sequence_length: Context | None = None,
) -> Tensor:
    """Attention [B, H, Lq, D] of turned queries and keys; keys are turned before heads share them."""
    if settings.length_dependent and sequence_length is None:
        sequence_length = context_of(query_positions, key_positions)
    q = rotate(settings, q, query_positions, sequence_length=sequence_length)
    k = rotate(settings, k, key_positions, sequence_length=sequence_length)
    return attend(q, k, v, visible=visible(query_positions, key_positions, mask, causal), scale=scale)


@implements("rope", level="attention", dtypes=DTYPES, max_position=2**32)
class Decoder:
    """Causal decoding: keys are turned once, when they arrive, and kept turned.

    Under dynamic scaling they are kept as they came and turned at every step: a longer context turns all of them otherwise.
    """

    def __init__(self, settings: RoPE) -> None:
        self._rotary = Rotary(settings)
        self._cache = KVCache("rope")
        self._afresh = settings.length_dependent

    @torch.no_grad()
    def step(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Outputs [B, H, n, D] of n new tokens; q [B, H, n, D], k and v [B, Hkv, n, D]."""
        self._cache.check(k, v, q)
        start = self._cache.length
        keys, values = self._cache.append(k if self._afresh else self._rotary(k, start), v, q)
        keys = self._rotary(keys, 0) if self._afresh else keys
        return stepped(self._rotary(q, start), keys, values, start)


class _Table:
    """μ cos pθ_m and μ sin pθ_m of positions in order, paired as complex numbers or one after another, kept and extended."""

    def __init__(self, settings: RoPE, *, paired: bool) -> None:
        self._settings, self._paired = settings, paired
        self._begin(None)

    def __call__(self, x: Tensor, offset: int, sequence_length: int | None) -> Tensor:
        """For x [..., L, D], whose row 0 is at `offset`, in its working dtype: [L, r/2], or [2, L, r/2]."""
        if self._settings.length_dependent:
            context = offset + x.shape[-2] if sequence_length is None else sequence_length
            context = max(context, self._settings.max_position or 0)  # all that are not longer share a table
            if context != self._context:
                self._begin(context)
        dtype = working(x.dtype)
        return self._kept(offset, offset + x.shape[-2], dtype.to_complex() if self._paired else dtype, x.device)

    def _begin(self, context: int | None) -> None:
        self._context = context
        self._kept = Window(self._rows, dim=0 if self._paired else 1)

    def _rows(self, positions: Tensor, dtype: torch.dtype, device: torch.device) -> Tensor:
        found = [part.to(dtype.to_real()) for part in _cosines(self._settings, positions.to(device), self._context)]
        return torch.complex(*found) if self._paired else torch.stack(found)


def _cosines(settings: RoPE, positions: Tensor, context: Context | None) -> tuple[Tensor, Tensor]:
    found, gain = angles(settings, positions, context), magnitude(settings)
    return found.cos() * gain, found.sin() * gain


def _turns(settings: RoPE, positions: Tensor, x: Tensor, context: Context | None) -> tuple[Tensor, Tensor]:
    cosine, sine = _cosines(settings, positions.to(x.device), context)
    return cosine.to(working(x.dtype)), sine.to(working(x.dtype))
