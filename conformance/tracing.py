"""An implementation as PyTorch's transforms make it: compiled, exported, mapped over samples; each stands in for the plain one.

What a transform itself declines (an operator it lacks, a length it fixed when it traced) is `Declined`, not a wrong answer.
"""

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import cycle
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from relpos.conformance.calling import Instance
from relpos.conformance.errors import Raised
from relpos.conformance.plan import Inputs

AUTO = torch.export.Dim.AUTO
# Exceptions of these modules are the transform's own: it could not, whatever the implementation meant.
OWN = ("torch._dynamo", "torch._inductor", "torch._functorch", "torch._export", "torch.export", "torch.fx")

Call = dict[str | int, Any]  # what one call is given, by place or by name


class Declined(Exception):
    """A transform does not take this implementation; the text is its own first line."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}")


class StandIn(nn.Module):
    """Called in place of an implementation; its learned tensors keep their names."""

    call: Callable[..., Any]
    learned: dict[str, nn.Parameter]

    def __init__(self, call: Callable[..., Any], learned: dict[str, nn.Parameter]) -> None:
        super().__init__()
        self.__dict__.update(call=call, learned=learned)

    def forward(self, *args: Any, **named: Any) -> Any:
        return self.call({**dict(enumerate(args)), **named})

    def named_parameters(self, *_: Any, **__: Any) -> Iterator[tuple[str, nn.Parameter]]:
        yield from self.learned.items()


class Whole(nn.Module):
    """An implementation as a module of what moves between calls; all else it is given stays as it was."""

    def __init__(self, target: Any, still: Call) -> None:
        super().__init__()
        self.target, self.still = target, still

    def forward(self, moving: list[Any], names: tuple[str | int, ...]) -> Any:
        return called(self.target, {**self.still, **dict(zip(names, moving, strict=True))})


def called(target: Any, given: Call) -> Any:
    """One call."""
    args = [given[n] for n in range(sum(isinstance(name, int) for name in given))]
    return target(*args, **{name: value for name, value in given.items() if isinstance(name, str)})


def calls_of(instance: Instance, given: Inputs) -> list[Call]:
    """What an implementation is called with: once, or once for queries and once for keys."""
    found: list[Call] = []

    def noting(call: Call) -> Any:
        found.append(call)
        return called(instance.target, call)

    instance.revived(StandIn(noting, learned_of(instance.target))).results(given)
    return found


def learned_of(target: Any) -> dict[str, nn.Parameter]:
    """Learned tensors that a target owns."""
    return dict(target.named_parameters()) if isinstance(target, nn.Module) else {}


def own(error: BaseException) -> bool:
    """Whether an exception is the transform's own."""
    told = error.original if isinstance(error, Raised) else error
    return type(told).__module__.startswith(OWN)


@contextmanager
def quiet() -> Iterator[None]:
    """Transforms report what they decline, in long logs and warnings; ours is one line."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def compiled(plain: Instance, backend: str, *, dynamic: bool | None = None) -> Instance:
    """Compiled for the lengths that come, or at once for all."""
    with quiet():  # a backend is imported when it is named
        return plain.revived(torch.compile(plain.target, backend=backend, dynamic=dynamic))


def exported(plain: Instance, lengths: list[Inputs]) -> Instance:
    """Exported at the first of some lengths, for all of them; Declined where torch.export does not take it."""
    calls = [calls_of(plain, given) for given in lengths]
    programs = [_program(plain.target, list(at)) for at in zip(*calls, strict=True)]
    turn = cycle(programs)
    learned = {name.removeprefix("target."): p for name, p in programs[0][0].named_parameters()}
    for other, _ in programs[1:]:
        for name, parameter in learned.items():
            _put(other, f"target.{name}", parameter)

    def run(call: Call) -> Any:
        module, names = next(turn)
        return module([call[n] for n in names], names)

    return plain.revived(StandIn(run, learned))


def _put(module: nn.Module, name: str, parameter: nn.Parameter) -> None:
    """Programs of one implementation share its learned tensors."""
    place, _, last = name.rpartition(".")
    setattr(module.get_submodule(place), last, parameter)


def _program(target: Any, calls: list[Call]) -> tuple[nn.Module, tuple[str | int, ...]]:
    names = tuple(n for n in calls[0] if _moves([call[n] for call in calls]))
    still = {n: value for n, value in calls[0].items() if n not in names}
    sizes = [_free([call[n] for call in calls]) for n in names]
    moving = [calls[0][n] for n in names]
    try:
        with quiet():
            shapes = (sizes, tuple(None for _ in names))
            # strict: traced without being run, so that nothing of the trace is left in a cache of theirs.
            made = torch.export.export(Whole(target, still), (moving, names), dynamic_shapes=shapes, strict=True)
            return made.module(), names
    except (Exception, SystemExit) as error:
        raise Declined(error) from error


def _moves(values: list[Any]) -> bool:
    first = values[0]
    if isinstance(first, Tensor):
        return True
    if isinstance(first, dict):
        return bool(first) and all(isinstance(v, Tensor) for v in first.values())
    return isinstance(first, int) and not isinstance(first, bool) and len(set(values)) > 1


def _free(values: list[Any]) -> Any:
    """Which sizes of a value differ from call to call."""
    first = values[0]
    if isinstance(first, dict):
        return {name: _free([v[name] for v in values]) for name in first}
    if isinstance(first, int):
        return AUTO
    return {d: AUTO for d in range(first.ndim) if len({v.shape[d] for v in values}) > 1}


def mapped(plain: Instance, samples: list[Inputs]) -> list[Instance]:
    """Mapped over samples by torch.func.vmap: one stand-in per sample; Declined where vmap does not take it."""
    calls = [calls_of(plain, given) for given in samples]
    answers = [_vectorised(plain.target, list(at)) for at in zip(*calls, strict=True)]
    return [plain.revived(_picked(answers, n, learned_of(plain.target))) for n in range(len(samples))]


def _picked(answers: list[Any], n: int, learned: dict[str, nn.Parameter]) -> StandIn:
    turn = cycle(answers)
    return StandIn(lambda call: tree_map(lambda x: x[n], next(turn)), learned)


def _vectorised(target: Any, calls: list[Call]) -> Any:
    stacked, still = {}, {}
    for name, value in calls[0].items():
        every = [call[name] for call in calls]
        if isinstance(value, dict) and _moves(every):
            stacked[name] = {n: torch.stack([v[n] for v in every]) for n in value}
        elif isinstance(value, Tensor) and value.is_floating_point():
            stacked[name] = torch.stack(every)
        else:
            still[name] = value
    try:
        with quiet(), torch.no_grad():
            return torch.func.vmap(lambda some: called(target, {**still, **some}))(stacked)
    except (Exception, SystemExit) as error:
        raise Declined(error) from error
