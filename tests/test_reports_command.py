"""`python -m relpos reports`: what it writes, and every way in which rows, machine or place are not what a report needs."""

import gzip
import json

import pytest

from relpos.conformance.commands import main
from relpos.perf import scaling
from relpos.perf.rows import read
from relpos.reports import command, figures
from relpos.reports.source import ROWS, packed, read_rows
from report_rows import MACHINE, RECORD, pretended_run, write

PRETENDED = pretended_run()
FEW = [one for one in PRETENDED if one["mode"] == "forward" and not one["causal"]]


def drawn(rows, kills, folder):
    """Figures have tests of their own."""
    folder.mkdir(parents=True, exist_ok=True)
    for kind in figures.KINDS if rows else ():
        (folder / f"overhead-forward-float32{kind}").write_text("", encoding="utf-8")
    return list(folder.iterdir())


@pytest.fixture(autouse=True)
def quick(monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "1000")  # a long name of a folder breaks no word of a message
    monkeypatch.setattr(figures, "draw", drawn)
    monkeypatch.setattr(scaling, "RESAMPLED", 20)
    monkeypatch.setattr(command, "HOME", tmp_path / "home")


def made(folder, *words):
    return main(("reports", "--out", str(folder / "report"), *map(str, words)))


def said(capsys):
    return " ".join(capsys.readouterr().err.split())


def test_it_writes_the_document_its_figures_and_the_rows_that_it_is_made_of(tmp_path, capsys):
    assert made(tmp_path, "--data", write(tmp_path / "full.jsonl", FEW)) == 0
    out = capsys.readouterr().out.replace("\n", "")
    report = tmp_path / "report"
    names = {path.relative_to(report).as_posix() for path in report.rglob("*") if path.is_file()}
    stem = "figures/overhead-forward-float32"
    assert names == {
        "README.md",
        f"data/{ROWS}",
        f"data/perf.machine-{MACHINE}.json",
        f"{stem}.csv",
        f"{stem}.svg",
        f"{stem}.png",
    }
    assert all(name in out for name in names) and "preliminary: its rows are of part of a run" in out
    assert list(read_rows(report / "data" / ROWS)[0]) == FEW
    assert json.loads((report / "data" / f"perf.machine-{MACHINE}.json").read_text(encoding="utf-8")) == RECORD


def test_made_again_of_what_it_kept_it_is_the_same_to_the_byte(tmp_path):
    made(tmp_path, "--data", write(tmp_path / "full.jsonl", FEW))
    report = tmp_path / "report"
    before = {path: path.read_bytes() for path in report.rglob("*") if path.is_file()}
    (report / "README.md").write_text("edited", encoding="utf-8")
    assert made(tmp_path) == 0
    assert {path: path.read_bytes() for path in report.rglob("*") if path.is_file()} == before


def test_what_is_no_longer_drawn_goes_and_what_is_not_ours_stays(tmp_path):
    old = tmp_path / "report" / "figures"
    old.mkdir(parents=True)
    stems = ("latency-decode-float32", "mine")
    for name in (*(f"{stem}{kind}" for stem in stems for kind in figures.KINDS), "latency-half.svg"):
        (old / name).write_text("", encoding="utf-8")
    assert made(tmp_path, "--data", write(tmp_path / "full.jsonl", FEW)) == 0
    left = {"mine.svg", "mine.csv", "mine.png", "latency-half.svg"}
    assert {path.name for path in old.iterdir() if not path.name.startswith("overhead")} == left


def test_without_rows_there_is_a_report_that_says_so(tmp_path, capsys):
    assert made(tmp_path) == 0
    assert "Nothing is measured here yet" in (tmp_path / "report" / "README.md").read_text(encoding="utf-8")
    assert "preliminary: nothing was measured yet" in capsys.readouterr().out


def test_of_a_point_that_was_measured_again_the_last_row_counts(tmp_path):
    again = [{**FEW[0], "latency_ms": 77.0}]
    kept, _ = read_rows(write(tmp_path / "full.jsonl", [*FEW, *again]))
    assert len(kept) == len(FEW) and kept[0]["latency_ms"] == 77.0


def test_kept_rows_are_small_and_the_same_bytes_every_time():
    assert packed(PRETENDED) == packed(PRETENDED)
    assert len(packed(PRETENDED)) < 200 * len(PRETENDED)


# ---- what is wrong with rows, machine, place


def text(rows=FEW):
    return "".join(json.dumps(one) + "\n" for one in rows)


OTHER = {**FEW[0], "machine": "ffffffff", "key_length": 64}
BROKEN = [
    ("rows.jsonl", text()[:-40].encode(), "rows.jsonl is cut off in its last line: the run was ended."),
    ("rows.jsonl.gz", packed(FEW)[:-40], "rows.jsonl.gz is no whole gzip file"),
    ("rows.jsonl.gz", text().encode(), "rows.jsonl.gz is no whole gzip file"),
    ("rows.jsonl.gz", gzip.compress(b'{"schema": "relpos-perf-0"}\n'), "this version reads relpos-perf-1"),
    ("rows.jsonl", b"nonsense\n", "line 1: not JSON"),
    ("rows.jsonl", b"\xff\xfe\n", "rows.jsonl, line 1: not JSON"),
    ("rows.jsonl", b"", "rows.jsonl holds no rows; `nox -s perf"),
    ("rows.jsonl", text([FEW[0], OTHER]).encode(), "holds rows of machines"),
]


@pytest.mark.parametrize(
    ("name", "content", "words"), BROKEN, ids=[words.split(" ")[2] + f"-{n}" for n, (*_, words) in enumerate(BROKEN)]
)
def test_what_is_no_file_of_rows_is_named_and_nothing_is_written(tmp_path, capsys, name, content, words):
    (tmp_path / name).write_bytes(content)
    assert made(tmp_path, "--data", tmp_path / name) == 2
    assert words in said(capsys).replace("rows .jsonl", "rows.jsonl") and not (tmp_path / "report").exists()


def test_a_missing_file_says_how_one_is_made(tmp_path, capsys):
    assert made(tmp_path, "--data", tmp_path / "nowhere.jsonl") == 2
    assert (
        "there is no file of rows" in (err := said(capsys))
        and err.endswith("Nothing was made (exit 2).")
        and "`nox -s perf -- --out nowhere.jsonl` makes one" in err
    )


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (None, "is missing: the record of the machine"),
        ("{", "is not JSON"),
        (json.dumps({**RECORD, "memory_gib": 1}), f"is not the record of machine {MACHINE}"),
    ],
)
def test_a_record_of_the_machine_that_is_missing_or_anothers_is_named(tmp_path, capsys, record, words):
    path = write(tmp_path / "rows.jsonl", FEW)
    beside = tmp_path / f"rows.machine-{MACHINE}.json"
    beside.unlink() if record is None else beside.write_text(record, encoding="utf-8")
    assert made(tmp_path, "--data", path) == 2
    assert words in said(capsys)


def test_a_place_that_cannot_be_written_is_named_and_the_old_report_stands(tmp_path, capsys, monkeypatch):
    report = tmp_path / "report"
    report.mkdir()
    (report / "README.md").write_text("old", encoding="utf-8")

    def full(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(command.shutil, "copyfile", full)
    assert made(tmp_path, "--data", write(tmp_path / "rows.jsonl", FEW)) == 2
    assert "could not be written" in (err := said(capsys)) and "No space left on device" in err
    assert [path.name for path in report.rglob("*") if path.is_file()] == ["README.md"]
    assert (report / "README.md").read_text(encoding="utf-8") == "old"


def test_a_file_in_the_place_of_the_folder_is_named(tmp_path, capsys):
    (tmp_path / "report").write_text("", encoding="utf-8")
    assert made(tmp_path, "--data", write(tmp_path / "rows.jsonl", FEW)) == 2
    assert "--out: the report could not be written to" in said(capsys)


def test_an_interrupted_one_leaves_the_old_report(tmp_path, capsys, monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(figures, "draw", interrupted)
    assert made(tmp_path, "--data", write(tmp_path / "rows.jsonl", FEW)) == 4
    assert "is as it was" in " ".join(capsys.readouterr().out.split()) and not (tmp_path / "report").exists()


def test_a_package_that_is_missing_is_named_with_what_to_type(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("relpos.reports.arguments.PACKAGES", ("jinja2", "surely_not_installed"))
    assert made(tmp_path) == 2
    assert "a report needs surely_not_installed: pip install 'relpos[perf]'." in said(capsys)


def test_the_rows_of_a_run_are_read_as_perf_reads_them(tmp_path):
    path = write(tmp_path / "rows.jsonl", FEW)
    assert list(read_rows(path)[0]) == read(path)
