"""Compares what came with what was expected, element by element, in units of the rounding bound."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from relpos.conformance.expected import AXES, Expected
from relpos.conformance.plan import Plan
from relpos.conformance.precision import largest_number
from relpos.conformance.tolerance import C, growth, units


@dataclass(frozen=True)
class Comparison:
    """Errors of one array in units of s(n)·u·M + u_p·P + n·η; more than `allowed` of them is a fault."""

    name: str
    got: np.ndarray
    expected: np.ndarray
    units: np.ndarray
    allowed: float
    axes: tuple[str, ...]
    labels: tuple[str, ...] = ()

    @property
    def worst(self) -> tuple[int, ...]:
        """Index of the largest error."""
        return tuple(int(i) for i in np.unravel_index(int(np.argmax(self.units)), self.units.shape)) if self.units.size else ()

    @property
    def largest(self) -> float:
        """The largest error in units of the bound's unit."""
        return float(self.units.max()) if self.units.size else 0.0

    @property
    def ok(self) -> bool:
        """Every element lies within its bound."""
        return self.largest <= self.allowed


class LawFailure(AssertionError):
    """A law does not hold for an input; carries what a reader needs to see why."""

    def __init__(
        self, says: str, *, plan: Plan, comparison: Comparison | None = None, facts: dict[str, Any] | None = None
    ) -> None:
        super().__init__(says)
        self.says = says
        self.plan = plan
        self.comparison = comparison
        self.facts = facts or {}
        self.law = ""

    def __reduce__(self) -> tuple[Any, ...]:
        return _failure, (self.says, self.plan, self.comparison, self.facts, self.law)


def _failure(says: str, plan: Plan, comparison: "Comparison | None", facts: dict[str, Any], law: str) -> LawFailure:
    failure = LawFailure(says, plan=plan, comparison=comparison, facts=facts)
    failure.law = law
    return failure


@dataclass(frozen=True)
class Tally:
    """Largest error over one check, in units; what Hypothesis climbs."""

    largest: float = 0.0
    notes: dict[str, Any] = field(default_factory=dict)


def bound_of(want: Expected, dtype: str) -> np.ndarray:
    """The unit in which errors of an array are counted: s(n)·u·M + u_p·P + n·η."""
    unit, summed = units(dtype), growth(want.size.n)
    return summed * unit.u * want.size.M + unit.u_position * want.size.P + want.size.n * unit.eta


def compare(got: np.ndarray, want: Expected, dtype: str, *, factor: float = 1.0) -> Comparison:
    """Errors of `got` against the expected array; factor 2 where both sides come from the implementation."""
    bound = bound_of(want, dtype)
    return compare_within(
        got,
        _held(got, want.value, largest_number(dtype)),
        bound,
        name=want.name,
        allowed=C[want.kind] * factor,
        axes=AXES.get(want.name),
    )


def _held(got: np.ndarray, value: np.ndarray, most: float) -> np.ndarray:
    """The expected array with ±∞ where a value is more than the dtype holds and that is what came."""
    over = (np.abs(value) > most) & np.isinf(got) & (np.sign(got) == np.sign(value))
    return np.where(over, got, value)


def compare_within(
    got: np.ndarray, value: np.ndarray, bound: np.ndarray, *, name: str, allowed: float, axes: tuple[str, ...] | None = None
) -> Comparison:
    """Errors in units of `bound`; equal infinities are no error, NaN or an infinity out of place is an infinite one."""
    got, value = np.broadcast_arrays(np.asarray(got, dtype=np.float64), value)
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.where(got == value, 0.0, np.abs(got - value))
        found = error / np.broadcast_to(np.maximum(bound, np.finfo(np.float64).tiny), error.shape)
    found = np.where(np.isnan(found), np.inf, found)
    if axes is None or found.ndim not in (len(axes), len(axes) + 1):
        axes = tuple(f"axis {n}" for n in range(found.ndim))
    axes = axes if found.ndim == len(axes) else ("batch", *axes)
    return Comparison(name, got, value, found, allowed, axes)


def demand(comparison: Comparison, says: str, plan: Plan, **facts: Any) -> float:
    """Raise LawFailure unless the comparison is within bounds; the largest error otherwise, in units."""
    if not comparison.ok:
        raise LawFailure(says, plan=plan, comparison=comparison, facts=facts)
    return comparison.largest
