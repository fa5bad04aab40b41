"""A term of the logits that depends on what is compared: rows read, and the term of one head for drawn queries and keys."""

from typing import Any

import numpy as np

from relpos.show.drawings.bias import table_panels
from relpos.show.drawings.panel import Panel, lines, map_of
from relpos.show.probing import drawn_parameters, position_term, reach
from relpos.spec.positions import Range

LENGTH, MAP = 33, 12
UNITS = "position term, before the scale"
SEED = 1


def panels(settings: Any) -> list[Panel]:
    """Rows of every table, then the term."""
    return [*rows_panels(settings), *term_panels(settings)]


def rows_panels(settings: Any) -> list[Panel]:
    """For every table that is read by rows: which row, over distance and for every pair; tables read alike are drawn once."""
    far = reach(settings, int(min(max(1.25 * getattr(settings, "max_distance", 16), 8), 160)))
    found: list[Panel] = []
    for name in settings.parameters():
        if not found or name != "rel_v":
            found += table_panels(settings, name, far, min(MAP, far + 1))
    return found


def term_panels(settings: Any) -> list[Panel]:
    """The term for drawn q, k and tables: a map, and over distance for three queries, which differ."""
    length = min(LENGTH, reach(settings, LENGTH - 1) + 1)
    positions, rng = Range(0, length), np.random.default_rng(SEED)
    heads, width = getattr(settings, "num_heads", 1), getattr(settings, "head_dim", 64)
    q, k = rng.standard_normal((2, heads, length, width))
    term = position_term(settings, drawn_parameters(settings), q, k, positions, positions)[0]
    queries = [length // 4, length // 2, 3 * length // 4]
    rows = np.full((len(queries), 2 * length - 1), np.nan)
    for row, i in zip(rows, queries, strict=True):
        row[length - 1 - i : 2 * length - 1 - i] = term[i]
    x, names = np.arange(1 - length, length), [f"query at {i}" for i in queries]
    drawn = f"head 0; q, k and tables drawn from seeds {SEED} and 0"
    over = lines(x, rows, names, "key − query, positions", UNITS)
    return [
        Panel(f"term of every pair, {drawn}", map_of(term, UNITS)),
        Panel(f"the same over distance: it depends on the query, {drawn}", over),
    ]
