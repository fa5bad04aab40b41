"""music_transformer: the steps of Skew in four small tables, beside what is drawn of every term of the logits."""

from typing import Any

import numpy as np

from relpos.show.drawings.logits import rows_panels, term_panels
from relpos.show.drawings.panel import Panel, map_of

LENGTH = 5


def panels(settings: Any) -> list[Panel]:
    """Rows, the term, the steps of Skew."""
    return [*rows_panels(settings), *term_panels(settings), *skew_panels()]


def skew_panels(length: int = LENGTH) -> list[Panel]:
    """q_i · E[r] for all i and r, padded, reshaped and sliced until the column is the key."""
    every, padded, reshaped, sliced = skew(length)
    after = np.triu(np.ones((length, length), dtype=bool), 1)
    done = "Skew 4: without row 0; grey are cells of the next query, hidden by a causal mask"
    steps = [
        ("Skew 1: q_i · E[r] for every i and r, written ir", every, "row r"),
        ("Skew 2: a column of zeros before it (grey)", padded, "column"),
        (f"Skew 3: the same numbers in {length + 1} rows of {length}", reshaped, "column"),
        (done, np.where(after, np.nan, sliced), "key j"),
    ]
    return [Panel(title, map_of(cells, "", numbered=True, x_label=x, y_label="row, query i")) for title, cells, x in steps]


def skew(length: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The four tables, a cell numbered by the query and row it comes from; NaN where the zeros are."""
    every = 10.0 * np.arange(length)[:, None] + np.arange(length)
    padded = np.concatenate([np.full((length, 1), np.nan), every], axis=1)
    reshaped = padded.reshape(length + 1, length)
    return every, padded, reshaped, reshaped[1:]
