"""Rows: written as they come, read back whole, never mixed with those of another machine or schema."""

import gzip
import json
import resource
import signal

import pytest

from relpos.perf.point import Shape, Variant
from relpos.perf.rows import MEASURED, OK, OOM, UNSTABLE, RowsError, append, done, key, read, row

RUN = {"run": "r", "machine": "m1", "version": "0", "commit": "c", "dirty": False, "load": 0.0}
ALIBI = Variant(label="alibi/toeplitz", spec="x:y", scheme="alibi")


def one(status=OK, length=512, machine="m1", **figures):
    had = {"latency_ms": 1.0, "samples_ms": [1.0]} if status in MEASURED else {}
    return row({**RUN, "machine": machine}, ALIBI, Shape(key_length=length), status, **had | figures)


def test_a_row_says_what_was_measured_and_where():
    found = one(latency_ms=2.0)
    assert found["variant"] == "alibi/toeplitz" and found["machine"] == "m1" and found["key_length"] == 512
    assert found["query_length"] == 512 and found["latency_ms"] == 2.0


def test_rows_are_read_back_as_they_were_written(tmp_path):
    path = tmp_path / "new" / "rows.jsonl"
    append(path, [one(), one(OOM, 1024, reason="no memory")])
    append(path, [one(length=2048)])
    assert [r["key_length"] for r in read(path)] == [512, 1024, 2048]


def test_half_a_line_of_a_killed_run_costs_that_row_alone(tmp_path):
    path = tmp_path / "rows.jsonl"
    append(path, [one(), one(length=1024)])
    text = path.read_text(encoding="utf-8")
    path.write_text(text[: len(text) - 40], encoding="utf-8")
    append(path, [one(length=2048)])
    assert [r["key_length"] for r in read(path)] == [512, 2048]


WHERE_CUT = ['"settings": {"num_heads": 8}', '"reason": "−', '"latency_ms": 2.', '"causal": fal']


@pytest.mark.parametrize("cut", WHERE_CUT)
def test_wherever_a_line_was_cut_the_rows_before_and_after_are_read(tmp_path, cut):
    path = tmp_path / "rows.jsonl"
    append(path, [one(), one(UNSTABLE, 1024, latency_ms=2.5, settings={"num_heads": 8}, reason="−½")])
    text = path.read_text(encoding="utf-8")
    path.write_text(text[: text.rindex(cut) + len(cut)], encoding="utf-8")
    append(path, [one(length=2048)])
    assert [r["key_length"] for r in read(path)] == [512, 2048]


def test_a_letter_cut_in_half_costs_its_row_alone(tmp_path):
    path = tmp_path / "rows.jsonl"
    append(path, [one(), one(OOM, 1024, reason="−")])
    whole = path.read_bytes()
    path.write_bytes(whole[: whole.index("−".encode()) + 1])
    assert [r["key_length"] for r in read(path)] == [512]


def test_a_row_that_somebody_edited_is_not_taken_for_one_that_was_cut(tmp_path):
    path = tmp_path / "rows.jsonl"
    append(path, [one(latency_ms=2.0)])
    path.write_text(path.read_text(encoding="utf-8").replace("2.0", "two"), encoding="utf-8")
    with pytest.raises(RowsError, match="line 1: not JSON"):
        read(path)


@pytest.mark.skipif(not hasattr(signal, "SIGXFSZ"), reason="no limit on the size of files here")
def test_where_there_is_no_space_the_rows_that_were_there_stay_and_the_run_can_go_on(tmp_path):
    path, before = tmp_path / "rows.jsonl", resource.getrlimit(resource.RLIMIT_FSIZE)
    append(path, [one()])
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 60, before[1]))
    try:
        with pytest.raises(RowsError, match=r"could not be written to .*rows.jsonl \(File too large\)"):
            append(path, [one(length=1024)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [r["key_length"] for r in read(path)] == [512]
    append(path, [one(length=1024)])
    assert [r["key_length"] for r in read(path)] == [512, 1024]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("nonsense", "line 1: not JSON"),
        ('{"schema": "relpos-perf-0"}', "schema is 'relpos-perf-0'; this version reads relpos-perf-1"),
        ("[1]", "schema is None"),
        ('{"schema": "relpos-perf-1", "run": "r"}', "the row has no machine, scheme"),
    ],
)
def test_what_is_no_row_is_named_with_its_line(tmp_path, line, words):
    path = tmp_path / "rows.jsonl"
    path.write_text(line + "\n", encoding="utf-8")
    with pytest.raises(RowsError, match=words):
        read(path)


def test_a_folder_in_place_of_a_file_is_named(tmp_path):
    with pytest.raises(RowsError, match="could not be read"):
        read(tmp_path)


def test_a_missing_file_says_how_one_is_made(tmp_path):
    with pytest.raises(RowsError, match="makes one"):
        read(tmp_path / "nowhere.jsonl")


def test_rows_of_two_machines_never_share_a_file(tmp_path):
    path = tmp_path / "rows.jsonl"
    append(path, [one(machine="m2")])
    with pytest.raises(RowsError, match="rows of machine m2, this is m1"):
        done(path, "m1")


def test_packed_rows_are_read_and_never_added_to(tmp_path):
    path = tmp_path / "rows.jsonl"
    append(path, [one(), one(length=1024)])
    packed = tmp_path / "rows.jsonl.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert read(packed) == read(path)
    with pytest.raises(RowsError, match="is packed: nothing can be added to it"):
        done(packed, "m1")


def test_what_is_in_the_file_is_not_measured_again(tmp_path):
    path = tmp_path / "rows.jsonl"
    append(path, [one()])
    assert key(one()) in done(path, "m1") and key(one(length=1024)) not in done(path, "m1")


def test_no_space_is_a_complaint_that_names_the_file(tmp_path):
    folder = tmp_path / "rows.jsonl"
    folder.mkdir()
    with pytest.raises(RowsError, match=r"could not be written to .*rows.jsonl"):
        append(folder, [one()])


def test_nan_never_enters_a_file(tmp_path):
    with pytest.raises(ValueError, match="Out of range"):
        append(tmp_path / "rows.jsonl", [one(latency_ms=float("nan"))])


def test_a_line_is_one_json_object(tmp_path):
    path = tmp_path / "rows.jsonl"
    append(path, [one()])
    assert json.loads(path.read_text(encoding="utf-8"))["schema"] == "relpos-perf-1"
