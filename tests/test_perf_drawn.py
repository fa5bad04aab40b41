"""Figures: one per metric, mode and dtype, with exactly its data beside it; labels never cover one another."""

import csv
from itertools import pairwise

import pytest

from perf_rows import GROWTHS, pretended
from relpos.perf.figures import draw
from relpos.perf.figures.over_length import over_length
from relpos.perf.figures.panel import LETTER, spread
from relpos.perf.figures.points import LATENCY, MEMORY, OVERHEAD, points
from relpos.perf.figures.style import COLOURS, DASHES, MARKERS, look
from relpos.perf.rows import RowsError

ROWS = pretended()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found = tmp_path_factory.mktemp("figures")
    draw(ROWS, found)
    return found


def test_every_figure_comes_as_svg_and_png_with_its_data(folder):
    stems = {f"{name}-forward-float32" for name in ("latency", "memory", "overhead")}
    assert {path.name for path in folder.iterdir()} == {f"{s}.{kind}" for s in stems for kind in ("svg", "png", "csv")}


def test_the_data_beside_a_figure_is_what_it_shows(folder):
    with (folder / "memory-forward-float32.csv").open(encoding="utf-8") as file:
        written = list(csv.DictReader(file))
    shown = [(p["variant"], str(p["key_length"]), "" if p["value"] is None else str(p["value"])) for p in points(ROWS, MEMORY)]
    assert [(one["variant"], one["key_length"], one["value"]) for one in written] == shown


def test_the_footer_names_machine_commit_and_date(folder):
    text = (folder / "latency-forward-float32.svg").read_text(encoding="utf-8")
    assert "relpos 0.1.0 · machine a1b2c3d4 · commit 0123456789ab · 2026-01-01" in text


def test_a_figure_is_the_same_bytes_when_drawn_again(folder, tmp_path):
    draw(ROWS, tmp_path)
    name = "overhead-forward-float32.svg"
    assert (tmp_path / name).read_bytes() == (folder / name).read_bytes()


@pytest.mark.parametrize("metric", [LATENCY, MEMORY, OVERHEAD], ids=lambda metric: metric.name)
def test_no_label_covers_another_and_none_is_missing(metric):
    figure = over_length(points(ROWS, metric), metric)
    for ax in figure.axes:
        labels = {text.get_text(): text.xyann[1] for text in ax.texts if getattr(text, "arrow_patch", None) is not None}
        assert len(labels) == len(GROWTHS) - (2 if metric is OVERHEAD else 1), "all but the control"
        heights = sorted(labels.values())
        assert all(b - a > LETTER - 1e-3 for a, b in pairwise(heights))


def test_what_had_no_memory_and_what_is_unstable_are_points_of_the_data():
    found = {(p["variant"], p["panel"], p["key_length"]): p for p in points(ROWS, LATENCY)}
    missing = found["deberta/attention", "causal", 4096]
    assert missing["status"] == "oom" and missing["value"] is None
    assert found["swin/bias", "causal", 512]["status"] == "unstable"
    assert not any(variant == "control" for variant, _, _ in found)


def test_lines_differ_without_their_colours():
    seen = {(look(n)["marker"], str(look(n)["linestyle"])) for n in range(len(MARKERS) * len(DASHES))}
    assert len(seen) == len(MARKERS) * len(DASHES) and len(COLOURS) == len(MARKERS)


def test_heights_are_moved_no_further_than_they_must():
    assert spread([0.1, 0.5, 0.9]) == [0.1, 0.5, 0.9]
    close = spread([0.5, 0.5, 0.5])
    assert close == pytest.approx([0.5 - LETTER, 0.5, 0.5 + LETTER], abs=1e-3)


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(RowsError, match="could not be written"):
        draw(ROWS, tmp_path / "file" / "figures")
