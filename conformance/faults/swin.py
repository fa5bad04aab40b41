"""Faults of swin's bias: those of any table over a window, its rows in another order, and an offset that is forgotten."""

from relpos.conformance.faults.api import Fault
from relpos.conformance.faults.windows import FLAT, counted, of_windows, reading

AS_PUBLISHED = {"window_size": (3, 4), "sign": "query_minus_key"}

# fmt: off
FAULTS = (
    Fault("rows-reversed", "the table read backwards along the second axis", "L13",
        counted(lambda d, W: (d[0] + W[0] - 1) * (2 * W[1] - 1) + W[1] - 1 - d[1]), settings=FLAT),
    Fault("one-offset-late", "offsets that begin at W, not at W − 1", "L13",
        counted(lambda d, W: (d[0] + W[0]) * (2 * W[1] - 1) + d[1] + W[1]), settings=FLAT),
    Fault("absolute-position", "a row that depends on the query's place as well", "L2",
        lambda s: reading(s, lambda i, j: s.row(i, j) if i is None else (s.row(i, j) + i[0] * 5 + i[1]) % 15), settings=FLAT),
    *of_windows(AS_PUBLISHED),
)
# fmt: on
