"""Working dtypes: unit roundoff, smallest normal number, and rounding of float64 arrays to them."""

import numpy as np
import torch

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
