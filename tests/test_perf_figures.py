"""Figures over L: one per metric, mode and dtype, with exactly its data beside it; what they take, and what is left out."""

import csv

import pytest

from perf_rows import CROWD, GROWTHS, crowd, pretended
from relpos.conformance.commands import main
from relpos.perf import command
from relpos.perf.figures import KINDS, draw, left_out
from relpos.perf.figures.panel import crosses, spread
from relpos.perf.figures.points import ERROR, LATENCY, MEMORY, MOST, OVERHEAD, few_enough, lines, points
from relpos.perf.figures.style import COLOURS, DASHES, MARKERS, look
from relpos.perf.point import LIMIT
from relpos.perf.rows import FAILED, UNSTABLE, RowsError, append

ROWS = pretended()
STEMS = {f"{name}-forward-float32" for name in ("latency", "memory", "overhead", "error", "memory-time")}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found = tmp_path_factory.mktemp("figures")
    draw(ROWS, found)
    return found


def test_every_figure_comes_as_svg_and_png_with_its_data(folder):
    assert {path.name for path in folder.iterdir()} == {f"{s}.{kind}" for s in STEMS for kind in ("svg", "png", "csv")}


def test_the_data_beside_a_figure_is_what_it_shows(folder):
    with (folder / "memory-forward-float32.csv").open(encoding="utf-8") as file:
        written = list(csv.DictReader(file))
    shown = [(p["variant"], str(p["key_length"]), "" if p["value"] is None else str(p["value"])) for p in points(ROWS, MEMORY)]
    assert [(one["variant"], one["key_length"], one["value"]) for one in written] == shown


def test_a_figure_is_the_same_bytes_when_drawn_again(folder, tmp_path):
    draw(ROWS, tmp_path)
    same = [path.read_bytes() == (tmp_path / path.name).read_bytes() for path in folder.glob("*.[sc]*")]
    assert len(same) == 2 * len(STEMS) and all(same)


def test_what_the_rows_have_no_figures_for_is_not_written_and_said(folder, tmp_path):
    said = left_out(folder.iterdir())
    assert [line.split(";")[0] for line in said] == ["not drawn: decode", "not drawn: backward"]
    assert said[0] == "not drawn: decode; the rows have no steps of --mode decode"
    assert draw([], tmp_path) == [] and len(left_out([])) == len(KINDS) and not list(tmp_path.iterdir())


def test_what_only_the_limit_was_measured_for_is_not_drawn(tmp_path):
    assert draw([one for one in ROWS if one["variant"] == LIMIT], tmp_path) == []


def test_the_command_draws_and_says_what_is_missing(tmp_path, monkeypatch, capsys):
    rows = [one for one in ROWS if one["variant"] in (LIMIT, "alibi/bias") and one["causal"]]
    append(tmp_path / "rows.jsonl", rows)
    monkeypatch.setattr(command, "KILLS", tmp_path / "kills.csv")
    monkeypatch.setattr(command, "CERTIFICATES", tmp_path)
    assert main(("perf", "--out", str(tmp_path / "rows.jsonl"), "--figures", str(tmp_path / "figures"))) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "not drawn: decode; the rows have no steps of --mode decode" in said
    assert "not drawn: no conformance matrix: there are no certificates in" in said
    assert "not drawn: no heat map of kills: there is no" in said
    assert (tmp_path / "figures" / "latency-forward-float32.svg").exists()


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(RowsError, match="could not be written"):
        draw(ROWS, tmp_path / "file" / "figures")


# ---- points


def test_what_had_no_memory_and_what_is_unstable_are_points_of_the_data():
    found = {(p["variant"], p["panel"], p["key_length"]): p for p in points(ROWS, LATENCY)}
    missing = found["deberta/attention", "causal", 4096]
    assert missing["status"] == "oom" and missing["value"] is None
    assert found["swin/bias", "causal", 512]["status"] == "unstable"
    assert not any(variant == "control" for variant, _, _ in found)


def test_an_error_is_in_units_of_what_is_allowed_and_a_wrong_output_is_shown():
    one = next(one for one in ROWS if one["variant"] == "alibi/bias")
    wrong = {**one, "status": FAILED, "error_units": 10.0, "error_allowed_units": 4.0}
    assert [p["value"] for p in points([wrong], ERROR)] == [2.5]
    assert points([wrong], LATENCY) == [], "a wrong output has no time"


def test_no_two_marks_of_no_memory_are_at_one_place():
    found = [p for p in points(crowd(), OVERHEAD) if (p["mode"], p["panel"]) == ("forward_backward", "causal")]
    places = [place for at in crosses(lines(found)).values() for place in at]
    assert len(places) == sum(one["value"] is None for one in found) == len(set(places)) > 10


def test_a_panel_has_all_variants_while_there_is_room():
    assert few_enough(ROWS, "forward", "float32") == GROWTHS.keys() - {"control"}


def test_a_crowded_panel_has_of_each_scheme_the_one_that_came_furthest_then_the_fastest():
    many = {f"alibi/{n}": (2.0 + n, 2300, 0.0) for n in range(MOST)}
    rows = pretended(growths=CROWD | many, lengths=(512, 1024))
    fastest = few_enough(rows, "forward", "float32")
    assert "alibi/toeplitz" in fastest and not fastest & (many.keys() | {"alibi/bias"})
    assert {"t5/toeplitz", "t5/transformers.models.t5:eager", LIMIT} <= fastest, "a library's own stands beside ours"
    shorter = [one for one in rows if one["variant"] != "alibi/toeplitz" or one["key_length"] == 512]
    assert "alibi/0" in few_enough(shorter, "forward", "float32")
    shaky = [one | {"status": UNSTABLE} if one["variant"] == "alibi/toeplitz" else one for one in rows]
    assert "alibi/0" in few_enough(shaky, "forward", "float32"), "unstable is never ranked"


# ---- looks


def test_lines_differ_without_their_colours():
    seen = {(look(n)["marker"], str(look(n)["linestyle"])) for n in range(len(MARKERS) * len(DASHES))}
    assert len(seen) == len(MARKERS) * len(DASHES) and len(COLOURS) == len(MARKERS)


def test_points_differ_without_their_lines():
    assert len({(look(n)["marker"], look(n)["color"]) for n in range(len(MARKERS) * len(COLOURS))}) == 64


def test_heights_are_moved_no_further_than_they_must():
    assert spread([0.1, 0.5, 0.9], 0.05) == pytest.approx([0.1, 0.5, 0.9])
    assert spread([0.5, 0.5, 0.5], 0.05) == pytest.approx([0.45, 0.5, 0.55])


def test_heights_stay_inside_the_panel():
    assert spread([0.0, 0.0, 0.01], 0.1) == pytest.approx([0.0, 0.1, 0.2])
    assert spread([0.97, 1.0, 1.0], 0.1) == pytest.approx([0.8, 0.9, 1.0])
