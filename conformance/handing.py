"""What a caller keeps in its hands over many calls: parameters that stay the same tensors, inputs that it writes anew."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from relpos.conformance.precision import torch_dtype
from relpos.conformance.reading import to_numpy

SCRIBBLE = 3.0  # written over whatever was returned; any value that no answer has would do


class Hands:
    """Hands tensors over, and knows afterwards which of them were changed and what came back.

    parameters   learned tensors by name, handed over at every call where `kept` says that they fit
    reused       the next call gets the tensors of the last one, with its own values written into them
    """

    def __init__(self) -> None:
        self.parameters: dict[str, torch.Tensor] = {}
        self.kept = self.reused = False
        self.returned: list[Any] = []
        self._given: dict[str, Any] = {}
        self._before: dict[str, np.ndarray] = {}

    def __call__(self, name: str, made: Any) -> Any:
        """A hand of `binding.py`."""
        held = self.parameters.get(name) if self.kept else None
        if held is not None:
            made = held
        elif self.reused and name not in self.parameters and _fits(last := self._given.get(name), made):
            made = _written(last, made)
        elif isinstance(made, torch.Tensor):
            made = made.clone()  # NumPy's memory may be the plan's own
        elif isinstance(made, np.ndarray):
            made = made.copy()
        self._given[name] = made
        self._before[name] = _copy(made)
        return made

    def call(self, *, kept: bool, reused: bool) -> None:
        """Begin a call."""
        self.kept, self.reused, self.returned = kept, reused, []
        self._before = {}

    def through(self, target: Any) -> Any:
        """The target, its results noted as they come back."""

        def called(*args: Any, **options: Any) -> Any:
            result = target(*args, **options)
            self.returned.append(result)
            return result

        return called

    def changed(self) -> Iterator[str]:
        """Names of the inputs that are no longer what was handed over."""
        for name, before in self._before.items():
            after = _copy(self._given[name])
            if after.shape != before.shape or not np.array_equal(after, before, equal_nan=True):
                yield name

    def move(self, dtype: str, device: str) -> None:
        """Bring the kept parameters to a dtype and device, as `module.to` does: the same objects, other numbers."""
        for tensor in self.parameters.values():
            tensor.data = tensor.data.to(device, torch_dtype(dtype))

    def overwrite(self) -> None:
        """Write into everything that the last call returned, where it can be written to."""
        for result in self.returned:
            for value in result if isinstance(result, (tuple, list)) else (result,):
                scribble(value)


def scribble(value: Any) -> None:
    """Write over a tensor or array; what is read-only stays."""
    if isinstance(value, np.ndarray) and value.flags.writeable:
        value[...] = SCRIBBLE
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return
    for axis, (size, stride) in enumerate(zip(value.shape, value.stride(), strict=True)):
        value = value.narrow(axis, 0, 1) if stride == 0 and size > 1 else value  # elements that share a place
    with torch.inference_mode(value.is_inference()), torch.no_grad():
        value.detach().fill_(SCRIBBLE)


def _copy(value: Any) -> np.ndarray:
    return to_numpy(value) if isinstance(value, torch.Tensor) else np.array(value)


def _fits(last: Any, made: Any) -> bool:
    if type(last) is not type(made) or last.shape != made.shape or last.dtype != made.dtype:
        return False
    return not isinstance(last, torch.Tensor) or (not last.is_inference() and last.device == made.device)


def _written(last: Any, made: Any) -> Any:
    """The same tensor with other values."""
    if isinstance(last, np.ndarray):
        last[...] = made
        return last
    last.grad = None
    with torch.no_grad():
        return last.requires_grad_(False).copy_(made)
