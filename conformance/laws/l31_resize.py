"""L31: a table resized for another window is still that table."""

from collections.abc import Iterator
from math import prod

import numpy as np
import torch
from hypothesis import strategies as st

from relpos.conformance.answers import prepared
from relpos.conformance.calling import refusals
from relpos.conformance.judge import LawFailure, compare_within, demand
from relpos.conformance.laws.base import Law
from relpos.conformance.plan import Inputs, Plan
from relpos.conformance.settings import sized
from relpos.conformance.subject import Subject
from relpos.conformance.tolerance import C, units

TAPS = 4  # numbers that a cubic interpolation weighs along one axis
PAIRS = (((2, 3), (2, 3)), ((2, 3), (3, 2)), ((3, 2), (4, 5)), ((4, 5), (2, 3)), ((7, 7), (12, 12)), ((1, 3), (2, 5)))
NTH = ("first", "second", "third")
Windows = tuple[tuple[int, ...], tuple[int, ...]]


def check(subject: Subject, plan: Plan) -> float:
    """One table and its flips, heads in another order, and tables that vary along one axis."""
    given = prepared(subject, plan)
    windows = (plan.extra["source_window"], plan.settings["window_size"])
    table = _drawn(subject, plan, windows[0])
    image, special = _split(_resized(subject, given, table, windows), windows[1])
    before, kept = _split(table, windows[0])
    largest = 0.0
    if windows[0] == windows[1]:
        largest = _same(image, before, table, plan, "resized to its own size a table changes")
    if special.size and not np.array_equal(special, kept):
        raise LawFailure("the rows of special tokens, the last of the table, are changed", plan=plan)
    for says, changed, back in _changes(before):
        there = np.concatenate([changed.reshape(-1, changed.shape[-1]), kept])
        found = back(_split(_resized(subject, given, there, windows), windows[1])[0])
        largest = max(largest, _same(found, image, table, plan, says))
    return max(largest, _axis_by_axis(subject, given, before, kept, windows))


def _changes(image: np.ndarray) -> Iterator[tuple]:
    """The table changed in some way, and how its resized version is changed back."""
    for axis in range(image.ndim - 1):
        flip = lambda a, axis=axis: np.flip(a, axis=axis)  # noqa: E731
        yield f"a table flipped along axis {axis} is not resized to the flipped one", flip(image), flip
    turn = lambda a: np.roll(a, 1, axis=-1)  # noqa: E731
    yield "heads in another order are not resized one by one", turn(image), lambda a: np.roll(a, -1, axis=-1)


def _axis_by_axis(subject: Subject, given: Inputs, image: np.ndarray, kept: np.ndarray, windows: Windows) -> float:
    """A table that is constant along an axis stays so, and one number everywhere stays that number."""
    largest = 0.0
    for axis in range(image.ndim - 1):
        flat = np.repeat(np.take(image, [0], axis=axis), image.shape[axis], axis=axis)
        found, _ = _split(
            _resized(subject, given, np.concatenate([flat.reshape(-1, flat.shape[-1]), kept]), windows), windows[1]
        )
        first = np.repeat(np.take(found, [0], axis=axis), found.shape[axis], axis=axis)
        says = f"a table that is constant along axis {axis} is not resized to one"
        largest = max(largest, _same(found, first, flat, given.plan, says))
    ones = _resized(subject, given, np.ones((prod(image.shape[:-1]) + len(kept), image.shape[-1])), windows)
    return max(largest, _same(ones, np.ones_like(ones), ones, given.plan, "a table of ones is not resized to ones"))


def _same(got: np.ndarray, want: np.ndarray, table: np.ndarray, plan: Plan, says: str) -> float:
    """Both are weighted means of the same numbers: TAPS products per axis, weights not larger than 1, on either side."""
    axes = got.ndim - 1
    bound = np.full(got.shape, 2 * units(plan.dtype).u * TAPS**axes * np.abs(table).max(initial=0))
    names = ("row", "head") if axes == 1 else (*(f"{NTH[n]} axis" for n in range(axes)), "head")
    return demand(compare_within(got, want, bound, name="table", allowed=C["bias"], axes=names), says, plan)


def _drawn(subject: Subject, plan: Plan, source: tuple[int, ...]) -> np.ndarray:
    shape = subject.cls(**{**plan.settings, "window_size": source}).parameters()["table"]
    return np.random.default_rng(plan.seed).standard_normal(shape).astype(np.float32).astype(np.float64)


def _split(table: np.ndarray, window: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Rows of offsets, an axis each, and those of special tokens."""
    offsets = tuple(2 * W - 1 for W in window)
    return table[: prod(offsets)].reshape(*offsets, -1), table[prod(offsets) :]


def _resized(subject: Subject, given: Inputs, table: np.ndarray, windows: Windows) -> np.ndarray:
    values = {"table": torch.from_numpy(table).float(), "source_window": windows[0], "window_size": windows[1]}
    values["settings"] = given.settings
    with refusals(subject, given):
        result = subject.target(**{theirs: values[ours] for theirs, ours in subject.called_with.names.items()})
        found = np.asarray(torch.as_tensor(result).detach(), dtype=np.float64)
    wanted = given.settings.parameters()["table"][0], table.shape[1]
    if found.shape != wanted:
        says = f"a table for {windows[0]} resized for {windows[1]} must have shape {list(wanted)}, got {list(found.shape)}"
        raise LawFailure(says, plan=given.plan)
    return found


def _pinned(subject: Subject) -> list[Plan]:
    found = []
    for source, target in PAIRS:
        settings = sized(subject.cls, {**subject.fixed, "num_heads": 3, "window_size": target})
        found.append(Plan(settings=settings, heads=3, seed=1, extra={"source_window": source}))
    return found


LAW = Law(
    name="L31",
    title="a resized table",
    slug="resize",
    why="Fine-tuning at another resolution resizes the learned table; what moves there is lost before training starts.",
    statement="Resized to its own size a table stays; flips, heads and axes commute with resizing, special rows are kept.",
    check=check,
    plans=lambda subject: st.sampled_from(_pinned(subject)),
    applies=lambda subject: None if subject.kind == "resizer" else "judged on what resizes a table",
    pinned=_pinned,
    share=0.0,
)
