"""Deliberately wrong implementations, one for each law: what the judge must catch, and say in clear words."""

import torch
from torch import Tensor, nn

from culprits_vision import cut_to_size, height_for_width  # noqa: F401  (found here by name)
from relpos.impls.card import implements
from strangers import penalty, slopes
from strangers_attention import attend, past, plain


def distances(num_heads, distance):
    return -torch.tensor(slopes(num_heads)).view(-1, 1, 1) * distance


@implements("alibi")
def clipped(num_heads, query_positions, key_positions):
    """Distances stop at 4."""
    return distances(num_heads, (query_positions[:, None] - key_positions).abs().clamp(max=4))


@implements("alibi")
def first_query_differs(num_heads, query_positions, key_positions):
    """Queries at position 0 are punished twice."""
    return penalty(num_heads, query_positions, key_positions) * (1 + (query_positions == 0))[:, None]


@implements("alibi")
def offset_lost(num_heads, query_length, key_length, offset):
    """Every step is taken for the first."""
    return penalty(num_heads, torch.arange(query_length), torch.arange(key_length))


@implements("alibi")
class Kept(nn.Module):
    """A table kept by its shape, whatever the offset."""

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        self.num_heads, self.tables = num_heads, {}

    def forward(self, query_length: int, key_length: int, offset: int) -> Tensor:
        key = (query_length, key_length)
        if key not in self.tables:
            at = torch.arange(offset, offset + query_length), torch.arange(key_length)
            self.tables[key] = penalty(self.num_heads, *at)
        return self.tables[key].clone()


@implements("alibi")
class HandsOut(nn.Module):
    """Right, but what it returns is its own table."""

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        self.num_heads, self.tables = num_heads, {}

    def forward(self, key_length: int) -> Tensor:
        if key_length not in self.tables:
            self.tables[key_length] = penalty(self.num_heads, torch.arange(key_length), torch.arange(key_length))
        return self.tables[key_length]


@implements("none")
def writes_into_q(q, k, v):
    """Right, but scales q in place."""
    q *= q.shape[-1] ** -0.5
    return attend(q, k, v, torch.ones(q.shape[2], k.shape[2], dtype=torch.bool), 1.0)


@implements("alibi")
def key_only(num_heads, query_positions, key_positions):
    """m·j, as the authors have it: right under a causal softmax only."""
    return (torch.tensor(slopes(num_heads)).view(-1, 1, 1) * key_positions).expand(-1, len(query_positions), -1)


@implements("none", corner="bottom-right")
def wrong_corner(q, k, v, causal):
    """A mask tied to the other corner."""
    keep = past(q.shape[2], k.shape[2], "top-left")
    return attend(q, k, v, keep if causal else torch.ones_like(keep))


@implements("none")
def uniform_when_empty(q, k, v, mask):
    """Hidden keys get the lowest finite score, so that a row without keys is their mean."""
    logits = (q @ k.transpose(-1, -2)) * q.shape[-1] ** -0.5
    return logits.masked_fill(~mask, torch.finfo(q.dtype).min).softmax(-1) @ v


@implements("none", gradient=False)
def nan_when_empty(q, k, v, mask):
    logits = (q @ k.transpose(-1, -2)) * q.shape[-1] ** -0.5
    return logits.masked_fill(~mask, -torch.inf).softmax(-1) @ v


@implements("none", gradient=False)
def poisoned(q, k, v, mask):
    """Hidden keys are subtracted, not skipped: what they hold stays in the sums."""
    keep = mask.to(q.dtype)
    logits = (q @ k.transpose(-1, -2)) * q.shape[-1] ** -0.5
    weights = torch.exp(logits - logits.amax(-1, keepdim=True)) * keep
    return weights / weights.sum(-1, keepdim=True).clamp(min=torch.finfo(q.dtype).tiny) @ v


@implements("alibi")
def geometric(num_heads, query_positions, key_positions):
    """2^(−8h/H) for every H."""
    m = torch.tensor([2.0 ** (-8 * (h + 1) / num_heads) for h in range(num_heads)])
    return -m.view(-1, 1, 1) * (query_positions[:, None] - key_positions).abs()


@implements("alibi")
def rewarded(num_heads, query_positions, key_positions):
    return -penalty(num_heads, query_positions, key_positions)


@implements("shaw", level="logits", settings={"tables": "tied"}, gradient=False)
def exchanged(q, k, rel_k, query_positions, key_positions):
    """Query minus key."""
    clip = rel_k.shape[0] // 2
    row = (query_positions[:, None] - key_positions).clamp(-clip, clip) + clip
    return (q[..., :, None, :] * (k[..., None, :, :] + rel_k[row])).sum(-1) * q.shape[-1] ** -0.5


@implements("none")
def first_key_open(q, k, v, mask):
    """The first key is open to all, so that padding before the tokens leaks in."""
    return attend(q, k, v, mask | (torch.arange(k.shape[2]) == 0))


@implements("alibi")
def exponent_unread(num_heads, bias_max, query_positions, key_positions):
    """bias_max is taken, and 8 used."""
    return penalty(num_heads, query_positions, key_positions)


@implements("sinusoidal")
def even_only(embed_dim, positions):
    """Sines and cosines are written into halves of one size."""
    angles = positions[:, None] * 10000.0 ** (-torch.arange(0, embed_dim, 2) / embed_dim)
    e = torch.zeros(len(positions), embed_dim)
    e[:, 0::2], e[:, 1::2] = angles.sin(), angles.cos()
    return e


def turned(x, positions, θ, *, mirrored=False):
    angles = positions[:, None] * θ
    c, s, a, b = angles.cos(), angles.sin(), x[..., 0::2], x[..., 1::2]
    return torch.stack([a * c - b * s, a * s + b * (-c if mirrored else c)], -1).flatten(-2)


@implements("t5", settings={"num_buckets": 32, "max_distance": 128, "bidirectional": False})
def last_bucket_late(table, query_positions, key_positions):
    """The last bucket begins at 128, not at 113, where the logarithm puts it."""
    n = (query_positions[:, None] - key_positions).clamp(min=0)
    far = 16 + (torch.log(n.clamp(min=1) / 16) / torch.log(torch.tensor(8.0)) * 16).long()
    return table[torch.where(n < 16, n, far.clamp(max=30)).masked_fill(n >= 128, 31)].permute(2, 0, 1)


@implements("rope")
def lengthened(x, positions):
    """A sign is missing: turned columns do not keep their length."""
    d = x.shape[-1]
    angles = positions[:, None] * 10000.0 ** (-torch.arange(0, d, 2) / d)
    c, s, a, b = angles.cos(), angles.sin(), x[..., 0::2], x[..., 1::2]
    return torch.stack([a * c + b * s, a * s + b * c], -1).flatten(-2)


@implements("rope")
def other_frequencies(x, positions):
    """The exponent lacks its 2."""
    return turned(x, positions, 10000.0 ** (-torch.arange(0, x.shape[-1] // 2) / x.shape[-1]))


@implements("rope", settings={"scaling": "dynamic", "factor": 2.0, "max_position": 4})
def scaled_at_once(x, positions, sequence_length):
    """The base grows by the factor at any length."""
    d = x.shape[-1]
    θ = (10000.0 * 2.0 ** (d / (d - 2))) ** (-torch.arange(0, d, 2) / d)
    return turned(x, positions, θ)


@implements("none")
def no_gradient_of_k(q, k, v):
    return plain(q, k.detach(), v)


@implements("none")
def half_a_gradient(q, k, v):
    return plain(q, k / 2 + k.detach() / 2, v)


@implements("none")
def samples_mixed(q, k, v):
    """Keys of the first sample for all."""
    return plain(q, k[:1].expand_as(k), v)


@implements("none")
def scaled_twice(q, k, v):
    return plain(q * q.shape[-1] ** -0.5, k, v)


@implements("alibi")
def two_mistakes(num_heads, query_positions, key_positions):
    """Slopes from a first head of slope 1, and distance rewarded."""
    m = torch.tensor([2.0 ** (-8 * h / num_heads) for h in range(num_heads)])
    return m.view(-1, 1, 1) * (query_positions[:, None] - key_positions).abs()


@implements("alibi")
def unheard_of(num_heads, query_positions, key_positions):
    """Nobody makes this mistake: the distance 3 counts as 2."""
    d = (query_positions[:, None] - key_positions).abs()
    return distances(num_heads, torch.where(d == 3, 2, d))


def penalty_of(num_heads, query_positions, key_positions):
    """Right: the authors' slopes."""
    return penalty(num_heads, query_positions, key_positions)


penalty_of.__relpos__ = {"scheme": "alibi"}


@implements("rope", dtypes=("float32", "bfloat16"))
def counted_in_dtype(x, positions):
    """Positions are counted in the dtype of x: 257 is 256 in bfloat16."""
    d = x.shape[-1]
    return turned(x, positions.to(x.dtype).double(), 10000.0 ** (-torch.arange(0, d, 2) / d)).to(x.dtype)
