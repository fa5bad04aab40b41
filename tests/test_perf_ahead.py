"""Before anything is measured: an estimate that fits, and points that earlier rows settle without measuring them."""

import argparse
from dataclasses import replace

import pytest

from relpos.conformance.builtins import builtins
from relpos.conformance.errors import UsageError
from relpos.perf.chosen import chosen_options
from relpos.perf.estimate import Crowd, Pace, estimate_s, in_words, pace
from relpos.perf.measuring import Options
from relpos.perf.point import THE_CONTROL, THE_LIMIT, Shape
from relpos.perf.rows import OK, OOM, TOO_SLOW, read
from relpos.perf.sweep import FULL, Sweep, run
from test_perf_sweep import FACTS, FAST, OTHER, SLOW, TIMES, pretended


def test_an_estimate_grows_with_all_that_is_measured():
    few, more, two = Sweep(lengths=(512,)), Sweep(lengths=(512, 4096)), Crowd(variants=4, schemes=2)
    here = Pace({"float32": 2.0}, start_s=3.0)

    def seconds(sweep=few, crowd=two, here=here):
        return estimate_s(sweep, sweep.shapes(), crowd, Options(), here)

    longer = [seconds(more), seconds(crowd=replace(two, variants=20)), seconds(crowd=replace(two, schemes=3))]
    longer += [seconds(crowd=replace(two, judged=1)), seconds(crowd=replace(two, probed=True, of=70))]
    longer += [seconds(here=replace(here, start_s=6.0)), seconds(here=replace(here, limit_ms={"float32": 40.0}))]
    assert all(seconds() < more for more in longer)
    assert (in_words(61.0), in_words(600.0)) == ("about 61 s", "about 10 min")


@pytest.mark.parametrize("limit_ms", [2.0, 2.5, 3.0])
def test_the_default_fits_a_quarter_of_an_hour_and_the_full_run_an_hour_and_a_half(limit_ms):
    here = Pace({"float32": limit_ms, "bfloat16": 1.3 * limit_ms}, start_s=3.0)
    schemes, variants = len({label.split("/")[0] for label in builtins()}), len(builtins())
    usual = Crowd(variants=schemes, schemes=schemes, fastest=True, probed=True, of=variants)
    assert estimate_s(Sweep(), Sweep().shapes(), usual, how(full=False), here) < 15 * 60
    assert estimate_s(FULL, FULL.shapes(), Crowd(variants=variants, schemes=schemes), how(full=True), here) < 90 * 60


def how(*, full):
    return chosen_options(argparse.Namespace(full=full, rounds=None, threads=1, seed=0))


def test_a_full_run_has_fewer_rounds_and_more_patience_at_long_lengths_only():
    shapes = (2048, "forward"), (4096, "forward"), (4096, "forward_backward")
    short, long, trained = (how(full=True).at(Shape(key_length=length, mode=mode)) for length, mode in shapes)
    assert (short.rounds, short.most_ms) == (5, 1500) and (long.rounds, long.most_ms) == (3, 4000)
    assert (trained.rounds, trained.most_ms) == (3, 1500)
    assert how(full=False).at(Shape(key_length=4096)) == how(full=False)


def test_where_not_even_the_limit_can_be_had_nothing_is_estimated(monkeypatch):
    monkeypatch.setattr("relpos.perf.estimate.measure_isolated", lambda *shape: [(THE_LIMIT, OOM, {"reason": "killed"})])
    with pytest.raises(UsageError, match=r"cannot be measured here in float32.*: killed"):
        pace(Options(), ("float32",))


def test_the_pace_is_that_of_the_limit_and_of_a_process():
    here = pace(Options(threads=1), ("float32",))
    assert 0 < here.limit_ms["float32"] < 2000 and 0.2 < here.start_s < 100


# ---- what earlier rows say ahead


def sweeping(path, sweep, variants, options=None, status=OK):
    """Run a sweep of pretended times; what was asked for, and the rows of the file by variant and length."""
    asked = []

    def measure(shape, racing, options):
        asked.extend((shape.key_length, v.label) for v in racing)
        found = pretended(shape, racing, options)
        return [(v, status if v.label == "alibi/slow" else s, figures | {"peak_bytes": 1}) for v, s, figures in found]

    run(sweep, variants, options or Options(), path, FACTS, refused={}, measure=measure)
    return asked, {(r["variant"], r["key_length"]): r for r in read(path)}


ONE_WAY = Sweep(lengths=(512, 1024, 2048, 4096, 8192), directions=(False,))


def test_what_is_expected_to_be_too_slow_is_not_tried_and_says_what_was_expected(tmp_path):
    asked, rows = sweeping(tmp_path / "rows.jsonl", ONE_WAY, [FAST, SLOW], Options(most_ms=100.0))
    assert (1024, "alibi/slow") in asked and not {(n, "alibi/slow") for n in (2048, 4096, 8192)} & set(asked)
    assert rows["alibi/slow", 2048]["reason"] == "36 ms at half the length, 144 expected here, more than 100"
    assert rows["alibi/slow", 8192]["status"] == TOO_SLOW and "latency_ms" not in rows["alibi/slow", 8192]


def test_where_the_limit_itself_would_be_too_slow_nobody_is_tried(tmp_path):
    asked, rows = sweeping(tmp_path / "rows.jsonl", ONE_WAY, [FAST], Options(most_ms=100.0))
    assert max(asked) == (4096, "alibi/fast"), "8192 would take 256 ms"
    assert rows["alibi/fast", 8192]["reason"].startswith("70 ms at half the length")


def test_what_had_no_memory_has_none_at_twice_the_length(tmp_path):
    asked, rows = sweeping(tmp_path / "rows.jsonl", ONE_WAY, [FAST, SLOW], status=OOM)
    assert [n for n, label in asked if label == "alibi/slow"] == [512]
    assert {rows["alibi/slow", n]["reason"] for n in (1024, 8192)} == {"no memory at half the length already"}


def test_beyond_some_length_two_variants_of_a_scheme_go_on_and_strangers_always_do(tmp_path):
    theirs = replace(SLOW, label="alibi/theirs", origin="a package 1.0")
    frugal = replace(SLOW, label="alibi/frugal")
    times = {**TIMES, "alibi/theirs": 10.0, "alibi/frugal": 8.0}

    def measure(shape, racing, options):
        area = (shape.key_length / 512) ** 2
        return [
            (v, OK, {"latency_ms": times[v.label] * area, "peak_bytes": 1 if v is frugal else 9, "samples_ms": [1.0]})
            for v in (THE_LIMIT, THE_CONTROL, *racing)
        ]

    sweep, path = replace(ONE_WAY, narrow_beyond=1024), tmp_path / "rows.jsonl"
    run(sweep, [FAST, SLOW, frugal, OTHER, theirs], Options(), path, FACTS, refused={}, measure=measure)
    rows = {(r["variant"], r["key_length"]): r for r in read(path)}
    assert rows["alibi/slow", 1024]["status"] == OK and rows["alibi/slow", 2048]["status"] == TOO_SLOW
    assert rows["alibi/slow", 8192]["reason"] == "at L = 1024 alibi/fast was faster and alibi/frugal took no more memory"
    assert all(rows[label, 8192]["status"] == OK for label in ("alibi/fast", "alibi/frugal", "alibi/theirs", "t5/only"))


@pytest.mark.parametrize(("seconds", "tried"), [((5.0, 20.0, 80.0), [512, 1024]), ((50.0,) * 3, [512, 1024, 2048])])
def test_a_cache_that_takes_minutes_to_fill_is_not_filled_and_compiling_is_no_such_thing(tmp_path, seconds, tried):
    took, path = dict(zip((512, 1024, 2048), seconds, strict=True)), tmp_path / "rows.jsonl"

    def measure(shape, racing, options):
        return [(v, s, f | {"prepared_s": took[shape.key_length]}) for v, s, f in pretended(shape, racing, options)]

    run(Sweep(lengths=tuple(took), directions=(False,)), [FAST], Options(), path, FACTS, refused={}, measure=measure)
    rows = {r["key_length"]: r for r in read(path) if r["variant"] == FAST.label}
    assert [n for n, r in rows.items() if r["status"] == OK] == tried
    said = "20 s to build it and to fill its cache at half the length, 80 expected here, more than 60"
    assert len(tried) == 3 or rows[2048]["reason"] == said


def test_memory_is_checked_at_the_greatest_length_that_all_come_to():
    sweep = replace(FULL, lengths=(512, 2048, 4096))
    checked = {(s.mode, s.dtype, s.key_length) for s in sweep.shapes() if sweep.checks(s)}
    assert checked == {("forward", "float32", 2048)}
    trained = {s.key_length for s in sweep.shapes() if s.mode == "forward_backward" and sweep.narrowed(s)}
    assert trained == {2048, 4096}
