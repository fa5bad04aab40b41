"""What belongs to the whole process and is not an implementation's to change: noticed, and put back."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

# name → how to read it and how to put it back
STATES: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "torch's default dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "torch's grad mode": (torch.is_grad_enabled, torch.set_grad_enabled),
    "torch's number of threads": (torch.get_num_threads, torch.set_num_threads),
    "torch's choice of deterministic algorithms": (
        torch.are_deterministic_algorithms_enabled,
        torch.use_deterministic_algorithms,
    ),
    "torch's matmul precision": (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    "NumPy's handling of floating-point errors": (np.geterr, lambda said: np.seterr(**said)),
}


@contextmanager
def kept(changed: set[str]) -> Iterator[None]:
    """Put every state back afterwards, whatever happened, and add the names of those that were changed."""
    before = {name: read() for name, (read, _) in STATES.items()}
    try:
        yield
    finally:
        for name, (read, write) in STATES.items():
            if read() != before[name]:
                changed.add(name)
                write(before[name])
