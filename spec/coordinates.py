"""Positions as arrays: whole numbers, on one axis or several, and what stands for a token that has none."""

import numpy as np

from relpos.spec.contract import PositionError

# The coordinate, on every axis, of a token without a position. Its difference from any other fits into int64.
NOWHERE = -(2**31)


def placed(p: np.ndarray) -> tuple[int, ...] | None:
    """One position as a tuple; None where there is none."""
    return None if (p == NOWHERE).all() else tuple(int(n) for n in p)


def on_axes(values, axes: int) -> np.ndarray:
    """Positions [L, axes] or [B, L, axes]; all the coordinates of a token that has no position are `NOWHERE`."""
    if not isinstance(values, np.ndarray):
        values = _told(values, axes)
    array = np.asarray(values)
    if array.size == 0:
        array = array.astype(np.int64).reshape(array.shape if array.ndim > 1 else (0, axes))
    if array.dtype.kind not in "iu" or array.ndim not in (2, 3) or array.shape[-1] != axes:
        raise PositionError(
            f"positions: `values` on {axes} axes must be whole numbers of shape [L, {axes}] or [B, L, {axes}], got "
            f"{array.dtype} of shape {list(array.shape)}. A token without a position is None."
        )
    array = array.astype(np.int64)
    nowhere = array <= NOWHERE
    if (nowhere.any(-1) != (array == NOWHERE).all(-1)).any():
        raise PositionError(f"positions: coordinates must be more than {NOWHERE}, which marks a token without a position.")
    return array


def _told(values, axes: int):
    """Lists with None in place of a position."""
    if isinstance(values, (list, tuple)):
        return [(NOWHERE,) * axes if value is None else _told(value, axes) for value in values]
    return values


def whole(name: str, values, most: int = 2) -> np.ndarray:
    """Whole numbers as int64, of at most that many axes; PositionError with the argument's name otherwise."""
    array = np.asarray(values)
    if array.size == 0:
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise PositionError(f"positions: `{name}` must be whole numbers, got dtype {array.dtype}. Convert them before.")
    if most < 2 and array.ndim > most:
        raise PositionError(f"positions: `{name}` must be one number{' or one per sample' * most}, got {list(array.shape)}.")
    if most == 2 and array.ndim not in (1, 2):
        raise PositionError(f"positions: `{name}` must have shape [L] or [B, L], got {list(array.shape)}.")
    if array.size and array.dtype.kind == "u" and int(array.max()) > np.iinfo(np.int64).max:
        raise PositionError(f"positions: `{name}` must fit into int64, got {array.max()}.")
    return array.astype(np.int64)
