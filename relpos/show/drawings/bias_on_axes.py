"""A bias of positions on several axes: rows of its table by offset and for every pair, bias of one query over the window."""

from typing import Any

import numpy as np

from relpos.show.drawings.panel import Panel, map_of
from relpos.show.probing import drawn_parameters, positions_shown, rows_read

UNITS = "bias, added to the logit"


def panels(settings: Any) -> list[Panel]:
    """Index by offset, index of every pair, bias of a query, bias of every pair."""
    where: Any = positions_shown(settings, 0)
    names = ["none" if p is None else ",".join(map(str, p)) for p in where]
    params = drawn_parameters(settings)
    bias = settings.bias(params, where, where)[0]
    drawn = "head 0 (learned: drawn from seed 0)"
    found = []
    for name in params:
        rows = rows_read(settings, name, where, where)
        if rows is not None:
            found += _index(settings, name, rows, list(where), names)
    middle = len(names) // 2
    there = np.where([p is not None for p in where])[0]
    flat = bias[middle, there].reshape(-1, settings.window_size[-1])
    axes = {"x_label": "column of the key", "y_label": "row of the key", "offsets": [range(n) for n in flat.shape]}
    return [
        *found,
        Panel(f"bias of the query at ({names[middle]}) over the window, {drawn}", map_of(flat, UNITS, **axes)),
        Panel(f"bias of every pair, {drawn}", map_of(bias, UNITS, ticks=names)),
    ]


def _index(settings: Any, name: str, rows: np.ndarray, where: list[Any], names: list[str]) -> list[Panel]:
    label = f"row of {name}"
    every = Panel(f"{label} for every pair of tokens", map_of(rows, label, numbered=True, ticks=names))
    if len(settings.window_size) != 2:
        return [every]
    height, width = (2 * W - 1 for W in settings.window_size)
    by_offset = np.full((height, width), np.nan)
    for (a, i), (b, j) in _pairs(where):
        offset = [p - r + W - 1 for p, r, W in zip(i, j, settings.window_size, strict=True)]
        by_offset[offset[0], offset[1]] = rows[a, b]
    labels = {"x_label": "query column − key column", "y_label": "query row − key row"}
    from_zero = [range(1 - W, W) for W in settings.window_size]
    return [Panel(f"{label} by offset", map_of(by_offset, label, numbered=True, offsets=from_zero, **labels)), every]


def _pairs(where: list[Any]) -> list[tuple[tuple[int, Any], tuple[int, Any]]]:
    placed = [(n, p) for n, p in enumerate(where) if p is not None]
    return [(query, key) for query in placed for key in placed]
