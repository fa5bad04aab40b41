"""Goldens that come as rows of JSON, as arrays: one per column where rows are alike, one per row and key where they are not."""

from typing import Any

import numpy as np

SETTINGS = ("num_buckets", "max_distance", "bidirectional")


def columns(rows: Any) -> dict[str, np.ndarray]:
    """Arrays by name; a list of distances comes with the settings each belongs to, [n, 3], as `… settings`."""
    if isinstance(rows, dict):  # "64,128,True": distances
        told = [(key.split(","), found) for key, found in rows.items()]
        return _lists("differ", [((int(n), int(most), both == "True"), found) for (n, most, both), found in told])
    if "disagree" in rows[0]:
        return _scan(rows)
    if any("hf" in row for row in rows):
        return {f"{key} {label(row)}": np.array(row[key]) for row in rows for key in row if key not in SETTINGS}
    return {column: np.array([row[column] for row in rows]) for column in rows[0]}


def label(row: dict[str, Any]) -> str:
    """A name for the settings of a row."""
    return f"nb{row['num_buckets']}_md{row['max_distance']}_{'bi' if row['bidirectional'] else 'causal'}"


def _scan(rows: list[dict]) -> dict[str, np.ndarray]:
    settings = [tuple(row[name] for name in SETTINGS) for row in rows]
    found = _lists("lower_edges_exact", [(s, row["lower_edges_exact"] or []) for s, row in zip(settings, rows, strict=True)])
    for formula in sorted({name for row in rows for name in row["disagree"]}):
        each = [(s, row["disagree"].get(formula, [])) for s, row in zip(settings, rows, strict=True)]
        found |= _lists(f"disagree {formula}", each)
    return found


def _lists(name: str, each: list[tuple[tuple[int, int, bool], list[int]]]) -> dict[str, np.ndarray]:
    values = [(value, *settings) for settings, found in each for value in found]
    table = np.array(values, dtype=np.int64).reshape(len(values), 4)
    return {name: table[:, 0], f"{name} settings": table[:, 1:]}
