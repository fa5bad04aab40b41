"""The sweep: short lengths first, nothing twice, failures as rows, and what dies takes nobody with it."""

import os
import signal
from dataclasses import replace

import pytest

from relpos.conformance.builtins import builtins
from relpos.perf.isolated import measure_isolated, resident_isolated
from relpos.perf.measuring import Options
from relpos.perf.point import THE_CONTROL, THE_LIMIT, Shape, Variant
from relpos.perf.rows import NOT_CERTIFIED, OK, OOM, TOO_SLOW, read
from relpos.perf.sweep import Sweep, chosen_lengths, representatives, run

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


@pytest.mark.parametrize(("texts", "found"), [(["512,1024"], (512, 1024)), (["64 32"], (32, 64)), ([], ())])
def test_lengths_are_read(texts, found):
    assert chosen_lengths(texts) == found


@pytest.mark.parametrize("text", ["512,long", "1", "-4", "4.5", "", ",", " ", "5²"])
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

    sweep = Sweep(lengths=(512, 1024))
    run(sweep, [FAST, OTHER], Options(), path, FACTS, refused={}, measure=measure, resident=resident)
    assert asked == [("limit", 1024), ("alibi/fast", 1024), ("t5/only", 1024)]
    rows = {r["variant"]: r for r in read(path) if r["key_length"] == 1024 and not r["causal"]}
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
