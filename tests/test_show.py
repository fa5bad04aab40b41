"""`python -m relpos show`: what it says of every scheme, and what it answers to requests that make no sense."""

from dataclasses import fields

import numpy as np
import pytest

from relpos.conformance.commands import main
from relpos.show import command
from relpos.show.drawings.music_transformer import skew
from relpos.show.page import narrow
from relpos.show.probing import any_length, axes, rows_read, shown_settings, steps
from relpos.show.reading import definition, reference, setting_words
from relpos.show.tables import distances, tables
from relpos.show.typeset import mathtext
from relpos.spec.alibi import ALiBi
from relpos.spec.clipped import Clipped
from relpos.spec.positions import Range
from relpos.spec.registry import schemes, settings_class
from relpos.spec.rope import RoPE
from relpos.spec.shaw import Shaw
from relpos.spec.t5 import T5
from spec_examples import EXAMPLES, label

every_scheme = pytest.mark.parametrize("scheme", schemes())


@pytest.fixture
def show(capsys):
    """Run the command: exit code, standard output, standard error."""

    def run(*words):
        code = main(("show", *words))
        return code, *capsys.readouterr()

    return run


# ---- what it says


@every_scheme
def test_a_page_has_everything_and_fits_a_terminal(show, scheme):
    cls = settings_class(scheme)
    code, out, err = show(scheme)
    said, flowing = definition(cls), " ".join(out.replace("│", " ").split())
    assert code == 0 and not err
    assert not [line for line in out.splitlines() if len(line) > 80]
    settings, _ = shown_settings(cls, scheme, [])
    wanted = [said.idea, said.source[:40], *said.labels, *settings.parameters(), *(f.name for f in fields(cls))]
    assert not [text for text in wanted if " ".join(text.split()) not in flowing]
    assert all(line.split()[0] in out for line in said.formula if line.strip())


@every_scheme
def test_every_setting_is_explained(scheme):
    cls = settings_class(scheme)
    assert set(setting_words(cls)) == {f.name for f in fields(cls)}


@every_scheme
def test_the_source_names_somebody(scheme):
    assert 4 <= len(reference(settings_class(scheme))) <= 60


def test_t5_shows_its_buckets(show):
    code, out, _ = show("t5", "--set", "num_buckets=32")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert code == 0 and "num_buckets 32 given 32 in every release" in lines
    assert {"0 0", "8 −11 to −8", "15 … to −91", "17 +1", "31 +91 to …", "table [32, 8]", "parameters 256"} <= set(lines)
    assert "16" not in [line.split(" ")[0] for line in lines]  # no distance reads it


@pytest.mark.parametrize("way", [True, False])
@pytest.mark.parametrize(("buckets", "farthest"), [(32, 128), (8, 20), (9, 33)])
def test_shown_buckets_are_those_of_the_definition(buckets, farthest, way):
    settings = T5(2, buckets, farthest, bidirectional=way)
    shown = {}
    for row, spans in distances(settings, "table"):
        for span in spans.split("  "):
            low, _, high = span.partition(" to ")
            first, last = (int(x.replace("−", "-").replace("…", "160")) for x in (low, high or low))
            shown.update(dict.fromkeys(range(-160 if low == "…" else first, last + 1), int(row)))
    assert shown == {r: settings.bucket(r) for r in range(-160, 161)}


@pytest.mark.parametrize("settings", [s for s in EXAMPLES if hasattr(s, "rows")], ids=label)
def test_rows_found_by_asking_are_the_rows_defined(settings):
    name = next(iter(settings.parameters()))
    if axes(settings) > 1 or settings.max_distance == 0 or getattr(settings, "hides", False):
        return  # several axes are drawn otherwise; one row tells nothing apart; a pair that is hidden reads none
    queries, keys = Range(3, 4), Range(0, 9)
    np.testing.assert_array_equal(rows_read(settings, name, queries, keys), settings.rows(queries, keys))


def test_a_parameter_that_is_no_table_has_no_rows():
    assert rows_read(ALiBi(2), "table", Range(0, 3), Range(0, 3)) is None
    assert rows_read(Shaw(4, 2), "rel_v", Range(0, 3), Range(0, 3)) is None  # not in the logits


def test_other_tables():
    (slopes,) = tables(ALiBi(12))
    assert [row[2] for row in slopes[2]] == [*(f"2^−{n}" for n in range(1, 9)), "2^(−1/2)", "2^(−3/2)", "2^(−5/2)", "2^(−7/2)"]
    (waves,) = tables(RoPE(4, base=100.0, layout="half"))
    assert waves[2] == [("0", "1", "6.283", "0, 2"), ("1", "0.1", "62.83", "1, 3")]
    assert [title for title, *_ in tables(Clipped(2, 1))] == [
        "rows of table by distance", "row of table for query i (down) and key j (across)"
    ]  # fmt: skip
    assert distances(Clipped(2, 1, directions="past", beyond="zero"), "table") == [
        ("none", "… to −2  +1 to …"), ("0", "0"), ("1", "−1")
    ]  # fmt: skip


def test_runs_of_equal_entries():
    assert steps([7, 7, 1, 7]) == [(0, 1), (2, 2), (3, 3)]


def test_definedness_is_found_by_asking():
    assert any_length(Shaw(4, 2)) and any_length(T5(2)) and any_length(RoPE(4))
    assert not any_length(Shaw(4, 2, tables="relative_key"))


# ---- formulas

TYPESET = [
    ("q_i · k_j", r"$q_{i}\,\cdot \,k_{j}$"),
    ("base^(−2m/D)", r"$\mathrm{base}^{-2m/D}$"),
    ("1/√D", r"$1/\sqrt{D}$"),
    ("√(D + 1)", r"$\sqrt{D\,+\,1}$"),
    ("a^K[r]", r"$a^{K}[r]$"),
    ("x'_a", r"$x^{\prime}_{a}$"),
    ("D^t · E^(S−t)", r"$D^{t}\,\cdot \,E^{S-t}$"),
    ("content-to-position", r"$\text{content-to-position}$"),
    ("`num_buckets`", r"$\mathrm{num\_buckets}$"),
    ("n ≥ E: exact", r"$n\,\geq \,E:\ \mathrm{exact}$"),
]


@pytest.mark.parametrize(("line", "expected"), TYPESET)
def test_a_formula_becomes_mathtext(line, expected):
    assert mathtext(line) == expected


def test_a_formula_too_wide_for_a_terminal_is_broken_at_its_gaps():
    assert narrow(("a = b          c", "x" * 60 + "          y < z"), 72) == ["a = b          c", "x" * 60, "    y < z"]


def test_skew_puts_distance_where_the_key_is():
    every, padded, reshaped, sliced = skew(5)
    assert every[3, 2] == 32 and np.isnan(padded[:, 0]).all() and reshaped.shape == (6, 5)
    for i, j in zip(*np.tril_indices(5), strict=True):
        assert sliced[i, j] == 10 * i + (j - i + 4)
    assert np.isnan(sliced[0, 1]) and sliced[0, 2] == 10  # a cell of the next query


# ---- complaints

COMPLAINTS = [
    (("t6",), "wrong usage: no scheme is called 't6'. Did you mean t5?"),
    (
        ("t5", "--set", "buckets=8"),
        "wrong usage: t5: there is no setting called 'buckets'. Did you mean num_buckets=8? Its settings: ",
    ),
    (("t5", "--set", "num_heads=2", "--set", "num_heads=3"), "wrong usage: t5: `num_heads` is set twice, to 2 and to 3; "),
    (("t5", "--set", "num_buckets=1"), "wrong usage: t5: `num_buckets` must be at least 4 (both ways), got 1."),
    (("t5", "--set", "num_buckets=x"), "wrong usage: t5: `num_buckets` must be a whole number, got 'x'."),
    (("t5", "--set", "num_heads=100000"), "wrong usage: t5: `num_heads` must be at most 1024 for the judge, got 100000: "),
    (("t5", "--plot", "t5.gif"), "wrong usage: --plot: t5.gif must end in one of .png, .pdf, .svg."),
]


@pytest.mark.parametrize(("words", "says"), COMPLAINTS, ids=[" ".join(words) for words, _ in COMPLAINTS])
def test_what_makes_no_sense_is_answered_in_words(show, words, says):
    code, out, err = show(*words)
    assert code == 2 and not out and " ".join(err.split()).startswith(" ".join(says.split()))


def test_without_matplotlib_it_says_what_to_install(show, monkeypatch):
    monkeypatch.setattr(command, "find_spec", lambda name: None)
    code, out, err = show("t5", "--plot", "t5.png")
    assert code == 2 and not out
    assert "package missing: --plot draws with matplotlib, which is not installed here: pip install matplotlib" in " ".join(
        err.split()
    )
    assert show("t5")[0] == 0  # the page needs none
