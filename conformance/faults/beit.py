"""Faults of beit's bias: the rows of its class token, and those of any table over a window."""

from collections.abc import Callable
from math import prod

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from relpos.conformance.faults.api import Fault, Planted, Wrong
from relpos.conformance.faults.windows import of_windows, reading
from relpos.spec.beit import BEiT

AS_PUBLISHED = {"window_size": (2, 3), "sign": "query_minus_key"}
Ends = Callable[[int, bool, bool], int]  # rows of the table, whether query and key are the class token → row


def _class_rows(row: Ends) -> Callable[[BEiT], Wrong]:
    """Other rows for the class token."""

    def wrong(s: BEiT) -> Wrong:
        D = s.parameters()["table"][0]
        return reading(s, lambda i, j: s.row(i, j) if i is not None and j is not None else row(D, i is None, j is None))

    return wrong


def _rows_first(s: BEiT) -> Wrong:
    D = s.parameters()["table"][0]
    return reading(s, lambda i, j: (s.row(i, j) + 3) % D)


def _as_patch(s: BEiT) -> Wrong:
    corner = (0,) * s.axes
    return reading(s, lambda i, j: s.row(corner, corner) if i is None or j is None else s.row(i, j))


def all_rows(table: Tensor, source_window, window_size) -> Tensor:
    """One line of rows, the class token's with the others."""
    rows = prod(2 * W - 1 for W in window_size) + len(table) - prod(2 * W - 1 for W in source_window)
    return interpolate(table.T[None], size=rows, mode="linear")[0].T


def without_class(table: Tensor, source_window, window_size) -> Tensor:
    offsets = prod(2 * W - 1 for W in source_window)
    image = table[:offsets].T.reshape(1, -1, *(2 * W - 1 for W in source_window))
    image = interpolate(image, size=[2 * W - 1 for W in window_size], mode="bicubic").flatten(2)[0].T
    return torch.cat([image, torch.zeros_like(table[offsets:])])


# fmt: off
FAULTS = (
    Fault("class-rows-exchanged", "the rows for the class token as query and as key exchanged", "L13",
        _class_rows(lambda D, query, key: D - 1 if query and key else D - 2 if query else D - 3), settings=AS_PUBLISHED),
    Fault("class-corner-forgotten", "no row of its own for the class token and itself", "L13",
        _class_rows(lambda D, query, key: D - 2 if key else D - 3), settings=AS_PUBLISHED),
    Fault("class-one-row", "one row for all that concerns the class token", "L13",
        _class_rows(lambda D, query, key: D - 1), settings=AS_PUBLISHED),
    Fault("class-rows-first", "the rows of the class token before those of patches", "L13", _rows_first,
        settings=AS_PUBLISHED),
    Fault("class-as-patch", "a class token without rows of its own", "L13", _as_patch, settings=AS_PUBLISHED),
    Planted("resized-with-class", "the class token's rows interpolated with the others", "L31", all_rows, ("B074",)),
    Planted("resized-without-class", "the class token's rows lost in resizing", "L31", without_class, ("B074",)),
    *of_windows(AS_PUBLISHED),
)
# fmt: on
