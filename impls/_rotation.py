"""What rotations share: frequencies under every scaling, angles in a context, and pairs of columns taken out and put back.

Angles are formed in float64 whatever the dtype of x: float32 angles at position 2^17 are off by 4e-3, bfloat16 positions
are wrong from 257 on. A context is a number or a tensor, one per sample: no path depends on its value.
"""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from relpos.spec.rope import RoPE

Context = int | Tensor


class Plain(NamedTuple):
    """A rotation as far as this file reads settings, without scaling: a tuple, which a compiler can make."""

    head_dim: int
    rotary_dim: int | None
    base: float
    layout: str = "interleaved"
    partial: str = "leading"
    scaling: str = "none"


def width(settings: RoPE | Plain) -> int:
    """Columns that are turned."""
    return settings.head_dim if settings.rotary_dim is None else settings.rotary_dim


def context_of(*positions: Tensor) -> Context:
    """The largest position + 1, of every sample where positions differ per sample."""
    last: Context = 0
    for each in positions:
        if each.shape[-1]:
            highest = each.amax(-1) + 1
            last = torch.maximum(highest, last) if isinstance(last, Tensor) else highest
    return last


def frequencies(settings: RoPE | Plain, device: torch.device, context: Context | None = None) -> Tensor:
    """Radians per position, float64 [r/2]; in contexts [B] under dynamic scaling, [B, r/2]."""
    s: Any = settings  # a rule has what it needs, which the annotations of the fields do not say
    whole = s.head_dim if s.partial == "proportional" else width(s)
    exponents = torch.arange(0, width(s), 2, dtype=torch.float64, device=device) / max(whole, 1)
    if s.scaling == "dynamic":
        return _enlarged(s, device, whole, context).unsqueeze(-1) ** -exponents
    if s.scaling == "ntk":
        return (s.base * s.factor ** (whole / (whole - 2))) ** -exponents
    plain = s.base**-exponents
    if s.scaling == "none":
        return plain
    slow = plain / s.factor
    if s.scaling == "linear":
        return slow
    return torch.lerp(slow, plain, _yarn_weight(s, exponents) if s.scaling == "yarn" else _llama3_weight(s, plain))


def _enlarged(s: Any, device: torch.device, whole: int, context: Context | None) -> Tensor:
    trained = s.max_position
    longest = torch.as_tensor(trained if context is None else context, dtype=torch.float64, device=device).clamp(min=trained)
    return s.base * (s.factor * longest / trained - (s.factor - 1)) ** (whole / (whole - 2))


def _between(values: Tensor, low: float, high: float) -> Tensor:
    """0 below low, 1 above high, a straight line from one to the other."""
    return ((values - low) / (high - low)).clamp(0, 1)


def _llama3_weight(s: Any, plain: Tensor) -> Tensor:
    low, high = (d if given is None else given for given, d in ((s.low_freq_factor, 1.0), (s.high_freq_factor, 4.0)))
    wavelengths = 2 * math.pi / plain
    return _between(s.original_max_position / wavelengths, low, high)


def _yarn_weight(s: Any, exponents: Tensor) -> Tensor:
    fast, slow = (d if given is None else given for given, d in ((s.beta_fast, 32.0), (s.beta_slow, 1.0)))
    if s.ramp == "paper":
        return _between(s.original_max_position * s.base**-exponents / (2 * math.pi), slow, fast)
    r = width(s)
    first, last = (r / 2 * math.log(s.original_max_position / (2 * math.pi * beta), s.base) for beta in (fast, slow))
    if s.truncate:
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, r - 1)
    pairs = torch.arange(len(exponents), dtype=torch.float64, device=exponents.device)
    return 1 - _between(pairs, first, last if last > first else first + 1e-3)


def magnitude(settings: RoPE | Plain) -> float:
    """What cosine and sine are multiplied by, once."""
    s: Any = settings
    if s.scaling != "yarn":
        return 1.0
    if s.attention_factor is not None:
        return s.attention_factor
    above, below = (1.0, 0.0) if s.mscale is None else (s.mscale, s.mscale_all_dim)
    return (1 + above * math.log(s.factor) / 10) / (1 + below * math.log(s.factor) / 10)


def angles(settings: RoPE | Plain, positions: Tensor, context: Context | None = None) -> Tensor:
    """Angles of positions [L] or [B, L], float64 [L, r/2] or [B, 1, L, r/2]: the same for all heads."""
    if settings.scaling == "dynamic" and context is None:
        context = context_of(positions)
    theta = frequencies(settings, positions.device, context)
    theta = theta.unsqueeze(-2) if theta.ndim > 1 else theta
    found = positions.to(torch.float64).unsqueeze(-1) * theta
    return found.unsqueeze(-3) if found.ndim > 2 else found


def turned(settings: RoPE | Plain, x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """x [..., L, D] with its pairs turned, in the dtype of x."""
    a, b = split(settings, x.to(cosine.dtype))
    return joined(settings, x, a * cosine - b * sine, a * sine + b * cosine)


def split(settings: RoPE | Plain, x: Tensor) -> tuple[Tensor, Tensor]:
    """First and second columns of all pairs, each [..., r/2]."""
    r = width(settings)
    if settings.layout == "interleaved":
        return x[..., 0:r:2], x[..., 1:r:2]
    apart = settings.head_dim // 2 if settings.partial == "proportional" else r // 2
    return x[..., : r // 2], x[..., apart : apart + r // 2]


def joined(settings: RoPE | Plain, x: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """The pairs back in their columns; all other columns are those of x."""
    r = width(settings)
    if settings.layout == "interleaved":
        return torch.cat((torch.stack((a, b), dim=-1).flatten(-2).to(x.dtype), x[..., r:]), dim=-1)
    a, b = a.to(x.dtype), b.to(x.dtype)
    apart = settings.head_dim // 2 if settings.partial == "proportional" else r // 2
    return torch.cat((a, x[..., r // 2 : apart], b, x[..., apart + r // 2 :]), dim=-1)


def pairable(x: Tensor, dtype: torch.dtype) -> bool:
    """Whether pairs of columns can be seen as one number of twice the size where they lie."""
    even = all(step % 2 == 0 for step, n in zip(x.stride()[:-1], x.shape[:-1], strict=True) if n > 1)
    return x.dtype == dtype and x.stride(-1) == 1 and even and x.storage_offset() % 2 == 0
