"""The sweep: short lengths first, nothing twice, failures as rows, and what dies takes nobody with it."""

import argparse
import os
import signal
from dataclasses import replace

import pytest

from relpos.conformance.builtins import builtins
from relpos.conformance.errors import UsageError
from relpos.perf.chosen import chosen_options
from relpos.perf.estimate import Crowd, Pace, estimate_s, in_words, pace
from relpos.perf.isolated import measure_isolated, resident_isolated
from relpos.perf.measuring import Options
from relpos.perf.point import THE_CONTROL, THE_LIMIT, Shape, Variant
from relpos.perf.rows import NOT_CERTIFIED, OK, OOM, TOO_SLOW, read
from relpos.perf.sweep import FULL, Sweep, chosen_lengths, representatives, run

FACTS = {"run": "r", "machine": "m1", "version": "0", "commit": "c", "dirty": False, "load": 0.0}
FAST, SLOW = (Variant(label=f"alibi/{name}", spec="", scheme="alibi") for name in ("fast", "slow"))
OTHER = Variant(label="t5/only", spec="", scheme="t5")
TIMES = {"limit": 1.0, "control": 1.0, "alibi/fast": 1.1, "alibi/slow": 9.0, "t5/only": 2.0}


def pretended(shape, variants, options, by=None):
    """Times that grow by the square of the length."""
    area = (shape.key_length / 512) ** 2
    found = []
    for v in (THE_LIMIT, THE_CONTROL, *variants):
        took = TIMES[v.label] * area
        slow = took > options.most_ms
        found.append((v, TOO_SLOW if slow else OK, {"latency_ms": took, "samples_ms": [] if slow else [took] * 3}))
    return found


def test_short_lengths_come_first():
    lengths = [shape.key_length for shape in Sweep(lengths=(2048, 512)).shapes()]
    assert lengths == sorted(lengths) and len(lengths) == 4


def test_a_run_that_goes_on_measures_only_what_is_missing(tmp_path):
    path, asked = tmp_path / "rows.jsonl", []

    def measure(shape, variants, options):
        asked.append((shape.key_length, [v.label for v in variants]))
        return pretended(shape, variants, options)

    run(Sweep(lengths=(512,)), [FAST], Options(), path, FACTS, refused={}, measure=measure)
    run(Sweep(lengths=(512, 1024)), [FAST, OTHER], Options(), path, FACTS, refused={}, measure=measure)
    assert asked == [(512, ["alibi/fast"])] * 2 + [(512, ["t5/only"])] * 2 + [(1024, ["alibi/fast", "t5/only"])] * 2
    rows = [(r["variant"], r["causal"], r["key_length"]) for r in read(path)]
    assert len(rows) == len(set(rows)) == 2 * (4 + 4)


def test_an_interrupted_run_keeps_what_it_had(tmp_path):
    path = tmp_path / "rows.jsonl"

    def measure(shape, variants, options):
        if shape.key_length == 1024:
            raise KeyboardInterrupt
        return pretended(shape, variants, options)

    with pytest.raises(KeyboardInterrupt):
        run(Sweep(), [FAST], Options(), path, FACTS, refused={}, measure=measure)
    assert {r["key_length"] for r in read(path)} == {512}


def test_what_has_no_certificate_is_a_row_and_is_not_timed(tmp_path):
    path, asked = tmp_path / "rows.jsonl", []

    def measure(shape, variants, options):
        asked.extend(v.label for v in variants)
        return pretended(shape, variants, options)

    run(Sweep(lengths=(512,)), [FAST, SLOW], Options(), path, FACTS, refused={"alibi/slow": "L1"}, measure=measure)
    barred = [r for r in read(path) if r["status"] == NOT_CERTIFIED]
    assert {r["variant"] for r in barred} == {"alibi/slow"} and barred[0]["reason"] == "L1" and "alibi/slow" not in asked


def test_what_was_too_slow_at_half_the_length_is_not_tried(tmp_path):
    path, asked = tmp_path / "rows.jsonl", []

    def measure(shape, variants, options):
        asked.extend((shape.key_length, v.label) for v in variants)
        return pretended(shape, variants, options)

    run(Sweep(directions=(False,)), [FAST, SLOW], Options(most_ms=100.0), path, FACTS, refused={}, measure=measure)
    assert (1024, "alibi/slow") in asked and (4096, "alibi/slow") not in asked and (4096, "alibi/fast") in asked
    assert {r["status"] for r in read(path) if r["variant"] == "alibi/slow" and r["key_length"] == 4096} == {TOO_SLOW}


def test_the_fastest_stands_for_its_scheme():
    chosen = representatives([SLOW, FAST, OTHER], measure=pretended)
    assert [v.label for v in chosen] == ["alibi/fast", "t5/only"]


@pytest.mark.parametrize(("text", "found"), [("512,1024", (512, 1024)), ("64 32", (32, 64)), ("", ())])
def test_lengths_are_read(text, found):
    assert chosen_lengths([text]) == found


@pytest.mark.parametrize("text", ["512,long", "1", "-4", "4.5"])
def test_a_length_that_is_none_is_named(text):
    with pytest.raises(ValueError, match="--lengths takes whole numbers from 2"):
        chosen_lengths([text])


def dies_in_slow(shape, variants, options, note):
    for variant in variants:
        note(variant.label)
        if variant.label == "alibi/slow":
            os.kill(os.getpid(), signal.SIGKILL)
    return pretended(shape, variants, options)


def leaves_in_slow(shape, variants, options, note):
    for variant in variants:
        note(variant.label)
        if variant.label == "alibi/slow":
            os._exit(3)
    return pretended(shape, variants, options)


@pytest.mark.parametrize(("by", "status", "words"), [(dies_in_slow, OOM, "killed"), (leaves_in_slow, "failed", "exit code 3")])
def test_a_variant_that_dies_takes_nobody_with_it(by, status, words):
    found = {v.label: (s, figures) for v, s, figures in measure_isolated(Shape(), [FAST, SLOW, OTHER], Options(), by=by)}
    assert found["alibi/slow"][0] == status and words in found["alibi/slow"][1]["reason"]
    assert found["alibi/fast"][0] == found["t5/only"][0] == OK


def interrupted_within(shape, variants, options, note):
    os.kill(os.getpid(), signal.SIGINT)
    return pretended(shape, variants, options)


def test_ctrl_c_is_answered_by_the_parent_alone():
    found = measure_isolated(Shape(), [FAST], Options(), by=interrupted_within)
    assert [status for _, status, _ in found] == [OK] * 3


def test_what_has_changed_since_is_measured_again(tmp_path):
    path, asked = tmp_path / "rows.jsonl", []

    def measure(shape, variants, options):
        asked.append([v.label for v in variants])
        return pretended(shape, variants, options)

    sweep = Sweep(lengths=(512,), directions=(False,))
    run(sweep, [FAST, SLOW], Options(), path, FACTS, refused={}, measure=measure)
    run(sweep, [FAST, replace(SLOW, source="another")], Options(), path, FACTS, refused={}, measure=measure)
    assert asked == [["alibi/fast", "alibi/slow"], ["alibi/slow"]]


def test_memory_is_checked_in_a_fresh_process_at_the_greatest_length_and_a_difference_is_said(tmp_path):
    path, asked = tmp_path / "rows.jsonl", []

    def measure(shape, variants, options):
        return [(v, s, {**figures, "peak_bytes": 100 * 2**20}) for v, s, figures in pretended(shape, variants, options)]

    def resident(shape, variant, options):
        asked.append((variant.label, shape.key_length))
        return 110 * 2**20 if variant is FAST else 200 * 2**20

    sweep = Sweep(lengths=(512, 1024), directions=(False,))
    run(sweep, [FAST, OTHER], Options(), path, FACTS, refused={}, measure=measure, resident=resident)
    assert asked == [("limit", 1024), ("alibi/fast", 1024), ("t5/only", 1024)]
    rows = {r["variant"]: r for r in read(path) if r["key_length"] == 1024}
    assert rows["alibi/fast"]["resident_bytes"] == 110 * 2**20 and "note" not in rows["alibi/fast"]
    assert rows["t5/only"]["note"] == "allocations add up to 100.0 MiB, a fresh process grew by 200.0"


def test_a_fresh_process_sees_the_matrix_that_a_formed_bias_takes():
    label = "alibi/bias"
    formed = Variant(label=label, spec=builtins("alibi")[label], scheme="alibi")
    shape = Shape(key_length=1024)
    grown = resident_isolated(shape, formed, Options(threads=1))
    assert grown is None or grown > 8 * 1024 * 1024 * 4


def test_where_not_even_the_limit_can_be_had_every_row_says_so():
    found = measure_isolated(Shape(), [FAST], Options(), by=dies_at_once)
    assert [(v.label, status) for v, status, _ in found] == [("limit", OOM), ("control", OOM), ("alibi/fast", OOM)]
    assert all("before any variant was called" in figures["reason"] for _, _, figures in found)


def dies_at_once(shape, variants, options, note):
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_variant_of_earlier_rows_stands_for_its_scheme_again():
    chosen = representatives([SLOW, FAST, OTHER], measure=pretended, known=frozenset({"alibi/slow"}))
    assert [v.label for v in chosen] == ["alibi/slow", "t5/only"]


def test_an_estimate_grows_with_all_that_is_measured():
    few, more, two = Sweep(lengths=(512,)), Sweep(lengths=(512, 4096)), Crowd(variants=2, schemes=2)
    here = Pace({"float32": 2.0}, start_s=3.0)

    def seconds(sweep=few, crowd=two, here=here):
        return estimate_s(sweep, sweep.shapes(), crowd, Options(), here)

    longer = [seconds(more), seconds(crowd=replace(two, variants=20)), seconds(crowd=replace(two, schemes=9))]
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
    return chosen_options(argparse.Namespace(full=full, rounds=0, threads=1, seed=0))


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


def test_a_variant_that_takes_minutes_to_build_is_not_built_at_twice_the_length(tmp_path):
    def measure(shape, racing, options):
        return [(v, s, f | {"prepared_s": 20.0}) for v, s, f in pretended(shape, racing, options)]

    path = tmp_path / "rows.jsonl"
    run(Sweep(lengths=(512, 1024), directions=(False,)), [FAST], Options(), path, FACTS, refused={}, measure=measure)
    (last,) = [r for r in read(path) if r["key_length"] == 1024]
    assert last["reason"] == "20 s to build it and to fill its cache at half the length"


def test_memory_is_checked_at_the_greatest_length_that_all_come_to():
    sweep = replace(FULL, lengths=(512, 2048, 4096))
    checked = {(s.mode, s.dtype, s.key_length) for s in sweep.shapes() if sweep.checks(s)}
    assert checked == {("forward", "float32", 2048)}
    trained = {s.key_length for s in sweep.shapes() if s.mode == "forward_backward" and sweep.narrowed(s)}
    assert trained == {2048, 4096}
