"""L13: on several axes every offset reads its own row; rows are whole numbers and compared exactly."""

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
from hypothesis import strategies as st

from relpos.conformance import grids
from relpos.conformance.answers import answer, prepared
from relpos.conformance.judge import LawFailure, compare_within
from relpos.conformance.laws.base import Law
from relpos.conformance.plan import Inputs, Plan
from relpos.conformance.scopes import Scope, of_windows, windows
from relpos.conformance.settings import sized
from relpos.conformance.subject import Subject
from relpos.conformance.tolerance import units

STEP = 1 / 16  # between rows of the ramp: every number is exact in 16 bits, powers of e to 250 rows stay within float32
SLACK = 0.25  # of a row; numbers between rows are no row
LARGE = (24, 24)  # a table of more rows than float16 has whole numbers
WINDOWS = ((2, 3), (3, 2), (1, 4), (4, 1), (3, 3), (1, 1), (5, 7), (9, 9), (2, 1, 3))


def check(subject: Subject, plan: Plan) -> float:
    """The table is a ramp, (row + 1)·STEP, and there is no content: what comes back says which row was read."""
    given = _probe(prepared(subject, plan))
    want = given.settings.rows(given.query_positions.row(0), given.key_positions.row(0))
    got = _read(subject, given, want)
    u = units(plan.dtype).u
    found = compare_within(
        got, np.broadcast_to(want, got.shape), np.full(got.shape, u), name="row", allowed=SLACK / u, axes=AXES
    )
    if not found.ok:
        head = found.worst[0]
        says, cell = _words(given, got[head], want)
        shown = found.units.copy()
        shown[head, *cell] = np.inf  # the table shows the offset that the words are about
        raise LawFailure(says, plan=plan, comparison=replace(found, units=shown))
    return 0.0


AXES = ("head", "query", "key")


def _probe(given: Inputs) -> Inputs:
    rows, columns = given.params["table"].shape
    ramp = np.repeat(STEP * np.arange(1, rows + 1)[:, None], columns, axis=1)
    v = np.zeros_like(given.v)
    v[:, :] = np.eye(*v.shape[2:])  # the output is then the weights
    return given.but(params={"table": ramp}, q=np.zeros_like(given.q), k=np.zeros_like(given.k), v=v)


def _read(subject: Subject, given: Inputs, want: np.ndarray) -> np.ndarray:
    """Rows as the implementation reads them, [H, Lq, Lk]; a softmax leaves a constant per query open."""
    value = next(iter(answer(subject, given).values()))
    value = value if value.ndim == 3 else value[0]
    if subject.level != "attention":
        return value / STEP - 1
    with np.errstate(divide="ignore", invalid="ignore"):
        score = np.log(value[..., : want.shape[1]])
        return (score - score[..., :1]) / STEP + want[:, :1]


def _words(given: Inputs, got: np.ndarray, want: np.ndarray) -> tuple[str, tuple[int, int]]:
    """What is wrong at the smallest offset, and where that is."""
    queries, keys = list(given.query_positions.row(0)), list(given.key_positions.row(0))
    read: dict[Any, dict[int, Any]] = {}  # row that is read → right rows, and an offset of each
    offsets, wrong = {}, {}
    for a, i in enumerate(queries):
        for b, j in enumerate(keys):
            offset = grids.apart(i, j)
            offsets[offset] = got[a, b]
            read.setdefault(_whole(got[a, b]), {})[int(want[a, b])] = offset
            if not abs(got[a, b] - want[a, b]) <= SLACK:
                wrong.setdefault(offset, (a, b))
    first = min(wrong, key=lambda d: (isinstance(d, str), sum(map(abs, d)) if isinstance(d, tuple) else 0))
    cell = wrong[first]
    says = f"at {_spoken(first)} {_row(float(got[cell]))} is read in place of {_row(float(want[cell]))}"
    twice = [(row, list(there.values())) for row, there in read.items() if row is not None and len(there) > 1]
    if twice:
        row, (one, other, *_) = twice[0]
        says += f"; {_spoken(one)} and {_spoken(other)} both read row {row}"
    if given.settings.axes == 2 and _exchanged(offsets, given):
        says += "; the steps of the two axes are exchanged"
    return says + (f"; {len(wrong) - 1} more are wrong" if len(wrong) > 1 else ""), cell


def _exchanged(offsets: dict[Any, float], given: Inputs) -> bool:
    """Whether a step along either axis moves as many rows as one along the other should."""
    along = [abs(offsets.get(step, np.nan) - offsets.get((0, 0), np.nan)) for step in ((1, 0), (0, 1))]
    row = given.settings.row
    should = [abs(row(step, (0, 0)) - row((0, 0), (0, 0))) for step in ((1, 0), (0, 1)) if max(given.settings.window_size) > 1]
    return len(should) == 2 and should[0] != should[1] and bool(np.allclose(along, should[::-1]))


def _whole(number: float) -> int | None:
    return round(number) if np.isfinite(number) and abs(number - round(number)) <= SLACK else None


def _row(number: float) -> str:
    row = _whole(number)
    return f"no row of the table (row {number:.3g}, were it one)" if row is None else "no row" if row < 0 else f"row {row}"


def _spoken(offset: Any) -> str:
    return f"query − key = {offset}" if isinstance(offset, tuple) else f"a {offset} without a position"


def _plan(subject: Subject, window: tuple[int, ...], shape: tuple[int, ...]) -> Plan:
    settings = sized(subject.cls, {**subject.fixed, "window_size": window})
    heads = settings["num_heads"]
    there = grids.whole(subject.cls, shape)
    width = max(8, there["key_length"]) if subject.level == "attention" else 2
    return Plan(settings=settings, heads=heads, head_dim=width, dtype=subject.dtypes[0]).but(**there)


def _windows(subject: Subject) -> list[tuple[int, ...]]:
    return list(WINDOWS) if "window_size" in subject.free else [sized(subject.cls, subject.fixed)["window_size"]]


def _pinned(subject: Subject) -> list[Plan]:
    """Whole windows; where a smaller grid can be asked for, parts of them, in which every offset keeps its row."""
    part = subject.positions != "contiguous" or "grid" in subject.asks
    found = [_plan(subject, window, window) for window in _windows(subject)]
    smaller = [(w, tuple(max(1, n - 1) for n in w)) for w in _windows(subject)] if part else []
    found += [_plan(subject, window, shape) for window, shape in smaller if shape != window]
    large = "window_size" in subject.free and subject.level != "attention"  # where as many columns as tokens are needed
    return [*found, _plan(subject, LARGE, LARGE)] if large else found


def _exhausted(subject: Subject, scope: Scope) -> list[Plan]:
    """Every window, square or not; every smaller grid inside the largest, where such can be asked for."""
    every = windows(subject, scope.window)
    found = [_plan(subject, window, window) for window in every]
    if "grid" in subject.asks:
        largest = max(every, key=prod)
        found += [_plan(subject, largest, shape) for shape in every if shape != largest and _inside(shape, largest)]
    return found


def _inside(shape: tuple[int, ...], window: tuple[int, ...]) -> bool:
    return len(shape) == len(window) and all(n <= W for n, W in zip(shape, window, strict=True))


def _applies(subject: Subject) -> str | None:
    table = subject.on_grid and hasattr(subject.cls, "rows")
    return None if table else "the scheme has no table of numbers per offset on several axes"


def _claimed(subject: Subject) -> str | None:
    if subject.level == "attention" and not {"float32", "float64"} & set(subject.dtypes[:1]):
        return "rows are read off in float32 or wider at attention level"
    return None


LAW = Law(
    name="L13",
    title="several axes, one row per offset",
    slug="axes",
    why="In images, two offsets that share a row cannot be told apart, and a non-square window shows an exchanged axis.",
    statement="Every offset reads a row of its own and no row is idle; a step along one axis moves as the scheme says.",
    check=check,
    plans=lambda subject: st.sampled_from(_pinned(subject)),
    applies=_applies,
    claimed=_claimed,
    pinned=_pinned,
    exhausted=_exhausted,
    covers=of_windows,
    share=0.0,
)
