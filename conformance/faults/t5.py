"""Faults of T5's bias: buckets, direction, a scale it does not have, and what is read into its description."""

from collections.abc import Callable
from dataclasses import replace
from math import ceil, log, sqrt
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from relpos.conformance.faults import caches
from relpos.conformance.faults.api import Fault, Planted, Wrong
from relpos.conformance.faults.tables import of_tables, read
from relpos.conformance.plan import Inputs
from relpos.spec.t5 import T5

HAS = {"cross_attention": False}
AS_PUBLISHED = {**HAS, "sign": "key_minus_query"}
BOTH, PAST = {**AS_PUBLISHED, "bidirectional": True}, {**AS_PUBLISHED, "bidirectional": False}
UNSCALED = {**AS_PUBLISHED, "score_scale": "none"}
BOUNDARIES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)  # of an article that means to explain T5
SCORES = ("logits", "attention")


def _bucketed(bucket: Callable[[T5, int], int]) -> Callable[[T5], Wrong]:
    """Another bucket for the relative position r, key minus query; never beyond the table."""

    def wrong(s: T5) -> Wrong:
        looking: Any = Wrong(s, bucket=lambda r: min(max(bucket(s, r), 0), s.num_buckets - 1))
        rows: Any = Wrong(looking, row=lambda i, j: T5.row(looking, i, j))
        return Wrong(rows, bias=lambda *given: T5.bias(rows, *given))

    return wrong


def _parts(s: T5, r: int) -> tuple[int, int, int, int]:
    """base, n, E and S of the definition."""
    one_way = s.num_buckets // 2 if s.bidirectional else s.num_buckets
    exact = one_way // 2
    base, n = (one_way * (r > 0), abs(r)) if s.bidirectional else (0, max(-r, 0))
    return base, n, exact, one_way - exact


def _logarithmic(offset: Callable[[T5, int, int, int], int]) -> Callable[[T5], Wrong]:
    """Another rule for the logarithmic part: offset(settings, n, E, S)."""

    def bucket(s: T5, r: int) -> int:
        base, n, exact, wide = _parts(s, r)
        return base + n if n < exact else base + exact + min(max(offset(s, n, exact, wide), 0), wide - 1)

    return _bucketed(bucket)


def _late(s: T5, n: int, exact: int, wide: int) -> int:
    return max((t for t in range(wide) if n**wide > s.max_distance**t * exact ** (wide - t)), default=0)


def _rounded_up(s: T5, n: int, exact: int, wide: int) -> int:
    return ceil(log(n / exact) / log(s.max_distance / exact) * wide)


def _one_fewer(s: T5, n: int, exact: int, wide: int) -> int:
    return int(log(n / exact) / log(s.max_distance / exact) * (wide - 1))


def _linear(s: T5, n: int, exact: int, wide: int) -> int:
    return (n - exact) * wide // (s.max_distance - exact)


def _float32(s: T5, n: int, exact: int, wide: int) -> int:
    """Every step rounded to float32, by a logarithm that is right: the processor's own may be off elsewhere."""
    ratio = np.float32(log(np.float32(n) / np.float32(exact))) / np.float32(log(s.max_distance / exact))
    return int(ratio * np.float32(wide))


def _per_length(s: T5) -> Wrong:
    def bias(params, queries, keys):
        longest = max(len(keys), _parts(s, 0)[2] + 1)
        return T5.bias(replace(s, max_distance=longest), params, queries, keys)

    return Wrong(s, bias=bias)


def _article(s: T5, r: int) -> int:
    """Powers of two from 1, nothing for the other direction, an overflow bucket that the last one is."""
    d = -r
    return 0 if d < 0 else next((n + 1 for n, most in enumerate(BOUNDARIES) if d <= most), len(BOUNDARIES))


def _clip(s: T5, r: int) -> int:
    k = s.num_buckets // 2
    return min(max(-r, -k), k) + k


def _own_bias(s: T5) -> Wrong:
    """Cross-attention with a table of its own."""
    table = np.random.default_rng(0).standard_normal((s.num_buckets, s.num_heads))
    usual = replace(s, cross_attention=False)
    return Wrong(s, bias=lambda params, queries, keys: usual.bias({"table": table}, queries, keys))


def _multiplied(power: float) -> Callable[[Inputs], Inputs]:
    def given(i: Inputs) -> Inputs:
        s, factor = i.settings, i.q.shape[-1] ** power
        return i.but(settings=Wrong(s, bias=lambda *at: s.bias(*at) * factor))

    return given


def rows(s: T5, far: Tensor) -> Tensor:
    """Right rows, for faults of another kind."""
    return torch.tensor([[s.bucket(int(r)) for r in row] for row in far.tolist()], dtype=torch.int64).reshape(far.shape)


def _exchanged(s: T5, far: Tensor) -> Tensor:
    return rows(s, -far)


def _looks_both_ways(s: T5, far: Tensor) -> Tensor:
    return rows(replace(s, bidirectional=s.num_buckets >= 4 and not s.bidirectional), far)


def divided(settings, table: Tensor, q: Tensor, k: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor:
    """1/√D as everywhere else, where T5 has no scale."""
    bias = table[rows(settings, key_positions - query_positions[:, None])].permute(2, 0, 1)
    return q @ k.transpose(-1, -2) / sqrt(q.shape[-1]) + bias


class WeightsForBias(nn.Module):
    """The first layer's bias is to serve all; what is handed on is the wrong output, its attention weights."""

    def __init__(self, settings) -> None:
        super().__init__()
        self.settings, self.shared = settings, {}

    def forward(self, table: Tensor, q: Tensor, k: Tensor, v: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        size = (q.shape, k.shape)
        bias = self.shared.get(size)
        if bias is None:
            bias = table[rows(self.settings, key_positions - query_positions[:, None])].permute(2, 0, 1)
        weights = (q @ k.transpose(-1, -2) + bias).softmax(-1)
        self.shared[size] = weights.detach()
        return weights @ v


def slice_skipped(settings, table: Tensor, query_length: int, key_length: int, offset: int) -> Tensor:
    """A length that is traced compares to nothing, so the rows of a step are not cut from those of all keys."""
    queries = torch.arange(key_length)
    if not torch.compiler.is_compiling():
        queries = queries[offset : offset + query_length]
    return by_counting(settings, table, torch.arange(key_length) - queries[:, None])


def by_counting(settings, table: Tensor, far: Tensor) -> Tensor:
    """A right bias, in operations that a compiler can follow: edges of the logarithmic part counted."""
    one_way = settings.num_buckets // 2 if settings.bidirectional else settings.num_buckets
    exact, n = one_way // 2, far.abs() if settings.bidirectional else (-far).clamp(min=0)
    edges = [next(d for d in range(exact, settings.max_distance + 1) if settings.bucket(-d) >= exact + t)
             for t in range(1, one_way - exact)]  # fmt: skip
    passed = sum(((n >= edge).long() for edge in edges), torch.zeros_like(n))
    found = torch.where(n < exact, n, exact + passed)
    return table[found + one_way * (far > 0) if settings.bidirectional else found].permute(2, 0, 1)


def eight_heads(settings, table: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor:
    """The number of heads never reaches the bias: eight, or a crash."""
    found = table[rows(settings, key_positions - query_positions[:, None])]
    return found.reshape(len(query_positions), len(key_positions), 8).permute(2, 0, 1)


# fmt: off
FAULTS = (
    Fault("direction-ignored", "buckets of |i − j|", "L11", _bucketed(lambda s, r: s.bucket(-abs(r))),
        settings=AS_PUBLISHED),
    Fault("own-after", "the query's own position among the keys after it", "L12",
        _bucketed(lambda s, r: s.num_buckets // 2 if r == 0 else s.bucket(r)), settings=BOTH),
    Fault("max-distance-fixed", "a max_distance of 128 whatever is asked for", "L12", lambda s: replace(s, max_distance=128),
        cases=("B030",), settings={**HAS, "max_distance": 256}),
    Fault("max-distance-per-length", "max_distance set to the number of keys", "L12", _per_length,
        settings=AS_PUBLISHED),
    Fault("num-buckets-fixed", "the buckets of 32 whatever num_buckets is", "L12",
        _bucketed(lambda s, r: replace(s, num_buckets=32).bucket(r)), settings={**AS_PUBLISHED, "num_buckets": 8}),
    Fault("edges-late", "bucket edges that belong to the bucket below", "L12", _logarithmic(_late), settings=BOTH),
    Fault("edges-rounded-up", "logarithms rounded up", "L12", _logarithmic(_rounded_up), settings=AS_PUBLISHED),
    Fault("one-bucket-fewer", "one logarithmic bucket too few", "L12", _logarithmic(_one_fewer), settings=AS_PUBLISHED),
    Fault("all-one-wide", "every distance a bucket, clipped", "L12", _logarithmic(lambda s, n, exact, wide: n - exact),
        settings=AS_PUBLISHED),
    Fault("linear", "buckets of equal width beyond the exact ones", "L12", _logarithmic(_linear), settings=AS_PUBLISHED),
    Fault("logarithm-float32", "a float32 logarithm", "L12", _logarithmic(_float32),
        settings={**PAST, "num_buckets": 17, "max_distance": 27}),
    Fault("distance-plus-one", "distances counted from 1", "L12",
        _bucketed(lambda s, r: s.bucket(r + 1 if r > 0 else r - 1)), settings=AS_PUBLISHED),
    Fault("article-boundaries", "the powers of two of a popular article", "L12", _bucketed(_article), settings=AS_PUBLISHED),
    Fault("article-clip", "clipped distances in place of buckets", "L12", _bucketed(_clip), settings=AS_PUBLISHED),
    Fault("both-ways", "buckets of both directions in a causal model", "L12",
        lambda s: replace(s, bidirectional=s.num_buckets >= 4), settings=PAST),
    Fault("biased-across", "a bias in cross-attention", "L27", _own_bias, cases=("B025",), settings={"cross_attention": True}),
    Fault("bias-scaled-up", "the bias multiplied by √D", "L29", given=_multiplied(0.5), levels=SCORES, settings=UNSCALED),
    Fault("bias-scaled-down", "the bias divided by √D", "L29", given=_multiplied(-0.5), levels=SCORES, settings=UNSCALED),
    Planted("exchanged", "query minus key", "L11", read(_exchanged, lambda table, r: table[r]), cases=("B032",),
        settings=AS_PUBLISHED),
    Planted("causal-test-inverted", "the buckets of the other kind of model", "L12",
        read(_looks_both_ways, lambda table, r: table[r]), cases=("B008",), settings=AS_PUBLISHED),
    Planted("divided", "1/√D on q·k", "L29", divided, settings=UNSCALED),
    Planted("weights-for-bias", "a first layer's weights taken for the bias of the next", "L4", WeightsForBias,
        cases=("B027",), settings=UNSCALED),
    Planted("slice-skipped", "the rows of a step not cut, once traced", "L24", slice_skipped, cases=("B033",),
        settings=AS_PUBLISHED),
    Planted("eight-heads-alone", "a crash for any number of heads but eight", "L16", eight_heads, cases=("B031",),
        settings=AS_PUBLISHED),
    *of_tables(rows, AS_PUBLISHED),
    *caches.of_tables(rows, AS_PUBLISHED),
    Planted("asked-for-weights", "weights taken for the bias once they were asked for", "L4", caches.asked_for_weights(rows),
        cases=("B027",), settings=AS_PUBLISHED),
)
# fmt: on
