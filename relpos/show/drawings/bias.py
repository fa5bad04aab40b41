"""A bias: per head over distance, and as a map; the rows it reads of a table, or its slopes."""

from typing import Any

import numpy as np

from relpos.show.drawings.panel import Panel, lines, map_of
from relpos.show.probing import drawn_parameters, reach, rows_read
from relpos.spec.positions import Range

UNITS = "bias, added to the logit"
LENGTH = 16


def panels(settings: Any) -> list[Panel]:
    """Bias over distance, its map, and where it comes from."""
    params = drawn_parameters(settings)
    learned = " (learned: drawn from seed 0)" if params else ""
    n = reach(settings, _far(settings))
    x = np.arange(-n, n + 1)
    over = settings.bias(params, Range(n, 1), Range(0, 2 * n + 1))[:, 0]
    options = {"step": True, "folded": True, "most": 3} if params else {}
    names = [f"head {h}" for h in range(len(over))]
    length = min(LENGTH, reach(settings, LENGTH - 1) + 1)
    square = settings.bias(params, Range(0, length), Range(0, length))
    head = len(square) // 2
    found = [
        Panel(f"per head over distance{learned}", lines(x, over, names, "key − query, positions", UNITS, **options)),
        Panel(f"head {head}, every pair{learned}", map_of(square[head], UNITS)),
    ]
    for name in params:
        found += table_panels(settings, name, n, min(length, 12))
    if hasattr(settings, "slopes"):
        found.append(Panel("slope of every head", _slopes(settings.slopes())))
    return found


def table_panels(settings: Any, name: str, far: int, length: int) -> list[Panel]:
    """Which row of a learned table is read, over distance and for every pair; none where it is not read by rows."""
    over = rows_read(settings, name, Range(far, 1), Range(0, 2 * far + 1))
    square = rows_read(settings, name, Range(0, length), Range(0, length))
    if over is None or square is None:
        return []
    x = np.arange(-far, far + 1)
    label = f"row of {name}"
    steps = lines(x, [_blank(over[0])], [""], "key − query, positions", label, step=True, folded=True, whole=True)
    return [
        Panel(f"{label} over distance", steps),
        Panel(f"{label} for every pair", map_of(_blank(square), label, numbered=True)),
    ]


def _blank(rows: np.ndarray) -> np.ndarray:
    """Rows as numbers, with gaps where none is read."""
    return np.where(rows < 0, np.nan, rows.astype(np.float64))


def _far(settings: Any) -> int:
    """A little more than the range that the settings speak of."""
    return int(min(max(1.25 * getattr(settings, "max_distance", 26), 8), 160))


def _slopes(m: np.ndarray) -> Any:
    def draw(axes: Any, figure: Any) -> None:
        del figure
        heads = np.arange(len(m))
        axes.stem(heads[m > 0], m[m > 0], basefmt=" ", linefmt="C0-", markerfmt="C0o")
        axes.set_yscale("log", base=2)
        axes.set(xlabel="head h", ylabel="slope m, logit per position (log scale)")
        axes.grid(alpha=0.3)
        axes.xaxis.get_major_locator().set_params(integer=True)

    return draw
