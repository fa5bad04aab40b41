"""Draws rows: latency, memory and overhead over L, each as SVG and PNG with exactly its data beside it as CSV."""

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib

from relpos.perf.figures.over_length import over_length
from relpos.perf.figures.points import COLUMNS, LATENCY, MEMORY, OVERHEAD, points
from relpos.perf.figures.style import STYLE
from relpos.perf.growth import write_table
from relpos.perf.rows import RowsError

METRICS = (LATENCY, MEMORY, OVERHEAD)


def draw(rows: Sequence[dict[str, Any]], folder: Path) -> list[Path]:
    """Draw all that the rows have figures for; the files that were written. RowsError if the folder cannot be written."""
    written: list[Path] = []
    for metric in METRICS:
        found = points(rows, metric)
        for mode, dtype in dict.fromkeys((one["mode"], one["dtype"]) for one in found):
            part = [one for one in found if (one["mode"], one["dtype"]) == (mode, dtype)]
            if any(one["value"] is not None for one in part):
                written += _saved(over_length(part, metric), part, folder / f"{metric.name}-{mode}-{dtype}")
    return written


def _saved(figure: Any, part: list[dict[str, Any]], stem: Path) -> list[Path]:
    write_table(stem.with_suffix(".csv"), COLUMNS, part)
    found = [stem.with_suffix(".csv")]
    for kind, metadata in (("svg", {"Date": None}), ("png", {"Software": None})):
        drawn = BytesIO()
        with matplotlib.rc_context(STYLE):
            figure.savefig(drawn, format=kind, metadata=metadata, bbox_inches="tight")
        path = stem.with_suffix(f".{kind}")
        try:
            path.write_bytes(drawn.getvalue())
        except OSError as error:
            raise RowsError(f"--figures: {path} could not be written ({error.strerror}).") from None
        found.append(path)
    return found
