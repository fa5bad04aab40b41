"""Which row of DeBERTa's tables a distance has: clipped, or by logarithmic buckets whose last distances are whole numbers."""

from functools import cache

import torch
from torch import Tensor

from relpos.spec.deberta import DeBERTa

FARTHEST = 2**62  # where a bucket has no end


def rows(settings: DeBERTa, distance: Tensor) -> Tensor:
    """δ of distances, query minus key, int64 of any shape."""
    if settings.version == "v1":
        K = settings.max_distance
        return (distance + K).clamp(0, 2 * K - 1)
    N = buckets(settings)
    if settings.clamp:
        M = settings.max_distance
        distance = distance.clamp(1 - M, M - 1)
    ends = torch.tensor(bucket_ends(N, settings.max_distance), device=distance.device)
    far = N // 2 + torch.bucketize(distance.abs(), ends)
    bucket = torch.where(distance.abs() <= N // 2, distance, far * distance.sign())
    return (bucket + N).clamp(0, 2 * N - 1)


def buckets(settings: DeBERTa) -> int:
    """N: as set, else half of the greatest distance."""
    return max(settings.max_distance // 2, 2) if settings.num_buckets is None else settings.num_buckets


@cache
def bucket_ends(N: int, M: int) -> tuple[int, ...]:
    """The last distance of the buckets m, m + 1, …, N − 1: ⌊m · ((M−1)/m)^(t/(m−1))⌋ for t = 0, 1, …"""
    m = N // 2
    if m == 1:
        return (FARTHEST,) * (N - m)  # the exponent is 0: all distances share a bucket
    return tuple(_root((M - 1) ** t * m ** (m - 1), m**t, m - 1) for t in range(N - m))


def _root(numerator: int, denominator: int, power: int) -> int:
    """The greatest n with n^power · denominator ≤ numerator, by halving."""
    low, high = 0, 1
    while high**power * denominator <= numerator:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if middle**power * denominator <= numerator else (low, middle)
    return min(low, FARTHEST)


def constant_from(settings: DeBERTa) -> int:
    """A distance from which on, before and after the query, all rows are one."""
    if settings.version == "v1":
        return settings.max_distance
    end = bucket_ends(buckets(settings), settings.max_distance)[-1] + 1
    return min(end, settings.max_distance) if settings.clamp else end
