"""The bars: how figures of rows become a word, and that the table asks of what there is."""

import argparse
from dataclasses import replace

import pytest

from relpos.conformance.builtins import builtins
from relpos.conformance.errors import UsageError
from relpos.perf import variants as judging
from relpos.perf.bar_table import ENGINES, table, variants
from relpos.perf.bars import AT, Bar, exponent, faster, held, largest, of_shapes, over_limit, peak, sized
from relpos.perf.bars_command import bar_lines, run_bars
from relpos.perf.measuring import Options, measure
from relpos.perf.point import CONTROL, LIMIT, MODES, Shape, Variant
from relpos.perf.rows import SIZED, latest, row
from relpos.perf.variants import built_in, refusals

BAR = Bar(what="time", labels=("a/one", "a/two"), shape=AT, must=1.2, aim=1.05, statistic=over_limit)


def rows(**figures):
    """Rows by key, of labels with figures: one=dict(…)."""
    names = {"one": "a/one", "two": "a/two", "limit": LIMIT, "control": CONTROL, "other": "a/other"}
    found = []
    for name, of_it in figures.items():
        shape = of_it.pop("shape", AT)
        variant = Variant(label=names.get(name.rstrip("_"), name), spec="", scheme="a")
        found.append(row({}, variant, shape, of_it.pop("status", "ok"), latency_ms=1.0, samples_ms=[1.0], **of_it))
    return latest(found)


def timed(minima, pairs):
    return {"ratio_of_minima": minima, "median_of_ratios": pairs, "peak_bytes": 1}


@pytest.mark.parametrize(
    ("minima", "pairs", "word"),
    [(1.3, 1.3, "missed"), (1.3, 1.1, "met"), (1.1, 1.3, "met"), (1.2, 1.2, "met"), (1.04, 1.3, "aim reached")],
)
def test_a_bar_is_missed_only_where_both_statistics_miss_it(minima, pairs, word):
    (found,) = held([BAR], rows(one=timed(minima, pairs), control=timed(1.01, 0.99)))
    assert found.word == word and found.values == (minima, pairs) and found.floor == (1.01, 0.99)


def test_a_bar_without_a_control_is_held_all_the_same():
    (found,) = held([BAR], rows(one=timed(1.1, 1.1)))
    assert found.word == "met" and found.floor == ()


def test_the_best_of_several_stands_for_a_bar():
    (found,) = held([BAR], rows(one=timed(1.5, 1.5), two=timed(1.1, 1.1), control=timed(1.0, 1.0)))
    assert found.label == "a/two" and found.word == "met"


def test_a_bar_without_a_figure_says_why():
    (found,) = held([BAR], rows(one={"status": "oom", "reason": "no memory"}))
    assert found.word == "not measured" and found.reason == "a/one: oom, no memory; a/two was not measured"
    assert "not measured: a/one: oom, no memory; a/two was not measured" in list(bar_lines([found]))


def test_how_much_faster_is_the_time_of_the_other_over_ours():
    bar = replace(BAR, labels=("a/one",), statistic=faster, against="a/other", at_least=True, must=3.0, aim=5.0)
    found = rows(one={"peak_bytes": 1}, other={}, control=timed(1.0, 1.0))
    for label, samples in (("a/one", [1.0, 2.0, 1.0]), ("a/other", [4.0, 4.0, 6.0])):
        next(one for one in found.values() if one["variant"] == label)["samples_ms"] = samples
    (reached,) = held([bar], found)
    assert reached.values == (4.0, 4.0) and reached.word == "met"


def test_memory_is_held_against_the_limit_the_length_and_all_scores():
    long = AT.but(key_length=4 * AT.key_length)
    one = {"peak_bytes": 100, "first_peak_bytes": 100, "largest_bytes": 8 * 4096 * 4096 * 4 // 8}
    found = rows(one=one, limit={"peak_bytes": 50},
                 one_={"shape": long, "first_peak_bytes": 1600, "status": SIZED})  # fmt: skip
    bars = [replace(BAR, statistic=peak), replace(BAR, statistic=exponent, also=long), replace(BAR, statistic=largest)]
    assert [one.values for one in held(bars, found)] == [(2.0,), (2.0,), (1.0,)]


def test_the_table_asks_of_variants_that_there_are():
    bars = table()
    entered = variants(bars, [])
    ours = {label for bar in bars for label in bar.labels}
    assert ours <= set(entered), ours - set(entered)
    for label in ours:
        assert label.partition("[")[0] in builtins(label.split("/")[0])
    assert all(bar.aim <= bar.must or bar.at_least for bar in bars)


def test_every_variant_of_an_engine_has_a_bar_of_memory():
    asked = {label for bar in table() if bar.statistic is exponent for label in bar.labels}
    assert asked == {one.label for one in built_in() if one.label.split("/")[1] in ENGINES}


def test_what_is_held_against_another_races_with_it():
    bar = replace(BAR, statistic=faster, against="a/other", also=AT.but(key_length=16384))
    assert of_shapes([BAR, bar]) == {AT: ("a/one", "a/two", "a/other"), bar.also: ("a/one", "a/two", "a/other")}


def test_memory_is_measured_where_a_bar_asks_for_it():
    long, short = AT.but(key_length=4 * AT.key_length), AT.but(key_length=AT.key_length // 2)
    bars = [BAR, replace(BAR, shape=short), replace(BAR, statistic=exponent, also=long)]
    assert sized(bars) == {AT, long}
    without = {"shape": short, "ratio_of_minima": 1.1, "median_of_ratios": 1.1}
    assert [one.values for one in held([replace(BAR, shape=short)], rows(one=without))] == [(1.1, 1.1)]


def test_memory_alone_is_measured_without_rounds():
    shape = Shape(key_length=24, heads=2, head_dim=8)
    found = measure(shape, built_in("alibi", ("toeplitz",)), Options(threads=1, time=False))
    assert [status for _, status, _ in found] == [SIZED] * 3
    assert all("samples_ms" not in figures and figures["peak_bytes"] > 0 for _, _, figures in found)
    timed = next(figures for v, _, figures in measure(shape, built_in("alibi", ("toeplitz",)), Options(threads=1, rounds=2))
                 if v.label == "alibi/toeplitz")  # fmt: skip
    sized = found[-1][2]
    same = ("first_peak_bytes", "largest_bytes", "output_bytes")
    assert {name: sized[name] for name in same} == {name: timed[name] for name in same}


def test_a_rotation_by_itself_is_held_against_copies_of_queries_and_keys():
    shape = Shape(mode="rotation", key_length=24, heads=2, head_dim=8)
    found = measure(shape, built_in("rope", ("Rotary", "attention", "Decoder")), Options(threads=1, rounds=2))
    by = {variant.label: (status, figures) for variant, status, figures in found}
    assert by[LIMIT][1]["peak_bytes"] == 2 * 2 * 24 * 8 * 4
    assert by["rope/Rotary"][0] in ("ok", "unstable") and "error_units" not in by["rope/Rotary"][1]
    assert by["rope/attention"] == ("unsupported", {"reason": "it gives no rotation by itself"})
    assert by["rope/Decoder"][0] == "unsupported" and "rotation" in MODES


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"scheme": "alibi", "lengths": ["512"]},
            "--bars measures points of its own, on the CPU: leave out --scheme, --lengths.",
        ),
        ({"device": "cuda"}, "--bars measures points of its own, on the CPU: leave out --device."),
        ({"rounds": 5}, "--bars needs 15 rounds or more; got --rounds 5."),
    ],
)
def test_bars_take_no_other_points_and_no_fewer_rounds(options, said):
    plain = dict.fromkeys(
        ("full", "scheme", "variant", "impl", "given", "claim", "lengths", "dtype", "mode", "peers", "benchmark_json")
    )
    with pytest.raises(UsageError) as raised:
        run_bars(argparse.Namespace(**{**plain, "device": "cpu", "rounds": None, **options}))
    assert str(raised.value) == said


def test_a_label_in_brackets_has_the_certificate_of_its_implementation(monkeypatch):
    monkeypatch.setattr(judging, "judged", lambda variant, profile: "judged")
    (plain,) = built_in("deberta", ("streamed",))
    fixed = replace(plain, label="deberta/streamed[v1, 512]", settings=(("max_distance", 512),))
    elsewhere = replace(plain, label="deberta/mine[512]")
    assert refusals([plain, fixed, elsewhere]) == {"deberta/mine[512]": "judged"}
