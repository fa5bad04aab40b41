"""Working dtypes: unit roundoff, smallest normal number, and rounding of float64 arrays to them."""

import numpy as np
import torch

from relpos.conformance.errors import UsageError

DTYPES = ("float64", "float32", "bfloat16", "float16")


def torch_dtype(name: str) -> torch.dtype:
    """The torch dtype of that name."""
    return getattr(torch, name)


def unit_roundoff(dtype: str) -> float:
    """u: half the distance from 1 to the next number."""
    return torch.finfo(torch_dtype(dtype)).eps / 2


def smallest_normal(dtype: str) -> float:
    """η: below it values may be flushed to zero."""
    return torch.finfo(torch_dtype(dtype)).tiny


def largest_number(dtype: str) -> float:
    """Values beyond it are ±∞."""
    return torch.finfo(torch_dtype(dtype)).max


def rounded(values: np.ndarray, dtype: str) -> np.ndarray:
    """The nearest values of a dtype, as float64."""
    return torch.from_numpy(np.ascontiguousarray(values, dtype=np.float64)).to(torch_dtype(dtype)).double().numpy()


def bfloat16() -> np.dtype:
    """NumPy has no bfloat16 of its own; JAX brings one, ml_dtypes. UsageError where it is missing."""
    try:
        from ml_dtypes import bfloat16 as theirs  # type: ignore[import-not-found]
    except ImportError:
        raise UsageError(
            "claim `dtypes` names bfloat16, and it takes NumPy arrays, which have none: install ml_dtypes, or leave it out."
        ) from None
    return np.dtype(theirs)


def as_array(tensor: torch.Tensor) -> np.ndarray:
    """The same numbers as a NumPy array."""
    if tensor.dtype is torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(bfloat16())
    return tensor.numpy()


def as_torch(array: np.ndarray) -> torch.Tensor | None:
    """The same numbers as a torch tensor; None where they are no real numbers."""
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(np.array(array)) if array.dtype.kind in "fiu" else None
