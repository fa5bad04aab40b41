"""The smoke gate: does the implementation run and return something of the right shape? If not, nothing is judged."""

import numpy as np

from relpos.conformance import grids
from relpos.conformance.answers import answer, prepared
from relpos.conformance.calling import Instance
from relpos.conformance.errors import AdapterError, Raised, Refused
from relpos.conformance.placing import within_reach
from relpos.conformance.plan import Inputs, Plan
from relpos.conformance.settings import SIZES, legal, sized
from relpos.conformance.subject import Subject


class NothingButNaN(AdapterError):
    """It answers, but with no number at all."""


# All sizes distinct, so that an axis in the wrong place shows.
SIZE = {"batch": 2, "heads": 3, "query_length": 5, "key_length": 7, "head_dim": 8}
# For those who decline, by name, a number of heads that is not a power of two.
POWER_OF_TWO = {"heads": 4}


def smoke_plan(subject: Subject, **changes: int) -> Plan:
    """The gate's input: distinct sizes, contiguous positions."""
    size = {**SIZE, **changes}
    settings = sized(subject.cls, subject.fixed)
    for name, axis in SIZES.items():
        if name not in settings:
            continue
        if name in subject.fixed:
            size[axis] = settings[name]
        elif legal(subject.cls, {**settings, name: max(size[axis], settings[name])}):
            size[axis] = settings[name] = max(size[axis], settings[name])
        else:
            size[axis] = settings[name] = 4
    Lq, Lk = size["query_length"], size["key_length"]
    if subject.one_length or subject.kind == "decoder":
        Lq = Lk
    if subject.card.max_length is not None:
        Lq, Lk = min(Lq, subject.card.max_length), min(Lk, subject.card.max_length)
    size |= {"query_length": Lq, "key_length": Lk}
    if subject.on_grid:
        where = grids.laid_out(subject, subject.cls(**settings), Lq, Lk)
        return Plan(settings=settings, dtype=subject.dtypes[0], seed=1).but(**{**size, **where})
    bottom_right = subject.positions != "contiguous" or subject.card.corner == "bottom-right"
    explicit = subject.positions == "arbitrary"
    start = Lk - Lq if bottom_right else 0
    causal = subject.level == "attention" and (subject.kind == "decoder" or subject.card.softmax == "causal")
    plan = Plan(settings=settings, causal=causal, dtype=subject.dtypes[0], seed=1).but(
        **size,
        offset=start,
        query_positions=tuple(range(start, start + Lq)) if explicit else None,
        key_positions=tuple(range(Lk)) if explicit else None,
    )
    return within_reach(subject, plan)


def smoke(subject: Subject) -> Subject:
    """The subject once it has answered; tries NumPy arrays where torch tensors are refused. AdapterError otherwise."""
    if subject.kind == "resizer":
        return subject  # what it returns is looked at by its law
    try:
        return _ran(subject)
    except NothingButNaN as error:
        raise AdapterError(f"{error}{_otherwise(subject)}") from error
    except AdapterError:
        raise
    except (Raised, Refused) as error:
        try:
            return _ran(subject.but(arrays="numpy"))
        except (Raised, Refused, AdapterError):
            raise AdapterError(_advice(subject, error)) from error


def _ran(subject: Subject) -> Subject:
    try:
        return _answered(subject, smoke_plan(subject))
    except Refused:
        return _answered(subject, smoke_plan(subject, **POWER_OF_TWO))


def _answered(subject: Subject, plan: Plan) -> Subject:
    given = prepared(subject, plan)
    try:
        got = answer(subject, given)
    except AdapterError:
        if subject.level == "attention" and subject.card.level is None:
            return _as_logits(subject)
        raise
    if subject.arrays == "torch" and subject.card.gradient is None and _takes_no_gradient(subject, given):
        return _ran(subject.but(arrays="numpy"))
    if all(np.isnan(value).all() for value in got.values()):
        raise NothingButNaN(f"{subject.spec} returned nothing but NaN on ordinary inputs ({given.plan.describe()}).")
    return subject


def _takes_no_gradient(subject: Subject, given: Inputs) -> bool:
    """NumPy functions take torch tensors as well, until one of them needs a gradient."""
    wanted = frozenset({"q", "k", "v", "x", "x of the query", "x of the key", *given.params})
    try:
        Instance(subject, given).tensors(given, wanted)
    except Raised as error:
        return "numpy() on Tensor" in str(error)
    except (Refused, AdapterError):
        return False
    return False


def _as_logits(subject: Subject) -> Subject:
    """Level is told by shape: something that takes v may still return the complete score."""
    other = subject.but(level="logits")
    try:
        answer(other, prepared(other, smoke_plan(other)))
    except AdapterError:
        given = prepared(subject, smoke_plan(subject))
        answer(subject, given)
    return other


def _advice(subject: Subject, error: Exception) -> str:
    text = f"{subject.spec} could not be called on ordinary inputs ({smoke_plan(subject).describe()}): {error}."
    if subject.unbound:
        left = " and ".join(f"`{name}`" for name in subject.unbound)
        text += f" It was not given {left}, left at the default; if needed: --claim binds={','.join(subject.unbound)}."
    learned = {
        name: list(shape) for name, shape in _shapes(subject).items() if name in subject.asks or "params" in subject.asks
    }
    if learned:
        text += f" It was given {' and '.join(f'`{name}` of shape {shape}' for name, shape in learned.items())}."
    return text + _otherwise(subject)


def _shapes(subject: Subject) -> dict[str, tuple[int, ...]]:
    return subject.cls(**smoke_plan(subject).settings).parameters()


def _otherwise(subject: Subject) -> str:
    readings = _other_readings(subject)
    return f" It runs if {' or if '.join('--claim ' + claim for claim in readings)}." if readings else ""


def _other_readings(subject: Subject) -> list[str]:
    """Layouts and mask senses under which it runs at all; never a pass."""
    tries: list[tuple[str, str]] = []
    if {"q", "x"} & subject.asks:
        tries.append(("layout", "blhd" if subject.card.layout == "bhld" else "bhld"))
    if {"mask", "padding_mask"} & subject.asks:
        tries += [("mask", sense) for sense in ("true_keeps", "true_drops", "additive") if sense != subject.card.mask]
    found = []
    for name, value in tries:
        try:
            _ran(subject.but(card=subject.card.with_claims({name: value})))
        except (Raised, Refused, AdapterError):
            continue
        found.append(f"{name}={value}")
    return found
