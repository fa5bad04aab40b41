"""xpos: queries and keys turned pair by pair, and stretched by powers that grow in queries and shrink in keys.

    (x'_a, x'_b) = ζ_m^(±(p − c)/S) · (x_a cos pθ_m − x_b sin pθ_m,  x_a sin pθ_m + x_b cos pθ_m)

Angles and powers are formed in float64 and rounded once, as in `rope.py`; the middle c of the context cancels in q·k.
"""

import torch
from torch import Tensor, nn

from relpos.impls._attention import DTYPES, attend, visible, working
from relpos.impls._cache import KVCache, Window
from relpos.impls._rotation import Context, Plain, angles, context_of, turned, width
from relpos.impls._steps import stepped
from relpos.impls._turning import turned_once
from relpos.impls.card import implements
from relpos.spec.xpos import XPos

ALONE = {"level": "contribution", "binds": ("sequence_length",), "dtypes": DTYPES}


@implements("xpos", positions="per_row", memory="B*H*L*D", **ALONE)
def rotate(settings: XPos, x: Tensor, positions: Tensor, role: str, *, sequence_length: Context | None = None) -> Tensor:
    """x [..., L, D], queries or keys by `role`, at positions [L] or [B, L], in contexts of so many tokens, one or [B]."""
    positions = positions.to(x.device)
    found = angles(_rotation(settings), positions)
    context = context_of(positions) if sequence_length is None else sequence_length
    gain = _gains(settings, positions, role, context)
    dtype = working(x.dtype)
    return turned(_rotation(settings), x, (found.cos() * gain).to(dtype), (found.sin() * gain).to(dtype))


@implements("xpos", positions="offset", **ALONE)
class Stretching(nn.Module):
    """Turns and stretches x [..., L, D], whose row 0 is at `offset`: angles from a growing table, powers at every call."""

    def __init__(self, settings: XPos) -> None:
        super().__init__()
        self.settings = settings
        self._table = Window(self._rows, dim=1)

    def forward(self, x: Tensor, offset: int, role: str, *, sequence_length: int | None = None) -> Tensor:
        stop, dtype = offset + x.shape[-2], working(x.dtype)
        cosine, sine = self._table(offset, stop, dtype, x.device)
        at = torch.arange(offset, stop, device=x.device)
        gain = _gains(self.settings, at, role, stop if sequence_length is None else sequence_length).to(dtype)
        return turned_once(_rotation(self.settings), x, torch.complex(cosine * gain, sine * gain))

    def _rows(self, positions: Tensor, dtype: torch.dtype, device: torch.device) -> Tensor:
        found = angles(_rotation(self.settings), positions.to(device))
        return torch.stack((found.cos(), found.sin())).to(dtype)


@implements(
    "xpos",
    level="attention",
    positions="per_row",
    binds=("mask", "causal", "scale", "num_kv_heads", "sequence_length"),
    dtypes=DTYPES,
    memory="B*H*Lq*Lk + B*H*Lq*D + B*H*Lk*D",
)
def attention(
    settings: XPos,
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
    """Attention [B, H, Lq, D]; without `causal`, keys after a query gain weight with their distance."""
    context = context_of(query_positions, key_positions) if sequence_length is None else sequence_length
    q = rotate(settings, q, query_positions, "query", sequence_length=context)
    k = rotate(settings, k, key_positions, "key", sequence_length=context)
    return attend(q, k, v, visible=visible(query_positions, key_positions, mask, causal), scale=scale)


@implements("xpos", level="attention", dtypes=DTYPES)
class Decoder:
    """Causal decoding: keys are kept as they came and stretched at every step, since the middle of the context moves."""

    def __init__(self, settings: XPos) -> None:
        self._stretching = Stretching(settings)
        self._cache = KVCache("xpos")

    @torch.no_grad()
    def step(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Outputs [B, H, n, D] of n new tokens; q [B, H, n, D], k and v [B, Hkv, n, D]."""
        self._cache.check(k, v, q)
        start = self._cache.length
        keys, values = self._cache.append(k, v, q)
        q, keys = self._stretching(q, start, "query"), self._stretching(keys, 0, "key")
        return stepped(q, keys, values, start)


def _rotation(settings: XPos) -> Plain:
    return Plain(settings.head_dim, settings.rotary_dim, settings.base)


def _gains(settings: XPos, positions: Tensor, role: str, context: Context) -> Tensor:
    """Powers of positions [L] or [B, L] in contexts, one or [B]: float64 [L, r/2] or [B, 1, L, r/2]."""
    if role not in ("query", "key"):
        raise ValueError(f"xpos: `role` must be 'query' or 'key', got {role!r}: they are stretched in opposite ways.")
    r = width(_rotation(settings))
    zeta = (torch.arange(0, r, 2, dtype=torch.float64, device=positions.device) + 0.4 * r) / (1.4 * max(r, 1))
    lengths = torch.as_tensor(context, device=positions.device)
    middle = (lengths + 1 if settings.centre == "ceil" else lengths).div(2, rounding_mode="floor")
    power = (positions - (middle.unsqueeze(-1) if middle.ndim else middle)).to(torch.float64) / settings.scale_base
    gain = zeta ** (power if role == "query" else -power).unsqueeze(-1)
    return gain.unsqueeze(-3) if gain.ndim > 2 else gain
