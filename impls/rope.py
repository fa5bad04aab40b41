"""rope: queries and keys turned pair by pair: written out, in one pass over memory, from a growing table.

    (x'_a, x'_b) = μ · (x_a cos pθ_m − x_b sin pθ_m,  x_a sin pθ_m + x_b cos pθ_m)     θ_m = base^(−2m/r), or scaled

Angles are formed in float64 whatever the dtype of x, and μ·cosine and μ·sine rounded once. 16-bit inputs are turned in
float32 and rounded at the end.
"""

from functools import partial

import torch
from torch import Tensor, nn

from relpos.impls._attention import DTYPES, attend, visible, working
from relpos.impls._cache import KVCache, Window
from relpos.impls._rotation import Context, angles, context_of, magnitude, turned
from relpos.impls._steps import stepped
from relpos.impls._turning import turned_once
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
        self.settings = settings
        self._begin(None)

    def forward(self, x: Tensor, offset: int, *, sequence_length: int | None = None) -> Tensor:
        if self.settings.length_dependent:
            context = offset + x.shape[-2] if sequence_length is None else sequence_length
            context = max(context, self.settings.max_position or 0)  # all that are not longer share a table
            if context != self._context:
                self._begin(context)
        dtype = working(x.dtype).to_complex()
        return turned_once(self.settings, x, self._table(offset, offset + x.shape[-2], dtype, x.device))

    def _begin(self, context: int | None) -> None:
        self._context = context
        self._table = Window(partial(self._rows, context), dim=0)

    def _rows(self, context: int | None, positions: Tensor, dtype: torch.dtype, device: torch.device) -> Tensor:
        return torch.complex(*(part.to(dtype.to_real()) for part in _cosines(self.settings, positions.to(device), context)))


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
        self._cache = KVCache()
        self._afresh = settings.length_dependent

    @torch.no_grad()
    def step(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Outputs [B, H, n, D] of n new tokens; q [B, H, n, D], k and v [B, Hkv, n, D]."""
        start = self._cache.length
        keys, values = self._cache.append(k if self._afresh else self._rotary(k, start), v)
        keys = self._rotary(keys, 0) if self._afresh else keys
        return stepped(self._rotary(q, start), keys, values, start)


def _cosines(settings: RoPE, positions: Tensor, context: Context | None) -> tuple[Tensor, Tensor]:
    found, gain = angles(settings, positions, context), magnitude(settings)
    return found.cos() * gain, found.sin() * gain


def _turns(settings: RoPE, positions: Tensor, x: Tensor, context: Context | None) -> tuple[Tensor, Tensor]:
    cosine, sine = _cosines(settings, positions.to(x.device), context)
    return cosine.to(working(x.dtype)), sine.to(working(x.dtype))
