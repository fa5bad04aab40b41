"""swin_v2: the network evaluated once per offset of a window, or for any tokens, and cosine attention under its bias.

    logit[b, h, i, j] = cos(q_i, k_j) · exp(min(τ_h, ln 100)) + 16 · sigmoid(V · relu(U · c + b))

Coordinates c are computed in float32 at least. Of what is kept between calls nothing is learned: coordinates and rows.
"""

from collections.abc import Mapping, Sequence
from math import log, prod

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, normalize

from relpos.impls._attention import DTYPES, LOW, mixed, shared_heads, softmax, working
from relpos.impls._windows import Index, grid, nowhere, rows
from relpos.impls.card import implements
from relpos.spec.swin_v2 import SwinV2

WEIGHT_STD = 0.02
LARGEST = log(100)
NAMES = ("cpb_in", "cpb_bias", "cpb_out")


@implements("swin_v2", level="contribution", positions="per_row", dtypes=DTYPES, max_position=2**30)
def bias(settings: SwinV2, params: Mapping[str, Tensor], query_positions: Tensor, key_positions: Tensor) -> Tensor:
    """The bias, [H, Lq, Lk], or [B, H, Lq, Lk] for positions [B, L, n]; a token at `NOWHERE` has bias 0.

    params   cpb_in [hidden, n], cpb_bias [hidden], cpb_out [H, hidden]
    """
    weights = [params[name] for name in NAMES]
    apart = query_positions.unsqueeze(-2) - key_positions.unsqueeze(-3)
    found = _network(_coordinates(settings, apart, working(weights[0].dtype)), *weights).movedim(-1, -3)
    without = nowhere(query_positions).unsqueeze(-1) | nowhere(key_positions).unsqueeze(-2)
    return found.masked_fill(without.unsqueeze(-3), 0.0).to(weights[0].dtype)


def content(settings: SwinV2, params: Mapping[str, Tensor], q: Tensor, k: Tensor) -> Tensor:
    """Cosines times the temperature of every head, [B, H, Lq, Lk] in the working dtype, in place of scale · q·k."""
    del settings
    return _cosines(params["logit_scale"], q, k)


@implements("swin_v2", level="attention", positions="per_row", binds=("mask",), dtypes=DTYPES, max_position=2**30)
def attention(
    settings: SwinV2,
    params: Mapping[str, Tensor],
    q: Tensor,
    k: Tensor,
    v: Tensor,
    query_positions: Tensor,
    key_positions: Tensor,
    *,
    mask: Tensor | None = None,
) -> Tensor:
    """Attention [B, H, Lq, D]; q [B, H, Lq, D], k and v [B, Hkv, Lk, D], positions [L, n] or [B, L, n]."""
    exact = {name: params[name].to(working(q.dtype)) for name in NAMES}
    added = bias(settings, exact, query_positions, key_positions)
    added = added if added.ndim == 4 else added.unsqueeze(0)
    return mixed(softmax(content(settings, params, q, k) + added, mask), v).to(q.dtype)


@implements("swin_v2", level="attention", binds=("mask",), dtypes=DTYPES)
class WindowAttention(nn.Module):
    """Cosine attention inside whole windows, one per sample, with its network; `mask` hides other regions."""

    def __init__(self, settings: SwinV2) -> None:
        super().__init__()
        self.settings = settings
        shapes = settings.parameters()
        self.cpb_in, self.cpb_bias = nn.Parameter(torch.empty(shapes["cpb_in"])), nn.Parameter(torch.empty(shapes["cpb_bias"]))
        self.cpb_out = nn.Parameter(torch.empty(shapes["cpb_out"]))
        self.logit_scale = nn.Parameter(torch.empty(shapes["logit_scale"]))
        self._rows, self._offsets = Index(), Index()
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Weights from a normal distribution of deviation 0.02, no bias, a temperature of 10, as the authors begin."""
        nn.init.normal_(self.cpb_in, std=WEIGHT_STD)
        nn.init.normal_(self.cpb_out, std=WEIGHT_STD)
        nn.init.zeros_(self.cpb_bias)
        nn.init.constant_(self.logit_scale, log(10))

    def bias(self) -> Tensor:
        """The bias of the whole window, [H, N, N], in the working dtype: the network runs once per offset."""
        window, device, dtype = tuple(self.settings.window_size), self.cpb_in.device, working(self.cpb_in.dtype)
        offsets = self._offsets(_every_offset, window, device)
        line = _network(_coordinates(self.settings, offsets, dtype), self.cpb_in, self.cpb_bias, self.cpb_out)
        found = line.index_select(0, self._rows(_every_pair, window, device))
        return found.T.unflatten(-1, (prod(window), prod(window)))

    def forward(self, q: Tensor, k: Tensor, v: Tensor, *, mask: Tensor | None = None) -> Tensor:
        score = _cosines(self.logit_scale, q, k) + self.bias()
        return mixed(softmax(score, mask), v).to(q.dtype)


def _coordinates(settings: SwinV2, apart: Tensor, dtype: torch.dtype) -> Tensor:
    """Log-spaced coordinates of offsets, query minus key, [..., n]."""
    d = apart.to(dtype)
    if settings.coordinates == "paper":
        return torch.sign(d) * torch.log1p(d.abs())
    windows: Sequence[int] = settings.pretrained_window_size or settings.window_size
    u = d * torch.tensor([8 / max(W - 1, 1) for W in windows], dtype=dtype, device=d.device)
    return torch.sign(u) * torch.log2(1 + u.abs()) / 3


def _network(c: Tensor, cpb_in: Tensor, cpb_bias: Tensor, cpb_out: Tensor) -> Tensor:
    """16 · sigmoid(V · relu(U · c + b)), [..., H], never in 16 bits."""
    with torch.autocast(c.device.type, enabled=False):
        units = torch.relu(linear(c, cpb_in.to(c.dtype), cpb_bias.to(c.dtype)))
        return 16 * torch.sigmoid(linear(units, cpb_out.to(c.dtype)))


def _cosines(logit_scale: Tensor, q: Tensor, k: Tensor) -> Tensor:
    dtype = torch.float32 if q.dtype in LOW else q.dtype
    temperature = logit_scale.to(dtype).clamp(max=LARGEST).exp().view(-1, 1, 1)
    q, k = (normalize(x.to(dtype), dim=-1) for x in (q, shared_heads(k, q.shape[1])))
    # Autocast multiplies in 16 bits; what follows must not.
    return (q @ k.transpose(-1, -2)).to(dtype) * temperature


def _every_offset(window: tuple[int, ...], device: torch.device) -> Tensor:
    """All offsets in the order of their rows, [offsets, n]."""
    return grid([2 * W - 1 for W in window], device=device) - torch.tensor([W - 1 for W in window], device=device)


def _every_pair(window: tuple[int, ...], device: torch.device) -> Tensor:
    at = grid(window, device=device)
    return rows(window, at, at, "query_minus_key")[0].flatten()
