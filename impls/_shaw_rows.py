"""Which row of Shaw's tables a distance has, when a distance is refused, and products skewed into place without a copy."""

import torch
from torch import Tensor
from torch.nn.functional import embedding, pad

from relpos.impls._attention import relative
from relpos.spec.shaw import Shaw


def skewed(x: Tensor, table: Tensor, r: Tensor, columns: int) -> Tensor:
    """x · rows rᵀ [..., n, W], W = n + columns, seen as [..., n, columns] whose entry (i, j) is column j − i + n − 1."""
    n, width = x.shape[-2], len(r)
    product = (x @ embedding(r, table.to(x.dtype)).transpose(0, 1)).to(x.dtype)
    shifted = product.flatten(-2).narrow(-1, n - 1, n * (width - 1))
    return shifted.unflatten(-1, (n, width - 1))[..., :columns]


def unskewed(weights: Tensor) -> Tensor:
    """The transpose of that view: [..., n, columns] -> [..., n, W], every weight at the column of its distance."""
    n, columns = weights.shape[-2:]
    flat = pad(weights, (0, n - 1)).flatten(-2)
    return pad(flat, (n - 1, 1)).unflatten(-1, (n, n + columns))


def rows(settings: Shaw, query_positions: Tensor, key_positions: Tensor) -> Tensor:
    """Row r of every pair, int64 [Lq, Lk], or [B, Lq, Lk] for positions [B, L]."""
    distance = relative(query_positions, key_positions)
    if not settings.tables.startswith("relative_key"):
        return clipped(settings, distance)
    _refuse_positions(settings, distance)
    # Not clipped: where values cannot be read, the lookup itself fails on a row that is not there.
    return _turned(settings, distance) + settings.max_distance


def clipped(settings: Shaw, distance: Tensor) -> Tensor:
    """Row r of distances, key minus query, of any shape; beyond K the outermost."""
    K = settings.max_distance
    return _turned(settings, distance).clamp(-K, K) + K


def _turned(settings: Shaw, distance: Tensor) -> Tensor:
    published = "query_minus_key" if settings.tables.startswith("relative_key") else "key_minus_query"
    sign = published if settings.sign == "published" else settings.sign
    return -distance if sign == "query_minus_key" else distance


def _refuse_positions(settings: Shaw, distance: Tensor) -> None:
    # Reading a value would stop a GPU and break a graph: only plain CPU tensors are asked.
    if distance.device.type != "cpu" or torch.compiler.is_compiling():
        return
    try:
        beyond = bool((distance.abs() > settings.max_distance).any())
    except RuntimeError:  # a tensor batched by vmap or traced has no value
        return
    _refuse(settings, beyond)


def refuse_lengths(settings: Shaw, query_length: int, key_length: int, offset: int) -> None:
    """ValueError when contiguous positions lie farther apart than the tables reach."""
    farthest = max(offset + query_length - 1, key_length - 1 - offset)
    _refuse(settings, settings.tables.startswith("relative_key") and farthest > settings.max_distance)


def _refuse(settings: Shaw, beyond: bool) -> None:
    if beyond:
        raise ValueError(
            f'shaw: with tables="{settings.tables}" a distance must be at most max_distance = {settings.max_distance}. '
            "Use a longer table, or separate or tied tables, which clip."
        )
