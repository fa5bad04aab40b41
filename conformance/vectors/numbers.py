"""Arrays as JSON: flat, row-major, with their shape; every number comes back exactly as it was."""

from typing import Any

import numpy as np

from relpos.conformance.expected import Expected
from relpos.conformance.judge import bound_of
from relpos.conformance.precision import largest_number, rounded
from relpos.conformance.tolerance import C, units

DTYPES = ("float32", "bfloat16", "float16")
DIGITS = 3  # of a bound, rounded up: nobody is accused for what is left out
EXACT = 2**53  # a whole number up to here is one in any JSON reader
FIRST_ORDER = 0.1  # u·|logit| beyond this is no matter of rounding
INFINITIES = {np.inf: "Infinity", -np.inf: "-Infinity"}


def listed(values: np.ndarray) -> list[Any]:
    """The elements in row-major order; infinities are strings, since JSON has none."""
    flat = np.asarray(values).ravel().tolist()
    return [_number(x) if isinstance(x, float) else int(x) if isinstance(x, bool) else x for x in flat]


def array(values: np.ndarray) -> dict[str, Any]:
    """An array of an input: shape and data."""
    return {"shape": list(np.shape(values)), "data": listed(values)}


def output(want: Expected) -> dict[str, Any]:
    """An array that is owed, with what an implementation may be off by: multiplied out for float32, M, P and n for others."""
    size = want.size
    M, P = (raised(np.broadcast_to(x, want.value.shape)) for x in (size.M, size.P))
    found = {**array(want.value), "kind": want.kind, "n": int(size.n)}
    found["allowed_float32"] = listed(allowed(want, "float32"))
    found["M"] = listed(M)
    return {**found, "P": listed(P)} if P.any() else found


def allowed(want: Expected, dtype: str) -> np.ndarray:
    """The largest error that is rounding, c · (s(n)·u·M + u_p·P + n·η), each rounded up in its last digit."""
    return raised(C[want.kind] * np.broadcast_to(bound_of(want, dtype), want.value.shape))


def raised(values: np.ndarray) -> np.ndarray:
    """The same numbers with few digits, none of them smaller."""
    return np.array([_raised(float(x)) for x in values.ravel()]).reshape(values.shape)


def _raised(x: float) -> float:
    short = float(f"{x:.{DIGITS - 1}e}")
    return short if short >= x else float(f"{x * (1 + 10.0 ** (1 - DIGITS)):.{DIGITS - 1}e}")


def _number(x: float) -> Any:
    if np.isinf(x):
        return INFINITIES[x]
    whole = x.is_integer() and abs(x) < EXACT and not (x == 0 and np.signbit(x))
    return int(x) if whole else x


def dtypes_of(arrays: list[np.ndarray], wants: list[Expected], score: np.ndarray | None) -> list[str]:
    """Working dtypes that hold every input exactly and every output, and in which no logit is lost to rounding."""
    found = []
    for dtype in DTYPES:
        exact = all(np.array_equal(rounded(x, dtype), x) for x in arrays)
        held = all(np.abs(w.value[np.isfinite(w.value)]).max(initial=0) <= largest_number(dtype) for w in wants)
        calm = score is None or units(dtype).u * np.abs(score).max(initial=0) <= FIRST_ORDER
        found += [dtype] if exact and held and calm else []
    return found
