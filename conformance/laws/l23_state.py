"""L23: a module survives what is done to modules: saved, loaded, copied, pickled, cast and back, built on the meta device."""

import copy
import inspect
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from hypothesis import strategies as st
from torch import nn

from relpos.conformance.answers import definition, prepared
from relpos.conformance.calling import Instance
from relpos.conformance.errors import Raised, Refused
from relpos.conformance.expected import AXES
from relpos.conformance.judge import LawFailure, bound_of, compare_within, demand
from relpos.conformance.laws.base import Law
from relpos.conformance.plan import Inputs, Plan
from relpos.conformance.precision import rounded
from relpos.conformance.smoke import smoke_plan
from relpos.conformance.subject import Subject
from relpos.conformance.tolerance import C

MANY = 12  # heads: with fewer, and with a power of two, slopes are powers of two, which any cast leaves as they are
RUBBISH = 3.0  # what the original holds after it was copied; any value that no answer has would do


def check(subject: Subject, plan: Plan) -> float:
    """The revived module answers as the first one did."""
    given = _in_bfloat16(prepared(subject, plan))
    first = Instance(subject, given)
    before = first.results(given)
    way, says = plan.extra["way"], WAYS[plan.extra["way"]][1]
    try:
        second = first.revived(WAYS[way][0](subject, given, first.target))
        after = second.results(given)
    except (Refused, LawFailure):
        raise
    except Exception as error:  # noqa: BLE001 - whatever a revived module raises is what the law is about
        told = error.original if isinstance(error, Raised) else error
        raised = f"{says}, it raises {type(told).__name__}: {_line(told)}"
        raise LawFailure(raised + _unsaved(first.target, way), plan=plan) from None
    largest = 0.0
    for name, want in definition(subject, given).items():
        bound = 2 * bound_of(want, plan.dtype)
        found = compare_within(after[name], before[name], bound, name=name, allowed=C[want.kind], axes=AXES[name])
        told = f"{says}, it answers otherwise than before{_unsaved(first.target, way)}"
        largest = max(largest, demand(found, told, plan))
    return largest


def _copied(subject: Subject, given: Inputs, module: nn.Module) -> nn.Module:
    twin = copy.deepcopy(module)
    with torch.no_grad():
        for tensor in [*module.parameters(), *module.buffers()]:
            tensor.fill_(RUBBISH if tensor.is_floating_point() else 0)
    return twin


def _loaded(subject: Subject, given: Inputs, module: nn.Module) -> nn.Module:
    fresh = Instance(subject, given).target
    fresh.load_state_dict(module.state_dict())
    return fresh


def _cast(subject: Subject, given: Inputs, module: nn.Module) -> nn.Module:
    return copy.deepcopy(module).to(torch.bfloat16).to(torch.float32)


def _cast_up(subject: Subject, given: Inputs, module: nn.Module) -> nn.Module:
    return copy.deepcopy(module).to(torch.float64).to(torch.float32)


def _pickled(subject: Subject, given: Inputs, module: nn.Module) -> nn.Module:
    """As worker processes and torch.save(module) have it; a class that pickle cannot find again is not held against it."""
    try:
        written = pickle.dumps(module)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise Refused(f"it cannot be pickled: {error}") from error
    return pickle.loads(written)


def _from_meta(subject: Subject, given: Inputs, module: nn.Module) -> nn.Module:
    """As large models are loaded: built without memory, given memory that holds anything, then the saved values."""
    with torch.device("meta"):
        empty = Instance(subject, given).target
    with _memory_filled():
        empty = empty.to_empty(device=subject.device)
    empty.load_state_dict(module.state_dict())
    return empty


@contextmanager
def _memory_filled() -> Iterator[None]:
    """New memory holds NaN and greatest integers: what is never written must not happen to be right."""
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])


Way = Callable[[Subject, Inputs, nn.Module], nn.Module]
WAYS: dict[str, tuple[Way, str]] = {
    "state dict": (_loaded, "after its state dict was loaded into a fresh instance"),
    "deepcopy": (_copied, "copied, and its original overwritten"),
    "cast": (_cast, "after it was cast to bfloat16 and back"),
    "cast up": (_cast_up, "after it was cast to float64 and back"),
    "pickle": (_pickled, "after it was pickled"),
    "meta": (_from_meta, "built on the meta device, given memory and its state dict"),
}


def _in_bfloat16(given: Inputs) -> Inputs:
    """Learned numbers that a cast leaves as they are: what changes then is no parameter."""
    return given.but(params={name: rounded(value, "bfloat16") for name, value in given.params.items()})


def _unsaved(module: nn.Module, way: str) -> str:
    """Which buffers nothing restores, and what can be done."""
    lost = [name for name, _ in module.named_buffers() if name not in module.state_dict()]
    if way != "meta" or not lost:
        return ""
    return f"; {', '.join(lost)} is not saved: make the buffer persistent, or compute it where it is used"


def _line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [""])[0]


def _pinned(subject: Subject) -> list[Plan]:
    plan = smoke_plan(subject).but(dtype="float32")
    found = [plan.but(extra={"way": way}) for way in WAYS if way != "meta" or not _given_tensors(subject)]
    many = smoke_plan(subject, heads=MANY).but(dtype="float32", extra={"way": "cast"})
    return [*found, many] if many.heads == MANY else found


def _given_tensors(subject: Subject) -> bool:
    """Built from tensors that live somewhere already."""
    names = set(subject.built_with.ours) if subject.built_with else set()
    learned = set(subject.cls(**smoke_plan(subject).settings).parameters())
    return bool(names & (learned | {"params", "device"}))


def _applies(subject: Subject) -> str | None:
    module = inspect.isclass(subject.target) and issubclass(subject.target, nn.Module)
    if not module or subject.kind != "module":
        return "it is no module"
    return None if "float32" in subject.dtypes else "judged in float32"


LAW = Law(
    name="L23",
    title="state survives",
    slug="state",
    why="Models are saved, cast, copied and built without memory; a table lost on the way is noise in the restored model.",
    statement="Saved and loaded, copied, pickled, cast and back, or built on the meta device, a module answers as before.",
    check=check,
    plans=lambda subject: st.sampled_from(_pinned(subject)),
    applies=_applies,
    pinned=_pinned,
    share=0.0,
)
