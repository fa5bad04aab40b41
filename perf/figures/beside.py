"""Names beside points, tied to them where they stand off; none covers another, a point or what is already written."""

from collections.abc import Iterator, Mapping
from itertools import product
from math import cos, pi, sin
from typing import Any

import numpy as np
from matplotlib.transforms import Bbox

from relpos.perf.figures.style import BEHIND, SMALL

NEAR, STEP, RINGS, ANGLES = 9.0, 7.0, 40, 16  # points: the first ring round a point, the next ones, and how many are tried
MARK, CROWDED = 6.0, 60.0  # points: half of what a point's mark takes; how near a neighbour is


def label_points(ax: Any, at: Mapping[str, tuple[float, float]], colours: Mapping[str, str]) -> None:
    """Put each name as near to its point as there is room inside the panel: first those without a colour, then the crowded."""
    renderer, pixel = ax.figure.canvas.get_renderer(), ax.figure.dpi / 72
    centres = {name: tuple(ax.transData.transform(place)) for name, place in at.items()}
    blocked = [Bbox.from_extents(x - MARK * pixel, y - MARK * pixel, x + MARK * pixel, y + MARK * pixel)
               for x, y in centres.values()]  # fmt: skip
    blocked += [text.get_window_extent(renderer) for text in ax.texts]
    for name in sorted(at, key=lambda name: (name in colours, -_neighbours(centres, name, CROWDED * pixel), name)):
        text = ax.annotate(name, xy=at[name], xytext=(0, 0), textcoords="offset points", fontsize=SMALL,
                           ha="left", va="bottom", annotation_clip=False, bbox=BEHIND)  # fmt: skip
        text.set_in_layout(False)
        size = text.get_window_extent(renderer)
        offset = _free(centres[name], (size.width, size.height), ax.get_window_extent(), blocked, pixel)
        text.set_position((offset[0] / pixel, offset[1] / pixel))
        blocked.append(text.get_window_extent(renderer))
        _tie(ax, text, centres[name], pixel, colours.get(name, "black"))


def _neighbours(centres: Mapping[str, Any], name: str, reach: float) -> int:
    return sum(bool(np.hypot(*np.subtract(centres[name], other)) < reach) for other in centres.values())


def _free(centre: tuple[float, float], size: tuple[float, float], inside: Bbox, blocked: list[Bbox], pixel: float) -> Any:
    """Offset of the lower left corner: the nearest place that is free; the last one tried where none is."""
    x, y = centre
    dx, dy = 0.0, 0.0
    for dx, dy in _offsets(size, pixel):
        box = Bbox.from_bounds(x + dx - pixel, y + dy - pixel, size[0] + 2 * pixel, size[1] + 2 * pixel)
        within = inside.x0 <= box.x0 and box.x1 <= inside.x1 and inside.y0 <= box.y0 and box.y1 <= inside.y1
        if within and not any(box.overlaps(other) for other in blocked):
            break
    return dx, dy


def _offsets(size: tuple[float, float], pixel: float) -> Iterator[tuple[float, float]]:
    """Right, left, above, below and between, ring by ring; the box's nearest edge lies on the ring."""
    order = [n * 2 * pi / ANGLES for n in sorted(range(ANGLES), key=lambda n: min(n % (ANGLES // 2), -n % (ANGLES // 2)))]
    for ring, angle in product(range(RINGS), order):
        radius = (NEAR + STEP * ring) * pixel
        x, y = radius * cos(angle), radius * sin(angle)
        yield x - size[0] * (1 - cos(angle)) / 2, y - size[1] * (1 - sin(angle)) / 2


def _tie(ax: Any, text: Any, centre: tuple[float, float], pixel: float, colour: str) -> None:
    """A thin line to a name that does not stand right beside its point."""
    box = text.get_window_extent()
    nearest = np.clip(centre, [box.x0, box.y0], [box.x1, box.y1])
    if np.hypot(*(nearest - centre)) > (NEAR + STEP) * pixel:
        ends = ax.transData.inverted().transform([centre, nearest])
        ax.plot(*ends.T, color=colour, linewidth=0.8, zorder=0.5)
