"""Right implementations that public reports took for faulty: each is right under what it claims, and wrong without."""

import torch
from torch import Tensor, nn

from relpos.conformance.faults.api import Control
from relpos.spec.alibi import ALiBi

CAUSAL = {"softmax": "causal"}
KEY_ONLY = {**CAUSAL, "level": "contribution", "corner": "bottom-right"}
SHIFTED = {**CAUSAL, "level": "logits", "positions": "contiguous", "corner": "bottom-right"}
PLAIN_MUSIC = {
    "max_distance": 16,
    "variant": "masked",
    "per_head": True,
    "value_term": "none",
    "block_length": None,
    "value_dim": None,
}
PLAIN_XL = {"variant": "transformer_xl", "memory_length": None, "segment_length": None, "same_length": False, "clamp_len": None}
SYMMETRIC = {"distance": "symmetric"}


def _slopes(settings: ALiBi) -> Tensor:
    return torch.tensor(settings.slopes(), dtype=torch.float32)[:, None, None]


class KeptForMoreKeys(nn.Module):
    """A line built for the most keys so far, 0 at its own last one, and cut for fewer: its zero moves from call to call."""

    def __init__(self, settings: ALiBi) -> None:
        super().__init__()
        self.settings, self.longest = settings, 0

    def forward(self, query_length: int, key_length: int, offset: int) -> Tensor:
        self.longest = max(self.longest, key_length)
        line = torch.arange(self.longest) - (self.longest - 1)
        return (_slopes(self.settings) * line[:key_length]).expand(-1, query_length, -1)


def one_row(settings: ALiBi, key_length: int) -> Tensor:
    """m·j, a row that broadcasts over all queries."""
    return _slopes(settings) * torch.arange(key_length)


def geometric(num_heads: int, query_positions: Tensor, key_positions: Tensor) -> Tensor:
    """2^(−8h/H), the formula of the text."""
    m = torch.tensor([2 ** (-8 * h / num_heads) for h in range(1, num_heads + 1)])
    return -m[:, None, None] * (query_positions[:, None] - key_positions).abs()


def published(num_heads: int, query_positions: Tensor, key_positions: Tensor) -> Tensor:
    """The rule of the released code."""

    def series(n: int) -> list[float]:
        p = 2 ** (n.bit_length() - 1)
        first = [2 ** (-8 * h / p) for h in range(1, p + 1)]
        return first if p == n else first + series(2 * p)[0::2][: n - p]

    return -torch.tensor(series(num_heads))[:, None, None] * (query_positions[:, None] - key_positions).abs()


def _skewed(x: Tensor) -> Tensor:
    """[…, n, m] with a column put before it, read as [m + 1, n], the first row dropped: rubbish above the diagonal."""
    n, m = x.shape[-2:]
    return nn.functional.pad(x, (1, 0)).reshape(*x.shape[:-2], m + 1, n)[..., 1:, :].reshape(x.shape)


def skewed(q: Tensor, k: Tensor, rel_k: Tensor) -> Tensor:
    """The skew with nothing cut off: whoever hides the future hides what it leaves there."""
    m, M = k.shape[-2], rel_k.shape[-2]
    used = rel_k[:, M - m :] if m <= M else nn.functional.pad(rel_k, (0, 0, m - M, 0))
    return (q @ k.transpose(-1, -2) + _skewed(q @ used.transpose(-1, -2))) * q.shape[-1] ** -0.5


def shifted(q: Tensor, k: Tensor, pos_bias_u: Tensor, pos_bias_v: Tensor, w_pos: Tensor) -> Tensor:
    """Transformer-XL's shift as released: cells after the query hold other queries' terms."""
    m, E = k.shape[-2], w_pos.shape[1]
    theta = 10000.0 ** (-torch.arange(0, E, 2) / E)
    angles = torch.arange(m - 1, -1, -1)[:, None] * theta
    R = torch.cat((angles.sin(), angles.cos()), dim=-1)
    projected = (R @ w_pos.T).unflatten(-1, pos_bias_u.shape).permute(1, 2, 0)
    content = (q + pos_bias_u[:, None]) @ k.transpose(-1, -2)
    return (content + _skewed((q + pos_bias_v[:, None]) @ projected)) * q.shape[-1] ** -0.5


def width_counts(window_size, table: Tensor) -> Tensor:
    """The authors' rows: twice the width less one is the least multiplier under which none collide."""
    height, width = window_size
    at = torch.stack(torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")).flatten(1)
    d = at[:, :, None] - at[:, None, :]
    rows = (d[0] + height - 1) * (2 * width - 1) + d[1] + width - 1
    return table[rows.flatten()].view(*rows.shape, -1).permute(2, 0, 1)


def halves(embed_dim: int, positions: Tensor) -> Tensor:
    """All sines, then all cosines."""
    angles = positions[:, None] * 10000.0 ** (-torch.arange(0, embed_dim, 2, dtype=torch.float64) / embed_dim)
    return torch.cat([angles.sin(), angles.cos()], -1)[:, :embed_dim].float()


def half(x: Tensor, positions: Tensor) -> Tensor:
    """Columns half a head apart are a pair."""
    theta = 10000.0 ** (-torch.arange(0, x.shape[-1], 2) / x.shape[-1])
    c, s = (positions[:, None] * theta).cos(), (positions[:, None] * theta).sin()
    a, b = x.chunk(2, -1)
    return torch.cat([a * c - b * s, a * s + b * c], -1)


def _cornered(q: Tensor, k: Tensor, v: Tensor, diagonal: int) -> Tensor:
    keep = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril(diagonal)
    empty = ~keep.any(-1, keepdim=True)
    score = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    weights = score.masked_fill(~keep, -torch.inf).masked_fill(empty, 0.0).softmax(-1)
    return weights.masked_fill(empty, 0.0) @ v


def bottom_right(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The last query sits on the last key."""
    return _cornered(q, k, v, k.shape[2] - q.shape[2])


def top_left(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The first query sits on the first key."""
    return _cornered(q, k, v, 0)


FORTY = {"num_heads": 40, "bias_max": 8.0, "num_biased_heads": None, **SYMMETRIC}
# fmt: off
REPORTED = (
    Control("kept-for-more-keys", "a bias kept for more keys, and cut: its zeros move", "alibi", KeptForMoreKeys, ("B010",),
        SYMMETRIC, {**CAUSAL, "level": "contribution"}),
    Control("one-row", "one row for all queries", "alibi", one_row, ("B011",), SYMMETRIC, KEY_ONLY),
    Control("forty-heads-published", "40 heads by the released code", "alibi", published, ("B024",),
        {**FORTY, "slope_rule": "press"}),
    Control("forty-heads-geometric", "40 heads by the formula of the text", "alibi", geometric, ("B024",),
        {**FORTY, "slope_rule": "geometric"}),
    Control("skew-uncut", "what a skew leaves above the diagonal", "music_transformer", skewed, ("B041",),
        PLAIN_MUSIC, SHIFTED),
    Control("shift-uncut", "what the shift leaves after the query", "transformer_xl", shifted, ("B047",), PLAIN_XL, SHIFTED),
    Control("width-counts", "a multiplier that looks too large", "swin", width_counts, ("B069",),
        {"window_size": (2, 3), "sign": "query_minus_key"}),
    Control("sines-first", "sines and cosines in two halves", "sinusoidal", halves, ("B079",),
        {"layout": "halves", "base": 10000.0}),
    Control("half-apart", "pairs half a head apart", "rope", half, ("B080",),
        {"layout": "half", "rotary_dim": None, "base": 10000.0, "partial": "leading", "scaling": "none"}),
    Control("bottom-right", "the causal mask tied to the bottom right", "none", bottom_right, ("B147",), {},
        {**CAUSAL, "corner": "bottom-right"}),
    Control("top-left", "the causal mask tied to the top left", "none", top_left, ("B147",), {},
        {**CAUSAL, "corner": "top-left"}),
)
# fmt: on
