"""Every scheme is drawn: without a warning, with labels on every axis, and with no text outside the picture."""

from typing import get_args

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="matplotlib is not installed; the extra `plots` has it")

from matplotlib.axes import Axes
from matplotlib.text import Text

from relpos.conformance.commands import main
from relpos.show.drawings import panels_of
from relpos.show.plot import figure, typeset
from relpos.show.probing import shown_settings
from relpos.show.reading import definition
from relpos.spec.alibi import ALiBi
from relpos.spec.clipped import Clipped
from relpos.spec.contract import Form
from relpos.spec.registry import schemes, settings_class
from relpos.spec.shaw import Shaw
from relpos.spec.sinusoidal import Sinusoidal
from relpos.spec.t5 import T5

VARIANTS = (
    *(shown_settings(settings_class(scheme), scheme, [])[0] for scheme in schemes()),
    ALiBi(12, distance="half_half"),
    ALiBi(1),
    Clipped(2, 0),
    Clipped(2, 3, directions="past", beyond="zero"),
    Shaw(4, 3, tables="relative_key"),
    Sinusoidal(7),
    T5(2, cross_attention=True),
)


@pytest.mark.parametrize("settings", VARIANTS, ids=lambda s: repr(s).replace(" ", ""))
def test_a_drawing_is_labelled_and_whole(settings):
    drawn = figure(settings)
    panels = [axes for axes in drawn.findobj(Axes) if axes.get_title()]
    assert len(panels) == len(panels_of(settings))
    assert all(axes.get_xlabel() and axes.get_ylabel() for axes in panels)
    assert not [text.get_text() for text in _texts(drawn) if _outside(drawn, text)]


def _texts(drawn) -> list[Text]:
    """What is written, save ticks: matplotlib lays them out itself, and those beyond the limits are not drawn."""
    axes = drawn.findobj(Axes)
    ticks = {id(label) for a in axes for axis in (a.xaxis, a.yaxis) for label in axis.findobj(Text) if label is not axis.label}
    hidden = {id(text) for a in axes if not a.axison for text in a.findobj(Text)}
    return [text for text in drawn.findobj(Text) if text.get_text().strip() and id(text) not in ticks | hidden]


def _outside(drawn, text) -> bool:
    edges, box = drawn.bbox, text.get_window_extent()
    return not (edges.x0 - 1 <= box.x0 and box.x1 <= edges.x1 + 1 and edges.y0 - 1 <= box.y0 and box.y1 <= edges.y1 + 1)


@pytest.mark.parametrize("scheme", schemes())
def test_every_formula_is_typeset(scheme):
    lines = typeset(definition(settings_class(scheme)).formula, 100.0)
    assert lines and all(text.startswith("$") and text.endswith("$") for _, text in lines)


@pytest.mark.parametrize("form", get_args(Form))
def test_every_form_has_a_drawing(form):
    assert panels_of(next(s for s in VARIANTS if s.form == form))


@pytest.mark.parametrize("suffix", [".png", ".pdf", ".svg"])
def test_it_is_written_where_it_is_wanted(tmp_path, capsys, suffix):
    path = tmp_path / "folder" / f"none{suffix}"
    assert main(("show", "none", "--plot", str(path))) == 0
    assert path.read_bytes()[:4] in (b"\x89PNG", b"%PDF", b"<?xm")
    assert "drawn in" in capsys.readouterr().out


def test_what_cannot_be_written_is_said(tmp_path, capsys):
    (tmp_path / "file").write_text("", encoding="utf-8")
    assert main(("show", "none", "--plot", str(tmp_path / "file" / "none.png"))) == 2
    assert "--plot: the drawing could not be written to" in " ".join(capsys.readouterr().err.split())


def test_drawing_twice_gives_the_same_picture():
    first, second = (np.asarray(figure(Clipped(1, 2)).canvas.buffer_rgba()) for _ in range(2))
    np.testing.assert_array_equal(first, second)
