"""Reads what an implementation returns: torch, NumPy, DLPack or __array__; checks its axes and puts them in our order."""

from dataclasses import fields
from inspect import iscoroutine
from itertools import permutations
from typing import Any

import numpy as np
import torch

from relpos.conformance.errors import AdapterError
from relpos.conformance.plan import Inputs
from relpos.conformance.precision import as_torch
from relpos.conformance.subject import Subject

AXIS_NAMES = {
    "bias": ("H", "Lq", "Lk"),
    "embedding": ("L", "D"),
    "embedded": ("B", "L", "D"),
    "rotated query": ("B", "H", "Lq", "D"),
    "rotated key": ("B", "Hkv", "Lk", "D"),
    "logits": ("B", "H", "Lq", "Lk"),
    "output": ("B", "H", "Lq", "D"),
}


def as_tensor(result: Any, spec: str) -> torch.Tensor:
    """Whatever came back as a floating torch tensor."""
    if not isinstance(result, torch.Tensor):
        result = _foreign(result, spec)
    if result.is_meta:
        raise AdapterError(
            f"{spec} returned a tensor on the meta device, which holds no numbers; return one that was computed."
        )
    if result.layout is not torch.strided:
        raise AdapterError(f"{spec} returned a sparse tensor ({result.layout}); return it dense, result.to_dense().")
    if not result.is_floating_point():
        if result.is_complex() or result.dtype is torch.bool:
            raise AdapterError(f"{spec} returned {result.dtype}; expected a real floating-point array.")
        result = result.double()
    return result


def to_numpy(tensor: torch.Tensor) -> np.ndarray:
    """A float64 copy."""
    return tensor.detach().cpu().double().numpy().copy()


def with_axes(tensor: torch.Tensor, name: str, inputs: Inputs, subject: Subject) -> torch.Tensor:
    """The tensor with our axes, broadcast to full size; AdapterError that says which axes look swapped."""
    want = wanted_shape(name, inputs)
    swapped = subject.card.layout == "blhd" and name in ("output", "rotated query", "rotated key")
    if swapped and tensor.ndim == len(want):
        tensor = tensor.transpose(1, 2)
    per_sample = name == "bias" and inputs.query_positions.per_sample
    if per_sample:
        want = (inputs.plan.batch, *want)
    while tensor.ndim > len(want) and tensor.shape[0] in (1, inputs.plan.batch):
        alike = not inputs.query_positions.per_sample  # all samples are at the same positions
        if alike and not all(torch.equal(sample, tensor[0]) for sample in tensor[1:]):
            what = f"{subject.spec} returned another {name} for every sample, though all samples are at the same positions"
            raise AdapterError(f"{what}; expected one {name} for all, {list(want)}.")
        tensor = tensor[0]
    broadcasts = name in ("bias", "logits") and tensor.ndim == len(want)
    fits = tuple(tensor.shape) == want or (broadcasts and all(a in (1, b) for a, b in zip(tensor.shape, want, strict=True)))
    if not fits:
        raise AdapterError(_wrong_shape(tuple(tensor.shape), want, name, subject))
    return tensor.expand(want) if tuple(tensor.shape) != want else tensor


def wanted_shape(name: str, inputs: Inputs) -> tuple[int, ...]:
    """The shape of a result by name."""
    p, Lq, Lk = inputs.plan, len(inputs.query_positions), len(inputs.key_positions)
    H = inputs.q.shape[1]  # of a shard, fewer than there are
    sizes = {"B": p.batch, "H": H, "Hkv": p.kv_heads or H, "Lq": Lq, "L": Lq, "Lk": Lk, "D": p.head_dim}
    return tuple(sizes[axis] for axis in AXIS_NAMES[name])


def _foreign(result: Any, spec: str) -> torch.Tensor:
    if hasattr(result, "__dlpack__") and not isinstance(result, np.ndarray):
        return torch.from_dlpack(result)
    if isinstance(result, (np.ndarray, np.generic, float, int)) or hasattr(result, "__array__"):
        read = as_torch(np.asarray(result))
        if read is not None:
            return read
    if isinstance(result, (tuple, list)):
        raise AdapterError(f"{spec} returned a {type(result).__name__} of {len(result)}; return the one array that is judged.")
    if iscoroutine(result):
        result.close()  # nobody will await it
        raise AdapterError(f"{spec} is an async function; the judge does not await: wrap it in a function that does.")
    came = "None: is a `return` missing?" if result is None else f"{type(result).__name__};"
    raise AdapterError(
        f"{spec} returned {came} Return a torch tensor, a NumPy array or anything with DLPack.".replace("; R", "; r")
    )


def _wrong_shape(got: tuple[int, ...], want: tuple[int, ...], name: str, subject: Subject) -> str:
    axes = AXIS_NAMES[name][-len(want) :] if len(want) <= len(AXIS_NAMES[name]) else ("B", *AXIS_NAMES[name])
    text = f"{subject.spec} returned shape {list(got)}; expected {name} [{', '.join(axes)}] = {list(want)}."
    if sorted(got) == sorted(want) and len(set(want)) == len(want):
        order = next(p for p in permutations(range(len(want))) if tuple(want[i] for i in p) == got)
        moved = [axes[i] for i, j in enumerate(order) if i != j]
        text += f" The axes {', '.join(moved[:-1])} and {moved[-1]} look {_moved(order, moved)}."
        if name in ("output", "rotated query", "rotated key") and {axes[1], axes[2]} == set(moved):
            text += " If that is your layout: --claim layout=blhd."
    elif name == "bias" and got == (*want[1:], want[0]):
        text += " The axis H looks last; .permute(2, 0, 1) puts it first."
    elif len(got) == len(want) and (fixed := _fixed_size(got, want, axes, subject)):
        text += f" If it is made for one size: {fixed}."
    elif len(got) < len(want):
        text += (
            " An axis is missing; size 1 is enough where nothing varies."
            if name in ("bias", "logits")
            else " An axis is missing."
        )
    return text


def _moved(order: tuple[int, ...], moved: list[str]) -> str:
    back = ", ".join(str(order.index(n)) for n in range(len(order)))
    return "swapped" if len(moved) == 2 else f"turned; .permute({back}) puts them right"


def _fixed_size(got: tuple[int, ...], want: tuple[int, ...], axes: tuple[str, ...], subject: Subject) -> str:
    """What to say on the command line when an axis that the implementation is not told about has a size of its own."""
    names = {"H": ("num_heads",), "D": ("head_dim", "embed_dim")}
    known = {f.name for f in fields(subject.cls)}
    found = []
    for axis, a, b in zip(axes, got, want, strict=True):
        setting = next((n for n in names.get(axis, ()) if n in known), None)
        if a == b:
            continue
        if setting is None or setting in subject.free:
            return ""
        found.append(f"--set {setting}={a}")
    return " ".join(found)
