"""sinusoidal: a fixed vector of sines and cosines for every position, computed or looked up in a growing table.

    e[p] = layout(sin(p · θ), cos(p · θ))        θ_m = base^(−2m/D), or base^(−m/(n−1)), n = ⌊D/2⌋, under "t2t"

Angles are formed in float64 and rounded once, after the sine: float32 angles at position 2^17 are off by 4e-3.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from relpos.impls._attention import DTYPES, attend, visible, working
from relpos.impls._cache import Window
from relpos.impls.card import implements
from relpos.spec.sinusoidal import Sinusoidal


@implements(
    "sinusoidal", level="contribution", positions="per_row", binds=("dtype", "device"), dtypes=DTYPES, max_position=2**32,
    memory="L*D",
)  # fmt: skip
def encode(
    settings: Sinusoidal, positions: Tensor, *, dtype: torch.dtype = torch.float32, device: torch.device | None = None
) -> Tensor:
    """The vectors of the positions: [L] -> [L, D], [B, L] -> [B, L, D]."""
    device = positions.device if device is None else torch.device(device)
    angles = positions.to(device, torch.float64).unsqueeze(-1) * _frequencies(settings, device)
    return _laid_out(settings, angles.sin(), angles.cos()).to(dtype)


def _frequencies(settings: Sinusoidal, device: torch.device) -> Tensor:
    width = settings.embed_dim
    if settings.layout == "t2t":
        exponents = torch.arange(width // 2, dtype=torch.float64, device=device) / max(width // 2 - 1, 1)
    else:
        exponents = torch.arange(0, width, 2, dtype=torch.float64, device=device) / width
    return settings.base**-exponents


def _laid_out(settings: Sinusoidal, sines: Tensor, cosines: Tensor) -> Tensor:
    width = settings.embed_dim
    if settings.layout == "interleaved":
        return torch.stack((sines, cosines), dim=-1).flatten(-2)[..., :width]
    columns = torch.cat((sines, cosines), dim=-1)
    # An odd width: "t2t" lacks a column, "halves" has one cosine too many.
    return pad(columns, (0, width - columns.shape[-1])) if settings.layout == "t2t" else columns[..., :width]


@implements(
    "sinusoidal", level="contribution", positions="offset", dtypes=DTYPES, binds=("dtype", "device"), max_position=2**32
)
class Table(nn.Module):
    """The vectors of contiguous positions, [L, D], from a table that grows as it is asked for more."""

    def __init__(self, settings: Sinusoidal) -> None:
        super().__init__()
        self.settings = settings
        self._table = Window(self._rows, dim=0)

    def forward(
        self, query_length: int, offset: int, dtype: torch.dtype = torch.float32, device: torch.device | None = None
    ) -> Tensor:
        device = torch.device("cpu" if device is None else device)
        rows = self._table(offset, offset + query_length, dtype, device)
        return rows.clone()  # the caller may write into it; the table must not notice

    def _rows(self, positions: Tensor, dtype: torch.dtype, device: torch.device) -> Tensor:
        return encode(self.settings, positions, dtype=dtype, device=device)


@implements(
    "sinusoidal", level="attention", positions="per_row", binds=("mask", "causal", "scale"), dtypes=DTYPES,
    max_position=2**32, memory="B*H*Lq*Lk + B*H*Lq*D + B*H*Lk*D",
)  # fmt: skip
def attention(
    settings: Sinusoidal,
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
    """Attention [B, H, Lq, D] over q + e, k + e, v + e; q [B, H, Lq, D], k and v [B, Hkv, Lk, D]."""
    out = attend(
        _added(settings, q, query_positions),
        _added(settings, k, key_positions),
        _added(settings, v, key_positions),
        visible=visible(query_positions, key_positions, mask, causal),
        scale=scale,
    )
    return out.to(q.dtype)


def _added(settings: Sinusoidal, x: Tensor, positions: Tensor) -> Tensor:
    vectors = encode(settings, positions, dtype=working(x.dtype), device=x.device)
    return x + (vectors.unsqueeze(1) if positions.ndim > 1 else vectors)
