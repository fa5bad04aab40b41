"""Which mistakes a vector tells from the right answer: every named fault is run on it, nothing is typed in."""

import warnings

import numpy as np

from relpos.conformance.diagnosis import NO_MEANING, foreign
from relpos.conformance.expected import Expected, expected, scale_of
from relpos.conformance.faults.api import Fault
from relpos.conformance.faults.registry import faults
from relpos.conformance.judge import compare
from relpos.conformance.plan import Inputs
from relpos.spec.attention import attention, logits

CERTAIN = 2.0  # bounds: an implementation with the fault is off by a rounding of its own as well


def told(scheme: str, level: str) -> list[Fault]:
    """Faults that are a wrong definition and show at a level."""
    return [fault for fault in faults(scheme) if isinstance(fault, Fault) and level in fault.levels]


def catches(given: Inputs, level: str, wants: dict[str, Expected], among: list[Fault]) -> list[str]:
    """Names of the faults that give another answer on this input, by more than rounding in float32, or any if none is owed."""
    return [fault.name for fault in among if differs(given, level, wants, fault)]


def differs(given: Inputs, level: str, wants: dict[str, Expected], fault: Fault) -> bool:
    """Whether a fault's answer lies outside the bound."""
    if foreign(given, fault):
        return False
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # a mistake may divide by zero
            got = _values(fault.apply(given), level)
    except (*NO_MEANING, ArithmeticError):
        return False  # it has no meaning here
    if not wants:
        return True  # where there is to be no answer
    return any(_outside(got[name], want) for name, want in wants.items() if name in got)


def _outside(got: np.ndarray, want: Expected) -> bool:
    if got.shape[-2:] != want.value.shape[-2:]:
        return True
    try:
        return not compare(got, want, "float32", factor=CERTAIN).ok
    except ValueError:
        return True  # another shape


def _values(given: Inputs, level: str) -> dict[str, np.ndarray]:
    """What the definition says, without the sizes of its terms: those of a mistake are not asked for."""
    i = given
    at = (i.query_positions, i.key_positions)
    if level == "attention":
        out = attention(i.settings, i.params, i.q, i.k, i.v, *at, mask=i.mask, causal=i.causal, scale=i.scale)
        return {"output": out}
    if level == "logits":
        return {"logits": logits(i.settings, i.params, i.q, i.k, *at, scale=scale_of(i))}
    return {name: want.value for name, want in expected(given, level).items()}
