"""Training beside forward, memory against time, the conformance matrix, the heat map of kills: what each shows of its data."""

import csv
import json
import re
import shutil
from pathlib import Path

import pytest

from perf_rows import pretended
from relpos.perf.command import KILLS
from relpos.perf.figures import draw_conformance, draw_kills
from relpos.perf.figures.backward import backward
from relpos.perf.figures.conformance import MARKS, conformance
from relpos.perf.figures.kills import COLUMNS, kills, read
from relpos.perf.figures.memory_time import memory_time
from relpos.perf.rows import UNSTABLE, RowsError
from relpos.perf.variants import CERTIFICATES

MODES = ("forward", "forward_backward")
HERE = Path(__file__).resolve().parents[1]


# ---- forward against backward


def test_training_is_shown_at_the_greatest_length_that_half_of_them_reached():
    rows = pretended(modes=MODES, lengths=(512, 1024))
    further = [one for one in pretended(modes=MODES, lengths=(2048,)) if one["variant"].startswith("alibi")]
    (one,) = backward([*rows, *further])
    assert {point["key_length"] for point in one.points} == {1024}
    assert {point["mode"] for point in one.points} == set(MODES)


def test_what_has_no_length_of_both_modes_is_not_drawn():
    forward = pretended(lengths=(512,))
    assert list(backward([*forward, *pretended(modes=MODES[1:], lengths=(1024,))])) == []


# ---- memory against time


def test_memory_and_time_are_taken_at_4096_or_the_next_below_over_the_limit_there():
    (at,) = memory_time(pretended(lengths=(1024, 4096, 8192)))
    assert {point["key_length"] for point in at.points} == {4096}
    (below,) = memory_time(pretended(lengths=(512, 1024, 8192)))
    (skew,) = (p for p in below.points if p["variant"] == "shaw/attention_skew" and not p["causal"])
    assert skew["key_length"] == 1024 and skew["memory_ratio"] == pytest.approx((9000 + 1024) / 2300)
    assert list(memory_time(pretended(lengths=(8192,)))) == []


def test_the_front_has_what_none_beats_and_nothing_unstable():
    growths = {"limit": (1.0, 2300, 0.0), "none/a": (1.0, 2300, 0.0), "x/fast": (1.1, 9000, 0.0), "x/small": (2.0, 2400, 0.0),
               "x/worse": (2.2, 9000, 0.0), "x/shaky": (0.5, 2310, 0.0)}  # fmt: skip
    rows = [one | ({"status": UNSTABLE} if one["variant"] == "x/shaky" else {}) for one in pretended(growths=growths)]
    (one,) = memory_time(rows)
    assert {point["variant"] for point in one.points if point["on_front"]} == {"x/fast", "x/small"}


# ---- the conformance matrix


@pytest.fixture
def certificates(tmp_path):
    """Two certificates, of which one has a failure and a law that was not claimed."""
    for name in ("alibi__bias", "rope__rotate"):
        shutil.copy(CERTIFICATES / f"{name}.json", tmp_path)
    path = tmp_path / "rope__rotate.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    document["results"][0]["verdict"], document["results"][1]["verdict"] = "fail", "not claimed"
    path.write_text(json.dumps(document), encoding="utf-8")
    return tmp_path


def test_every_verdict_is_a_mark_of_its_own_at_its_law_and_variant(certificates):
    one = conformance(certificates)
    (ax,) = one.figure.axes
    for verdict, (marker, *_) in MARKS.items():
        wanted = {(int(p["law"][1:]), p["variant"]) for p in one.points if p["verdict"] == verdict}
        names = {y: label.get_text() for y, label in zip(ax.get_yticks(), ax.get_yticklabels(), strict=True)}
        lines = [line for line in ax.lines if line.get_marker() == marker]
        assert {(x, names[y]) for line in lines for x, y in zip(*line.get_data(), strict=True)} == wanted
    assert [(p["law"], p["variant"]) for p in one.points if p["verdict"] == "fail"] == [("L1", "rope/rotate")]


def test_marks_of_verdicts_differ_without_colour_and_all_that_a_certificate_knows_have_one():
    assert len({marker for marker, *_ in MARKS.values()}) == len(MARKS)
    schema = json.loads((HERE / "conformance" / "certificate.schema.json").read_text(encoding="utf-8"))
    assert MARKS.keys() == set(schema["properties"]["results"]["items"]["properties"]["verdict"]["enum"])


def test_a_broken_certificate_is_named_and_none_are_said(certificates, tmp_path):
    (certificates / "alibi__bias.json").write_text("{", encoding="utf-8")
    with pytest.raises(RowsError, match=r"no conformance matrix: .*alibi__bias.json is not JSON"):
        draw_conformance(certificates, tmp_path / "figures")
    with pytest.raises(RowsError, match="there are no certificates in"):
        draw_conformance(tmp_path / "empty", tmp_path / "figures")
    assert not (tmp_path / "figures").exists()


# ---- the heat map of kills


def table(path, **changed):
    row = {"kind": "1 a kind", "law": "L3", "title": "a law", "planted": 7, "pinned": 5, "missed": 0, "seeds": 70, "killed": 70,
           "share": 1.0, "version": "0.1.0", "laws_hash": "0123456789abcdef"}  # fmt: skip
    rows = [row, {**row, "law": "L1", **changed}]
    with path.open("w", newline="", encoding="utf-8") as file:
        written = csv.DictWriter(file, rows[0])
        written.writeheader()
        written.writerows(rows)
    return path


def test_a_cell_is_shaded_by_the_share_and_framed_where_the_bar_is_missed(tmp_path):
    one = kills(table(tmp_path / "kills.csv", planted=3, missed=1, seeds=30, killed=15, share=0.5))
    ax = one.figure.axes[0]
    missed, held = sorted(ax.patches, key=lambda patch: patch.get_x())
    assert sum(missed.get_facecolor()[:3]) > sum(held.get_facecolor()[:3]), "the darker, the more is killed"
    assert missed.get_linewidth() > held.get_linewidth() and missed.get_edgecolor() != held.get_edgecolor()
    assert [text.get_text() for text in sorted(ax.texts, key=lambda text: text.get_position()[0])] == ["3", "7"]
    assert "10 places, 1 missed" in one.figure.get_supxlabel()


@pytest.mark.parametrize("text", ["", "kind,law\n1 a kind,L3\n", ",".join(COLUMNS) + "\n", "\x00"])
def test_what_is_no_table_of_kills_is_said_with_the_columns_it_must_have(text, tmp_path):
    (tmp_path / "kills.csv").write_text(text, encoding="utf-8")
    with pytest.raises(RowsError, match="must have rows with the columns kind, law, title"):
        draw_kills(tmp_path / "kills.csv", tmp_path / "figures")
    with pytest.raises(RowsError, match=r"there is no .*none\.csv; `nox -s faults` writes it"):
        draw_kills(tmp_path / "none.csv", tmp_path / "figures")


def test_the_committed_table_of_kills_is_that_of_the_committed_report():
    report = (HERE / "reports" / "kill_table.md").read_text(encoding="utf-8")
    cells = re.findall(r"^\| (\d+ [^|]+) \| (\d+) \| (\d+) \| \d+ \| (\d+) \| (\d+)/(\d+) \|", report, re.MULTILINE)
    of_report = {kind: tuple(map(int, counts)) for kind, *counts in cells}
    of_table: dict[str, tuple[int, ...]] = {}
    for one in read(KILLS):
        counts = tuple(one[name] for name in ("planted", "pinned", "missed", "killed", "seeds"))
        of_table[one["kind"]] = tuple(map(sum, zip(of_table.get(one["kind"], (0,) * 5), counts, strict=True)))
    assert of_table == of_report, "both are written by `nox -s faults`"
