"""Tables that are read row by row: what they are, how numbers are put into them, and how a row that came back is spoken of."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from relpos.conformance.expected import scale_of
from relpos.conformance.plan import Inputs

STEP = 1 / 16  # between rows of the ramp: powers of e to 257 rows stay within float32, and every number is exact in 16 bits
SLACK = 0.25  # of a row; numbers between rows are no row
TABLE = "table"  # the name of one that needs no content to be read
NOTHING = -1  # the row of a pair that has no bias

Row = Callable[[int, int], int | None]


def tables(settings: Any) -> dict[str, tuple[str | None, Row]]:
    """Tables that are read row by row: whose content a row meets (None: it is added as it is), and row(i, j)."""
    if hasattr(settings, "lookups"):
        return settings.lookups()
    return {TABLE: (None, settings.row)} if TABLE in settings.parameters() else {}


def holding(given: Inputs, name: str, content: str | None, numbers: np.ndarray) -> Inputs:
    """The inputs with these numbers, one per row, as all that a logit is made of."""
    params = {other: np.zeros(value.shape) for other, value in given.params.items()}
    q, k = np.zeros(given.q.shape), np.zeros(given.k.shape)
    if content is None:
        params[name] += numbers[:, None]
    else:  # content of 1 in the first column meets the numbers there
        params[name][..., :1] = numbers[:, None] / scale_of(given)
        (q if content == "query" else k)[..., 0] = 1.0
    return given.but(params=params, q=q, k=k, v=np.zeros(given.v.shape))


def ramp(given: Inputs, name: str) -> np.ndarray:
    """(row + 1)·STEP, so that what comes back says which row was read."""
    return STEP * np.arange(1, given.params[name].shape[-2] + 1)


def want_at(settings: Any, name: str, side: str, distance: np.ndarray) -> np.ndarray:
    """The definition's rows at these distances."""
    starts, rows = steps(settings, name, side, power(int(distance.max())))
    return rows[np.searchsorted(starts, distance, side="right") - 1]


def power(distance: int) -> int:
    """The power of two that is not less, 2^17 or more: steps are found once for many blocks."""
    return 1 << max((distance - 1).bit_length(), 17)


@cache
def steps(settings: Any, name: str, side: str, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Distances at which the row changes, from 0 on, and the row from each of them on."""
    row: Row = tables(settings)[name][1]

    def at(d: int) -> int:
        found = row(d, 0) if side == "before" else row(0, d)
        return NOTHING if found is None else found

    at = cache(at)
    starts = [0, *_changes(at, 0, most)]
    return np.array(starts), np.array([at(d) for d in starts])


def _changes(at: Any, low: int, high: int) -> list[int]:
    """Where a step function changes, between two distances."""
    if low >= high or at(low) == at(high):
        return []
    if high - low == 1:
        return [high]
    middle = (low + high) // 2
    return _changes(at, low, middle) + _changes(at, middle, high)


def spoken(number: float) -> str:
    """A row that was read, in words."""
    if number == -np.inf:
        return "nothing, as if the key were hidden,"
    if not np.isfinite(number) or abs(number - round(number)) > SLACK:
        return f"no row of the table (row {number:.3g}, were it one)"
    return "no row" if round(number) == NOTHING else f"row {round(number)}"
