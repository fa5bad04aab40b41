"""Rows that somebody edited, damaged, or that are no file: said with file, line, field, what it must be and what came."""

import json

import pytest

from perf_rows import pretended
from relpos.conformance.commands import main
from relpos.perf.rows import RowsError, append, cut_lines, read
from relpos.reports.source import packed, read_rows, source
from report_rows import pretended_run, write

GOOD = pretended(lengths=(512,))[2]
EDITED = [
    ({"samples_ms": "x"}, "samples_ms must be a list of numbers above 0, one a round; got 'x'"),
    ({"samples_ms": []}, "samples_ms must be a list of numbers above 0, one a round; got []"),
    ({"samples_ms": [1.0, None]}, "samples_ms must be a list of numbers above 0, one a round; got [1.0, None]"),
    ({"key_length": "512"}, "key_length must be a whole number from 1; got '512'"),
    ({"key_length": True}, "key_length must be a whole number from 1; got True"),
    ({"latency_ms": float("nan")}, "latency_ms must be a number above 0; got nan"),
    ({"median_of_ratios": float("inf")}, "median_of_ratios must be a number above 0; got inf"),
    ({"peak_bytes": -1}, "peak_bytes must be a whole number from 0; got -1"),
    (
        {"status": "fine"},
        "status must be one of ok, oom, too-slow, not-certified, unsupported, unstable, failed, sized; got 'fine'",
    ),
    ({"status": ["ok"]}, "status must be one of ok, oom"),
    ({"mode": "sideways"}, "mode must be one of forward, forward_backward, decode, rotation; got 'sideways'"),
    ({"causal": "no"}, "causal must be true or false; got 'no'"),
    ({"reason": 5}, "reason must be text; got 5"),
    ({"settings": []}, "settings must be an object; got []"),
    ({"samples_ms": None}, "samples_ms must be a list of numbers"),
]
GONE = [
    ("samples_ms", "samples_ms must be a list of numbers above 0, one a round where status is ok; the row has none"),
    ("latency_ms", "latency_ms must be a number above 0 where status is ok; the row has none"),
    ("ratios", "ratios must be a list of numbers above 0, one a round where there is median_of_ratios; the row has none"),
    ("median_of_ratios", "median_of_ratios must be a number above 0 where there is ratios; the row has none"),
    ("error_allowed_units", "error_allowed_units must be a number from 0 where there is error_units; the row has none"),
    ("heads", "the row has no heads"),
    ("origin", "the row has no origin"),
]
CASES = [(GOOD | changes, said) for changes, said in EDITED]
CASES += [({name: value for name, value in GOOD.items() if name != gone}, said) for gone, said in GONE]


@pytest.mark.parametrize(("row", "said"), CASES, ids=[said[:40] for _, said in CASES])
@pytest.mark.parametrize("command", ["perf --out", "perf --compare", "perf --figures", "reports --data"])
def test_a_row_that_was_edited_is_told_by_file_line_and_field(tmp_path, capsys, monkeypatch, row, said, command):
    monkeypatch.setenv("COLUMNS", "1000")
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in (GOOD, row)), encoding="utf-8")
    words = {
        "perf --out": ("perf", "--scheme", "alibi", "--lengths", "64", "--out", str(path)),
        "perf --compare": ("perf", "--compare", str(path), "--out", str(path)),
        "perf --figures": ("perf", "--figures", str(tmp_path / "figures"), "--out", str(path)),
        "reports --data": ("reports", "--data", str(path), "--out", str(tmp_path / "report")),
    }
    before = path.read_bytes()
    assert main(words[command]) == 2
    err = " ".join(capsys.readouterr().err.split())
    assert f"rows.jsonl, line 2: {said}" in err and "Traceback" not in err
    assert path.read_bytes() == before and [one.name for one in tmp_path.iterdir()] == ["rows.jsonl"]


@pytest.mark.parametrize("place", ["/dev/full", "/dev/zero"])
@pytest.mark.parametrize("words", [("perf", "--lengths", "64", "--out"), ("reports", "--data"), ("perf", "--compare")])
def test_what_is_no_regular_file_is_neither_read_nor_written(capsys, place, words, tmp_path):
    more = ("--out", str(tmp_path / "out")) if "--out" not in words else ()
    assert main((*words, place, *more)) == 2
    assert f"{place} must be a regular file; it is a device or a pipe" in " ".join(capsys.readouterr().err.split())


def test_a_row_without_ratios_where_the_limit_has_none_is_read(tmp_path):
    append(tmp_path / "rows.jsonl", [{n: v for n, v in GOOD.items() if n not in ("ratios", "median_of_ratios")}])
    assert len(read(tmp_path / "rows.jsonl")) == 1


ROWS = [one for one in pretended_run() if one["mode"] == "forward" and not one["causal"]]


@pytest.fixture
def damaged(tmp_path):
    """Two lines of it were cut off, one of them in the middle."""
    path = write(tmp_path / "full.jsonl", ROWS)
    lines = path.read_text(encoding="utf-8").splitlines()
    lines[3], lines[7] = lines[3][:-40], lines[7][:100]
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


def test_lines_that_were_cut_off_are_counted_in_the_report_and_kept_with_its_rows(damaged, tmp_path):
    found, cut = read_rows(damaged)
    assert (len(found), len(cut)) == (len(ROWS) - 2, 2)
    kept = tmp_path / "kept.jsonl.gz"
    kept.write_bytes(packed(found, cut))
    assert read_rows(kept) == (found, cut)


def test_a_report_of_damaged_rows_is_preliminary_and_has_an_id_of_its_own(damaged, tmp_path, capsys):
    report, said = tmp_path / "report", "2 cut-off lines of its rows were left out"
    assert main(("reports", "--data", str(damaged), "--out", str(report))) == 0
    assert said in " ".join(capsys.readouterr().out.split())
    text = (report / "README.md").read_text(encoding="utf-8")
    status = next(line for line in text.splitlines() if line.startswith("**Status"))
    assert said in status
    cut, whole = source(damaged), source(damaged).__class__
    assert cut.id != whole(cut.rows, cut.machine, cut.certificates, cut.said, cut.changed).id
    assert main(("reports", "--out", str(report))) == 0
    assert (report / "README.md").read_text(encoding="utf-8") == text


def test_only_the_beginning_of_a_row_is_one_that_was_cut_off():
    line = json.dumps(GOOD)
    assert cut_lines("\n".join([line, line[:60], "", "nonsense", line.replace("512", "x")])) == [line[:60]]


def test_what_cannot_be_compared_for_want_of_a_column_is_said(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "1000")
    rows = pretended(lengths=(512,))
    lacking = [{n: v for n, v in one.items() if n not in ("ratios", "median_of_ratios")} for one in rows]
    for name, found in {"old": lacking, "new": rows}.items():
        append(tmp_path / f"{name}.jsonl", found)
    old, new = str(tmp_path / "old.jsonl"), str(tmp_path / "new.jsonl")
    assert main(("perf", "--compare", old, "--out", new)) == 6
    said = " ".join(capsys.readouterr().out.split())
    assert "old.jsonl has no `ratios` of two rounds or more for" in said and "alibi/toeplitz at 512" in said
    with pytest.raises(RowsError):
        read(tmp_path / "nowhere.jsonl")
