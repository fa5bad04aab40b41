"""Positions of shards and packed documents, counted wrong: int64 [L] or [B, L]."""

import numpy as np


def counted_on(p: np.ndarray) -> np.ndarray:
    """Where positions begin anew, past all before."""
    begins = np.diff(p, axis=-1, prepend=p[..., :1]) < 0
    before = np.maximum.accumulate(p, axis=-1) + 1
    at = np.argmax(begins, axis=-1)[..., None]
    jump = np.take_along_axis(before, np.maximum(at - 1, 0), axis=-1)
    return p + np.where(np.cumsum(begins, axis=-1) > 0, jump, 0)


def again(p: np.ndarray) -> np.ndarray:
    """Two pieces that do not follow one another, as a rank holds of packed documents or of a zigzag."""
    half = p.shape[-1] // 2
    return np.concatenate([p[..., :half], p[..., :half]], axis=-1) if _two_pieces(p) else p


def unpadded(p: np.ndarray) -> np.ndarray:
    half = p.shape[-1] // 2
    return np.concatenate([p[..., :half], p[..., half:] - 1], axis=-1) if _two_pieces(p) else p


def _two_pieces(p: np.ndarray) -> bool:
    return p.shape[-1] % 2 == 0 and bool((np.diff(p, axis=-1) > 1).any())
