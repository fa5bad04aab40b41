"""Positions: what a Range and an Explicit hold, per sample and with segments, and what they refuse."""

import numpy as np
import pytest

from relpos.spec.contract import PositionError
from relpos.spec.positions import Explicit, Range

REFUSED = [
    (lambda: Range(0, -1), "positions: `length` must be 0 or more, got -1. An empty range has length 0."),
    (lambda: Range(0.5, 2), "positions: `start` must be a whole number, got 0.5."),
    (lambda: Range("0", 2), "positions: `start` must be a whole number, got '0'."),
    (lambda: Range(True, 2), "positions: `start` must be a whole number, got True."),
    (lambda: Range(0, 2.0), "positions: `length` must be a whole number, got 2.0."),
    (lambda: Range(0, None), "positions: `length` must be a whole number, got None."),
    (
        lambda: Explicit(np.array([0, 2**63], dtype=np.uint64)),
        "positions: `values` must fit into int64, got 9223372036854775808.",
    ),
    (
        lambda: Explicit([[0, 1], [2, 3]]).row(2),
        "positions: there is no row for sample 2; 2 are listed, one per sample.",
    ),
    (lambda: Explicit([0.0, 1.0]), "positions: `values` must be whole numbers, got dtype float64. Convert them before."),
    (lambda: Explicit([True, False]), "positions: `values` must be whole numbers, got dtype bool. Convert them before."),
    (
        lambda: Explicit([0, 1], segments=[0.0, 1.0]),
        "positions: `segments` must be whole numbers, got dtype float64. Convert them before.",
    ),
    (lambda: Explicit(3), "positions: `values` must have shape [L] or [B, L], got []."),
    (lambda: Explicit([[[0]]]), "positions: `values` must have shape [L] or [B, L], got [1, 1, 1]."),
    (
        lambda: Explicit([0, 1, 2], segments=[0, 1]),
        "positions: `segments` must have the shape of the positions, [3], got [2]. Give one segment id to every position.",
    ),
    (
        lambda: Explicit([[0, 1], [2, 3]], segments=[0, 1]),
        "positions: `segments` must have the shape of the positions, [2, 2], got [2]. Give one segment id to every position.",
    ),
    (lambda: Range(0, 2, 2.5), "positions: `context_length` must be whole numbers, got dtype float64. Convert them before."),
    (lambda: Range(0, 2, [2, 3]), "positions: `context_length` must be one number, got [2]."),
    (
        lambda: Explicit([0, 1], context_length=[[2]]),
        "positions: `context_length` must be one number or one per sample, got [1, 1].",
    ),
    (
        lambda: Explicit([0, 1], context_length=[2, 3]).row(2),
        "positions: there is no row for sample 2; 2 are listed, one per sample.",
    ),
    (
        lambda: list(Explicit([[0, 1], [2, 3]])),
        "positions: these differ per sample; take one sample with `.row(b)` before reading them.",
    ),
]


@pytest.mark.parametrize(("build", "message"), REFUSED, ids=[message[11:80] for _, message in REFUSED])
def test_positions_without_meaning_are_refused_in_words(build, message):
    with pytest.raises(PositionError) as caught:
        build()
    assert str(caught.value) == message


@pytest.mark.parametrize(("start", "length"), [(0, 0), (0, 1), (5, 3), (-4, 6), (2**32, 2)])
def test_a_range_is_the_explicit_positions_it_counts(start, length):
    positions, listed = Range(start, length), Explicit(np.arange(start, start + length))
    assert list(positions) == list(listed) == [start + i for i in range(length)]
    assert len(positions) == len(listed) == length
    assert positions.array().dtype == listed.array().dtype == np.int64
    assert np.array_equal(positions.array(), listed.array())


def test_numpy_integers_are_whole_numbers():
    assert list(Range(np.int64(5), np.int32(2))) == [5, 6]
    assert list(Explicit(np.array([2**63 - 1], dtype=np.uint64))) == [2**63 - 1]


@pytest.mark.parametrize("sample", [0, 1, 7])
def test_one_row_serves_every_sample(sample):
    for positions in (Range(3, 4), Explicit([3, 4, 5, 6], segments=[0, 0, 1, 1])):
        assert positions.row(sample) is positions


def test_a_range_is_one_document():
    assert Range(3, 4).segment(0) is None
    assert Explicit([3, 4]).segment(0) is None


def test_a_sample_takes_its_own_row_and_segments():
    positions = Explicit([[0, 1, 2], [9, -1, 4]], segments=[[0, 0, 1], [5, 6, 6]])
    assert len(positions) == 3
    assert list(positions.row(1)) == [9, -1, 4]
    assert positions.segment(0).tolist() == [0, 0, 1]
    assert positions.row(1).segment(0).tolist() == positions.segment(1).tolist() == [5, 6, 6]


def test_explicit_positions_are_a_copy():
    given = np.array([0, 1, 2])
    positions = Explicit(given)
    given[0] = 99
    assert list(positions) == [0, 1, 2]


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64])
def test_every_whole_dtype_is_the_same_positions(dtype):
    assert Explicit(np.array([0, 3, 100], dtype=dtype)).array().dtype == np.int64
    assert list(Explicit(np.array([0, 3, 100], dtype=dtype))) == [0, 3, 100]


def test_no_positions_at_all_are_positions():
    assert list(Explicit([])) == list(Range(7, 0)) == []


def test_an_explicit_shows_what_it_holds():
    assert repr(Explicit([1, 2])) == "Explicit([1, 2])"
    assert repr(Explicit([1, 2], segments=[0, 1])) == "Explicit([1, 2], segments=[0, 1])"
    assert repr(Explicit([1, 2], context_length=9)) == "Explicit([1, 2], context_length=9)"


def test_a_context_is_stated_or_ends_with_the_largest_position():
    assert Range(3, 4).context() == Explicit([3, 6, 5]).context() == 7
    assert Range(3, 4, 9).context() == Explicit([3, 6, 5], context_length=9).context() == 9
    rows = Explicit([[0, 1], [8, 2]], segments=[[0, 0], [1, 1]], context_length=[5, 30])
    assert [rows.row(b).context() for b in range(2)] == [5, 30]
    assert rows.row(1).segment(0).tolist() == [1, 1]
    assert Explicit([4], context_length=[5, 6]).row(1).context() == 6
    assert Range(0, 0).context() == Explicit([]).context() == 0
