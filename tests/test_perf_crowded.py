"""Every figure of a whole run, crowded as it may get: nothing covers another text, hollow is hollow, footers are there."""

from itertools import combinations

import pytest
from matplotlib.text import Text

from perf_rows import CROWD, crowd
from relpos.perf.figures import KINDS
from relpos.perf.figures.conformance import conformance
from relpos.perf.figures.drawing import save
from relpos.perf.figures.kills import kills
from relpos.perf.figures.style import SMALL
from relpos.perf.point import LIMIT
from relpos.perf.rows import MEASURED, UNSTABLE
from relpos.perf.variants import CERTIFICATES

ROWS = crowd()
MEASURED_ONES = (
    "latency-forward-float32", "latency-forward_backward-float32", "memory-forward-float32", "memory-forward_backward-float32",
    "memory-decode-float32", "overhead-forward-float32", "overhead-forward_backward-float32", "error-forward-float32",
    "error-forward_backward-float32", "error-decode-float32", "decode-float32", "backward-float32",
    "memory-time-forward-float32", "memory-time-forward_backward-float32",
)  # fmt: skip
OVER_L = tuple(name for name in MEASURED_ONES if not name.startswith(("backward", "memory-time")))
KILLS = CERTIFICATES.parents[1] / "reports" / "data" / "kills.csv"
every_figure = pytest.mark.parametrize("name", [*MEASURED_ONES, "conformance", "kills"])
every_measured = pytest.mark.parametrize("name", MEASURED_ONES)


@pytest.fixture(scope="module")
def drawings():
    found = [one for kind in KINDS for one in kind.made(ROWS)]
    return {one.name: one for one in [*found, conformance(CERTIFICATES), kills(KILLS)]}


def texts(figure):
    """What is written when it is drawn, with the box that it takes: marks beyond the end of an axis are not."""
    found, draw = [], Text.draw

    def noted(text, renderer, *more):
        if text.get_visible() and text.get_text().strip():
            found.append((text, text.get_window_extent(renderer)))
        draw(text, renderer, *more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Text, "draw", noted)
        figure.draw_without_rendering()
    return found


def test_a_whole_run_is_drawn_in_every_way(drawings):
    assert drawings.keys() == {*MEASURED_ONES, "conformance", "kills"}


@every_figure
def test_no_text_covers_another_or_is_cut_off(drawings, name):
    figure = drawings[name].figure
    found = texts(figure)
    # A pixel: heights of lines are those of a font's tallest letters.
    boxes = [(text.get_text(), box.padded(-1)) for text, box in found]
    assert len(boxes) > 10
    covered = [(a, b) for (a, x), (b, y) in combinations(boxes, 2) if x.overlaps(y)]
    assert not covered
    width, height = figure.bbox.size
    assert [t for t, box in boxes if box.x0 < 0 or box.y0 < 0 or box.x1 > width or box.y1 > height] == []


@every_figure
def test_nothing_is_written_so_small_that_half_a_page_hides_it(drawings, name):
    assert min(text.get_fontsize() for text, _ in texts(drawings[name].figure)) >= SMALL


@every_measured
def test_what_is_unstable_is_hollow_and_nothing_else_is(drawings, name):
    one = drawings[name]
    hollow = sum(len(line.get_xdata()) for ax in one.figure.axes for line in ax.lines if _is_hollow(line))
    assert hollow == sum(point["status"] == UNSTABLE for point in one.points)
    assert hollow > 0 or name.startswith(("backward", "memory-time")), "unstable are points at 512 alone"


def _is_hollow(line):
    return line.get_marker() not in ("None", "x") and line.get_markerfacecolor() == "white"


@every_measured
def test_what_had_no_memory_is_a_cross(drawings, name):
    one = drawings[name]
    crossed = sum(len(line.get_xdata()) for ax in one.figure.axes for line in ax.lines if line.get_marker() == "x")
    assert crossed == sum(point["status"] == "oom" for point in one.points) > 0
    assert "out of memory" in one.figure.get_supxlabel()


@pytest.mark.parametrize("name", OVER_L)
def test_every_point_is_a_row_of_the_data(drawings, name):
    one = drawings[name]
    marks = [line for ax in one.figure.axes for line in ax.lines if line.get_linestyle() == "None" and _of_data(line, ax)]
    drawn = sum(len(line.get_xdata()) for line in marks)
    assert drawn == sum(point["status"] in MEASURED for point in one.points)


def _of_data(line, ax):
    return line.get_marker() != "x" and line.get_transform() == ax.transData


@pytest.mark.parametrize("name", [name for name in MEASURED_ONES if name != "backward-float32"])
def test_what_leads_from_a_line_to_its_name_does_not_look_like_data(drawings, name):
    leaders = [line for ax in drawings[name].figure.axes for line in ax.lines if _leads(line, ax)]
    assert len(leaders) >= len(CROWD) - 2
    for line in leaders:
        assert (line.get_color(), line.get_linestyle()) == ("0.6", ":") and line.get_linewidth() < 1


def _leads(line, ax):
    return len(line.get_xdata()) == 2 and line.get_transform() == ax.transAxes


@pytest.mark.parametrize("name", [name for name in MEASURED_ONES if name != "backward-float32"])
def test_every_variant_is_named_in_every_panel(drawings, name):
    for ax in drawings[name].figure.axes:
        said = {text.get_text() for text in ax.texts}
        assert {label for label in CROWD if "/" in label} <= said
        assert "no positions (limit)" in said or name.startswith("error")


@every_measured
def test_the_footer_names_version_machine_commit_and_day(drawings, name):
    assert (
        drawings[name].figure.get_supxlabel().startswith("relpos 0.1.0 · machine a1b2c3d4 · commit 0123456789ab · 2026-01-01")
    )


@pytest.mark.parametrize("name", ["conformance", "kills"])
def test_what_no_machine_matters_for_names_version_and_laws(drawings, name):
    one = drawings[name]
    assert one.figure.get_supxlabel().startswith(f"relpos {one.points[0]['version']} · laws {one.points[0]['laws_hash']}")


@pytest.mark.parametrize("name", ["backward-float32", "memory-time-forward-float32"])
def test_the_limit_is_drawn_where_it_is_no_line_of_its_own(drawings, name):
    one = drawings[name]
    assert LIMIT not in {point["variant"] for point in one.points}
    for ax in one.figure.axes:
        assert any(line.get_color() == "black" and set(line.get_xdata()) == {1.0} for line in ax.lines)


@pytest.mark.parametrize("name", ["backward-float32", "conformance", "kills"])
def test_a_figure_is_the_same_bytes_when_saved_again(drawings, name, tmp_path):
    first = [path.read_bytes() for path in save(drawings[name], tmp_path)]
    assert [path.read_bytes() for path in save(drawings[name], tmp_path)] == first
