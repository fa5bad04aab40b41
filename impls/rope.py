"""rope: queries and keys turned pair by pair, from angles computed at each call or from a growing table.

    (x'_a, x'_b) = (x_a cos pθ_m − x_b sin pθ_m,  x_a sin pθ_m + x_b cos pθ_m)     θ_m = base^(−2m/r)

Angles are formed in float64 whatever the dtype of x, and cosine and sine rounded once: float32 angles at position 2^17
are off by 4e-3, bfloat16 positions are wrong from 257 on. 16-bit inputs are turned in float32 and rounded at the end.
"""

import torch
from torch import Tensor, nn

from relpos.impls._attention import DTYPES, attend, contiguous, visible, working
from relpos.impls._cache import KVCache, Window
from relpos.impls.card import implements
from relpos.spec.rope import RoPE


@implements("rope", level="contribution", positions="per_row", dtypes=DTYPES, max_position=2**32, memory="B*H*L*D")
def rotate(settings: RoPE, x: Tensor, positions: Tensor) -> Tensor:
    """x [..., L, D] turned to its positions [L], or [B, L] for x [B, H, L, D]; columns beyond the rotary width untouched."""
    cosine, sine = _turns(settings, positions, x)
    return _turned(settings, x, cosine, sine)


@implements("rope", level="contribution", positions="per_row", dtypes=DTYPES, max_position=2**32, memory="B*H*L*D")
def rotate_complex(settings: RoPE, x: Tensor, positions: Tensor) -> Tensor:
    """The same as one complex product: (x_a + i·x_b) · e^(i·pθ_m)."""
    if _width(settings) == 0:
        return x.clone()
    cosine, sine = _turns(settings, positions, x)
    # Stacking first: view_as_complex accepts neither a strided last axis nor an odd storage offset.
    pairs = torch.view_as_complex(torch.stack(_split(settings, x.to(cosine.dtype)), dim=-1))
    turned = torch.view_as_real(pairs * torch.complex(cosine, sine))
    return _joined(settings, x, *turned.unbind(-1))


@implements("rope", level="contribution", positions="offset", dtypes=DTYPES, max_position=2**32)
class Rotary(nn.Module):
    """Turns x [..., L, D], whose row 0 is at position `offset`, by a table of cosines and sines that grows as needed."""

    def __init__(self, settings: RoPE) -> None:
        super().__init__()
        self.settings = settings
        self._table = Window(self._rows, dim=1)

    def forward(self, x: Tensor, offset: int) -> Tensor:
        cosine, sine = self._table(offset, offset + x.shape[-2], working(x.dtype), x.device)
        return _turned(self.settings, x, cosine, sine)

    def _rows(self, positions: Tensor, dtype: torch.dtype, device: torch.device) -> Tensor:
        angles = _angles(self.settings, positions.to(device))
        return torch.stack((angles.cos(), angles.sin())).to(dtype)


@implements(
    "rope",
    level="attention",
    positions="per_row",
    binds=("mask", "causal", "scale", "num_kv_heads"),
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
) -> Tensor:
    """Attention [B, H, Lq, D] of turned queries and keys; keys are turned before heads share them."""
    q, k = rotate(settings, q, query_positions), rotate(settings, k, key_positions)
    return attend(q, k, v, visible=visible(query_positions, key_positions, mask, causal), scale=scale)


@implements("rope", level="attention", dtypes=DTYPES, max_position=2**32)
class Decoder:
    """Causal decoding: keys are turned once, when they arrive, and kept turned."""

    def __init__(self, settings: RoPE) -> None:
        self._rotary = Rotary(settings)
        self._cache = KVCache()

    @torch.no_grad()
    def step(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Outputs [B, H, n, D] of n new tokens; q [B, H, n, D], k and v [B, Hkv, n, D]."""
        start = self._cache.length
        keys, values = self._cache.append(self._rotary(k, start), v)
        at = contiguous(q.shape[-2], keys.shape[-2], start, q.device)
        return attend(self._rotary(q, start), keys, values, visible=visible(*at, None, True))


def _width(settings: RoPE) -> int:
    return settings.head_dim if settings.rotary_dim is None else settings.rotary_dim


def _angles(settings: RoPE, positions: Tensor) -> Tensor:
    width = _width(settings)
    exponents = torch.arange(0, width, 2, dtype=torch.float64, device=positions.device) / max(width, 1)
    return positions.to(torch.float64).unsqueeze(-1) * settings.base**-exponents


def _turns(settings: RoPE, positions: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    angles = _angles(settings, positions.to(x.device))
    if positions.ndim > 1:
        angles = angles.unsqueeze(-3)  # the same for all heads
    dtype = working(x.dtype)
    return angles.cos().to(dtype), angles.sin().to(dtype)


def _turned(settings: RoPE, x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    a, b = _split(settings, x.to(cosine.dtype))
    return _joined(settings, x, a * cosine - b * sine, a * sine + b * cosine)


def _split(settings: RoPE, x: Tensor) -> tuple[Tensor, Tensor]:
    turning = x[..., : _width(settings)]
    if settings.layout == "interleaved":
        return turning[..., 0::2], turning[..., 1::2]
    half = turning.shape[-1] // 2
    return turning[..., :half], turning[..., half:]


def _joined(settings: RoPE, x: Tensor, a: Tensor, b: Tensor) -> Tensor:
    width = _width(settings)
    turned = torch.stack((a, b), dim=-1).flatten(-2) if settings.layout == "interleaved" else torch.cat((a, b), dim=-1)
    return torch.cat((turned.to(x.dtype), x[..., width:]), dim=-1)
