"""One call of a history: in the mode that its step says, with the gradients of a training call."""

import copy
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from relpos.conformance.calling import Instance
from relpos.conformance.errors import Raised
from relpos.conformance.gradients import float_names
from relpos.conformance.handing import scribble
from relpos.conformance.history_steps import Step
from relpos.conformance.plan import Inputs
from relpos.conformance.precision import rounded
from relpos.conformance.reading import to_numpy
from relpos.conformance.subject import Subject

# Options that ask for something beside the answer, as layers call them.
MORE = (
    "need_weights",
    "output_attentions",
    "return_weights",
    "return_attention",
    "return_attn",
    "return_scores",
    "return_bias",
)
LAID_OUT = ("q", "k", "v", "x of the query", "x of the key")


@dataclass(frozen=True)
class Answered:
    """What came back, and, of a training call, the gradients of Σ result · cotangent by input; 0 where none arrives."""

    values: dict[str, np.ndarray]
    gradients: dict[str, np.ndarray]
    cotangents: dict[str, np.ndarray]


def answered(instance: Instance, given: Inputs, step: Step) -> Answered:
    """Make the call of a step."""
    instance = _around(instance, step)
    training = step.get("under") == "training"
    wanted = frozenset(float_names(instance.subject, given)) if training else frozenset()
    with _mode(instance, step):
        raw, leaves = instance.tensors(given, wanted)
        values = {name: to_numpy(value) for name, value in raw.items()}
        if not training:
            return Answered(values, {}, {})
        generator = np.random.default_rng(given.plan.seed + 1)
        cotangents = {n: rounded(generator.standard_normal(v.shape), given.plan.dtype) for n, v in values.items()}
        return Answered(values, _backward(instance, raw, leaves, wanted, cotangents), cotangents)


def extra_output(subject: Subject) -> str | None:
    """The option by which it can be asked for more than its answer; None if it has none."""
    target = subject.target
    method = getattr(target, "forward", None) or (target.__call__ if inspect.isclass(target) else target)
    try:
        parameters = inspect.signature(method).parameters
    except (TypeError, ValueError):
        return None
    return next((name for name in MORE if name in parameters and parameters[name].default is False), None)


def _backward(instance: Instance, raw: dict, leaves: dict, wanted: frozenset[str], cotangents: dict) -> dict[str, np.ndarray]:
    own = {name: leaves[name] for name in sorted(wanted) if isinstance(leaves.get(name), torch.Tensor)}
    for leaf in own.values():
        leaf.grad = None
    pairs = [(raw[n], torch.from_numpy(g).to(raw[n])) for n, g in cotangents.items() if raw[n].requires_grad]
    try:
        if pairs:
            torch.autograd.backward([r for r, _ in pairs], [g for _, g in pairs])
    except (Exception, SystemExit) as error:
        raise Raised(error) from error
    found = {n: np.zeros(tuple(x.shape)) if x.grad is None else to_numpy(x.grad) for n, x in own.items()}
    for leaf in own.values():
        leaf.grad = None
    swap = instance.subject.card.layout == "blhd"
    return {n: g.swapaxes(1, 2) if swap and n in LAID_OUT else g for n, g in found.items()}


def _around(instance: Instance, step: Step) -> Instance:
    """The instance with what the step wants of the call around it."""
    other, through = copy.copy(instance), instance.through
    if (device := step.get("device")) is not None:
        other.subject = instance.subject.but(device=device)
        if isinstance(instance.target, torch.nn.Module):
            instance.target.to(device)
    if (more := step.get("more")) is not None:
        other.through = lambda target: _first(through(_asked(target, more)))
    if step.get("overwrite"):
        other.through = lambda target: _taken(through(target))
    return other


def _asked(target: Any, more: str) -> Callable[..., Any]:
    return lambda *args, **options: target(*args, **options, **{more: True})


def _first(target: Any) -> Callable[..., Any]:
    def called(*args: Any, **options: Any) -> Any:
        result = target(*args, **options)
        return result[0] if isinstance(result, tuple) else result

    return called


def _taken(target: Any) -> Callable[..., Any]:
    """A caller that takes a copy of each result and writes over what it was handed."""

    def called(*args: Any, **options: Any) -> Any:
        result = target(*args, **options)
        taken = copy.deepcopy(result)
        scribble(result)
        return taken

    return called


@contextmanager
def _mode(instance: Instance, step: Step) -> Iterator[None]:
    under, module = step.get("under", "no_grad"), instance.target
    train = bool(step.get("train")) and isinstance(module, torch.nn.Module)
    device = torch.device(instance.subject.device).type
    with (
        torch.inference_mode(under == "inference_mode"),
        torch.set_grad_enabled(under == "training"),
        torch.autocast(device, dtype=torch.bfloat16, enabled=under == "autocast"),
        _same_dice(train),
    ):
        if not train:
            yield
            return
        module.train()
        try:
            yield
        finally:
            module.eval()


@contextmanager
def _same_dice(train: bool) -> Iterator[None]:
    """Dropout draws alike at every call, and nobody else's draws are moved."""
    if not train:
        yield
        return
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield
