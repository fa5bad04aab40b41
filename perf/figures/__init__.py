"""Draws rows, certificates and kills: each figure as SVG and PNG with exactly its data beside it as CSV."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from relpos.perf.figures.backward import backward
from relpos.perf.figures.conformance import conformance
from relpos.perf.figures.drawing import Drawing, save
from relpos.perf.figures.kills import kills
from relpos.perf.figures.memory_time import memory_time
from relpos.perf.figures.over_length import decode_cost, over_length
from relpos.perf.figures.points import ERROR, LATENCY, MEMORY, OVERHEAD


@dataclass(frozen=True)
class Kind:
    """Figures of one kind: the beginning of their names, what they take, and how they are made of rows."""

    name: str
    takes: str
    made: Callable[[Sequence[dict[str, Any]]], Iterator[Drawing]]


KINDS = (
    Kind("latency", "times of forward or forward_backward", partial(over_length, metric=LATENCY)),
    Kind("memory", "peak memory", partial(over_length, metric=MEMORY)),
    Kind("overhead", "ratios to the limit", partial(over_length, metric=OVERHEAD)),
    Kind("error", "errors held against the definition", partial(over_length, metric=ERROR)),
    Kind("decode", "steps of --mode decode", decode_cost),
    Kind("backward", "forward and forward_backward at one length", backward),
    Kind("memory-time", "time and memory at one length up to 4096", memory_time),
)


def draw(rows: Sequence[dict[str, Any]], folder: Path) -> list[Path]:
    """Draw all that the rows have figures for; the files that were written. RowsError if the folder cannot be written."""
    return [path for kind in KINDS for one in kind.made(rows) for path in save(one, folder)]


def left_out(written: Iterable[Path]) -> list[str]:
    """A line for each kind of figure that `draw` wrote none of: what the rows would have to have."""
    there = {_kind_of(path.stem) for path in written}
    return [f"not drawn: {kind.name}; the rows have no {kind.takes}" for kind in KINDS if kind.name not in there]


def _kind_of(stem: str) -> str:
    return max((kind.name for kind in KINDS if stem.startswith(f"{kind.name}-")), key=len, default="")


def draw_conformance(certificates: Path, folder: Path) -> list[Path]:
    """Draw which variant passes which law, of the certificates of a folder; RowsError if there is none or one is broken."""
    return save(conformance(certificates), folder)


def draw_kills(table: Path, folder: Path) -> list[Path]:
    """Draw which laws catch which kinds of fault, of what `faults --kills` wrote; RowsError if it holds none."""
    return save(kills(table), folder)
