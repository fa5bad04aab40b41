"""Whether the arrays given to attention fit the settings and one another, and what is said where they do not."""

from typing import Any

import numpy as np

from relpos.spec.contract import PositionError, scheme_name
from relpos.spec.positions import Positions


class AttentionError(ValueError):
    """An array given to attention does not fit the settings or the other arrays."""


def checked_mask(mask: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    mask = np.asarray(mask)
    if mask.dtype != bool:
        raise AttentionError(
            f"attention: `mask` must be boolean, True = may attend, got {mask.dtype}. For an additive one: mask == 0."
        )
    allowed_shapes = (shape[2:], (shape[0], *shape[2:]), shape, (shape[0], 1, *shape[2:]))
    if mask.shape not in allowed_shapes:
        words = ", ".join(str(list(s)) for s in allowed_shapes[:3])
        raise AttentionError(f"attention: `mask` must have one of the shapes {words}, got {list(mask.shape)}.")
    return mask[:, None] if mask.ndim == 3 else mask


def check_values(v: tuple[int, ...], k: tuple[int, ...]) -> None:
    if v[:2] != k[:2]:
        raise AttentionError(f"attention: `v` must have the samples and heads of k, {list(k[:2])}, got {list(v[:2])}.")
    if v[2] != k[2]:
        raise AttentionError(f"attention: `v` must have one row per key, {k[2]}, got {v[2]}.")


def check_sizes(settings: Any, q: np.ndarray, k: np.ndarray, query_positions: Positions, key_positions: Positions) -> None:
    for name, positions, length in (
        ("query_positions", query_positions, q.shape[2]),
        ("key_positions", key_positions, k.shape[2]),
    ):
        axes = getattr(settings, "axes", positions.axes if settings.form == "none" else 1)
        if positions.axes != axes:
            wanted = f"{axes} axes, as {scheme_name(settings)} says" if axes > 1 else f"one axis for {scheme_name(settings)}"
            raise PositionError(f"attention: `{name}` must have {wanted}, got {positions.axes}.")
        if len(positions) != length:
            raise PositionError(f"attention: `{name}` must list {length} positions, one per row, got {len(positions)}.")
        if positions.per_sample and len(positions.array()) != len(q):
            rows = len(positions.array())
            raise PositionError(f"attention: `{name}` must have one row per sample, {len(q)}, got {rows}.")
    if len(k) != len(q):
        raise AttentionError(f"attention: `k` must have the samples of q, {len(q)}, got {len(k)}.")
    if q.shape[1] % k.shape[1]:
        raise PositionError(
            f"attention: {q.shape[1]} query heads cannot share {k.shape[1]} key heads evenly; make it a multiple."
        )
    for name, size in (("num_heads", q.shape[1]), ("head_dim", q.shape[3]), ("embed_dim", q.shape[3])):
        if getattr(settings, name, size) != size:
            scheme, said = scheme_name(settings), getattr(settings, name)
            raise AttentionError(f"{scheme}: `{name}` is {said} in the settings, but q has {size}. Make them equal.")
