"""Tables that are read row by row: what they are, how numbers are put into them, and how a row that came back is spoken of."""

from collections.abc import Callable
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


def spoken(number: float) -> str:
    """A row that was read, in words."""
    if number == -np.inf:
        return "nothing, as if the key were hidden,"
    if not np.isfinite(number) or abs(number - round(number)) > SLACK:
        return f"no row of the table (row {number:.3g}, were it one)"
    return "no row" if round(number) == NOTHING else f"row {round(number)}"
