"""Right attention in unusual styles: streamed, in other bases and precisions, head by head, in one Einstein sum, in NumPy."""

import math

import numpy as np
import torch
from torch import Tensor

from relpos.conformance.faults.api import Control
from relpos.spec.alibi import ALiBi

BLOCK = 3  # keys of a block, so that few keys make several
MASKED = {"level": "attention"}
FINITE = {"level": "attention", "mask": "additive"}
PLAIN_ALIBI = {"distance": "symmetric", "scale_bias": False, "num_biased_heads": None, "bias_max": 8.0, "slope_rule": "press"}
PLAIN_T5 = {"score_scale": "none", "sign": "key_minus_query", "cross_attention": False}


def _slopes(num_heads: int) -> Tensor:
    return torch.tensor(ALiBi(num_heads).slopes(), dtype=torch.float32)[:, None, None]


def _streamed(score: Tensor, v: Tensor) -> Tensor:
    """Blocks of keys one after another, with a running maximum, sum and output; a row of −inf gives 0."""
    highest = torch.full((*score.shape[:-1], 1), -torch.inf)
    total, out = torch.zeros(highest.shape), torch.zeros(*score.shape[:-1], v.shape[-1])
    for start in range(0, score.shape[-1], BLOCK):
        part = score[..., start : start + BLOCK]
        above = torch.maximum(highest, part.amax(-1, keepdim=True))
        level = above.masked_fill(above == -torch.inf, 0.0)
        shrink, weights = (highest - level).exp(), (part - level).exp()
        total = total * shrink + weights.sum(-1, keepdim=True)
        out = out * shrink + weights @ v[..., start : start + BLOCK, :]
        highest = above
    return out / total.masked_fill(total == 0, 1.0)


def streamed(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """An online softmax over blocks of keys."""
    score = (q * q.shape[-1] ** -0.5) @ k.transpose(-1, -2)
    return _streamed(score.masked_fill(~mask, -torch.inf), v)


def base_two(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    """The scale and log2 e multiplied into q, powers of two for the weights, as kernels do."""
    score = (q * (scale * math.log2(math.e))) @ k.transpose(-1, -2)
    weights = torch.exp2(score - score.amax(-1, keepdim=True))
    return (weights @ v) * weights.sum(-1, keepdim=True).reciprocal()


def lowest_added(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """An additive mask of the lowest finite number, kept finite by a maximum; rows of it alone are wiped afterwards."""
    added = mask.clamp(min=torch.finfo(q.dtype).min)
    score = (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + added).clamp(min=torch.finfo(q.dtype).min)
    seen = (added == 0).any(-1, keepdim=True)
    return (score.softmax(-1) @ v).masked_fill(~seen, 0.0)


def in_float64(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """Everything in float64, rounded once at the end; Einstein sums."""
    wide = [x.double() for x in (q, k, v)]
    score = torch.einsum("bhid,bhjd->bhij", wide[0], wide[1]) / math.sqrt(q.shape[-1])
    empty = ~mask.any(-1, keepdim=True)
    weights = score.masked_fill(~mask, -torch.inf).masked_fill(empty, 0.0).softmax(-1).masked_fill(empty, 0.0)
    return torch.einsum("bhij,bhjd->bhid", weights, wide[2]).to(q.dtype)


def head_by_head(settings: ALiBi, q: Tensor, k: Tensor, v: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor:
    """A list of heads and samples, each with its own slope, put together at the end."""
    distance = (query_positions[:, None] - key_positions).abs()
    samples = []
    for b in range(q.shape[0]):
        heads = [q[b, h] @ k[b, h].T / math.sqrt(q.shape[-1]) - m * distance for h, m in enumerate(settings.slopes().tolist())]
        samples.append([torch.nn.functional.softmax(s, dim=-1) @ v[b, h] for h, s in enumerate(heads)])
    return torch.stack([torch.stack(heads) for heads in samples])


def slopes_in_an_extra_column(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """m·j as one more column of q and k, 1 of it in every query: −m(i − j) up to a constant per query."""
    H, Lq, Lk = q.shape[1], q.shape[2], k.shape[2]
    j = (torch.arange(Lk) - (Lk - 1)).float()
    longer_q = torch.cat((q * q.shape[-1] ** -0.5, _slopes(H).expand(len(q), H, Lq, 1)), dim=-1)
    longer_k = torch.cat((k, j[:, None].expand(*k.shape[:3], 1)), dim=-1)
    hidden = torch.ones(Lq, Lk, dtype=torch.bool).triu(Lk - Lq + 1)
    return (longer_q @ longer_k.transpose(-1, -2)).masked_fill(hidden, -torch.inf).softmax(-1) @ v


def repeated_heads(q: Tensor, k: Tensor, v: Tensor, num_kv_heads: int) -> Tensor:
    """Key heads repeated by an expanded view, query heads kept in groups of one axis."""
    B, H, Lq, D = q.shape
    grouped = q.view(B, num_kv_heads, H // num_kv_heads, Lq, D)
    score = torch.einsum("bgrid,bgjd->bgrij", grouped, k) * D**-0.5
    return torch.einsum("bgrij,bgjd->bgrid", score.softmax(-1), v).reshape(B, H, Lq, D)


def in_numpy(settings, table, q, k, v, query_positions, key_positions, mask):
    """NumPy throughout, buckets by a sorted search among exact edges, −∞ added."""
    rows = searched(settings, np.asarray(key_positions) - np.asarray(query_positions)[:, None])
    score = q @ k.swapaxes(-1, -2) + np.moveaxis(table[rows], -1, 0)
    score = np.where(mask, score, -np.inf)
    highest = score.max(-1, keepdims=True)
    weights = np.exp(score - np.where(np.isinf(highest), 0, highest))
    total = weights.sum(-1, keepdims=True)
    return (weights / np.where(total == 0, 1, total)) @ v


def searched(settings, far):
    """Rows of T5's table: the position of |r| among where buckets begin."""
    one_way = settings.num_buckets // 2 if settings.bidirectional else settings.num_buckets
    n = np.abs(far) if settings.bidirectional else np.maximum(-far, 0)
    exact, wide, most = one_way // 2, one_way - one_way // 2, settings.max_distance
    begins = list(range(1, exact + 1))
    for t in range(1, wide):
        begins.append(next(d for d in range(exact, most + 1) if d**wide >= most**t * exact ** (wide - t)))
    return np.searchsorted(begins, n, side="right") + one_way * ((far > 0) & settings.bidirectional)


def _past(q: Tensor, k: Tensor, query_positions: Tensor, key_positions: Tensor, causal: bool) -> Tensor:
    return (key_positions <= query_positions[:, None]) | torch.tensor(not causal)


def streamed_alibi(
    q: Tensor, k: Tensor, v: Tensor, query_positions: Tensor, key_positions: Tensor, causal: bool, scale: float
) -> Tensor:
    """A tile adds its own distances as it is read."""
    score = (q * scale) @ k.transpose(-1, -2) - _slopes(q.shape[1]) * (query_positions[:, None] - key_positions).abs()
    return _streamed(score.masked_fill(~_past(q, k, query_positions, key_positions, causal), -torch.inf), v)


# fmt: off
ATTENTION = (
    Control("streamed", "an online softmax over blocks of keys", "none", streamed, claims=MASKED),
    Control("base-two", "powers of two, the scale in q", "none", base_two, claims=MASKED),
    Control("lowest-added", "an additive mask made finite", "none", lowest_added, claims=FINITE),
    Control("in-float64", "float64 within, Einstein sums", "none", in_float64,
        claims={**MASKED, "dtypes": ("float32", "float64")}),
    Control("repeated-heads", "query heads in groups, key heads once", "none", repeated_heads, claims=MASKED),
    Control("head-by-head", "a list of heads", "alibi", head_by_head, settings=PLAIN_ALIBI),
    Control("extra-column", "the bias as one more column of q and k", "alibi", slopes_in_an_extra_column, settings=PLAIN_ALIBI,
        claims={"level": "attention", "softmax": "causal", "corner": "bottom-right"}),
    Control("streamed-alibi", "an online softmax, distances formed in every tile", "alibi", streamed_alibi,
        settings=PLAIN_ALIBI),
    Control("in-numpy", "NumPy, buckets by a sorted search", "t5", in_numpy, settings=PLAIN_T5),
)
# fmt: on
