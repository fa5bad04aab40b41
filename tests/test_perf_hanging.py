"""A variant that never returns costs its own row: it is ended with all that it has started, and the others are measured."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from relpos.perf import isolated
from relpos.perf.isolated import measure_isolated, patience_s
from relpos.perf.measuring import Options
from relpos.perf.point import Shape, Variant
from relpos.perf.rows import MEASURED, OK, TOO_SLOW, broke
from test_perf_sweep import FAST, OTHER, SLOW, pretended

NOTED = "RELPOS_TEST_NOTED"
SLEEPS = (sys.executable, "-c", "import time; time.sleep(300)")


@pytest.fixture
def hurried(monkeypatch):
    """Who waits for a process waits for some seconds, in which it can be started."""
    monkeypatch.setattr(isolated, "patience_s", lambda options: 15.0)


def hangs_in_slow(shape, variants, options, note):
    for variant in variants:
        note(variant.label)
        if variant.label == "alibi/slow":
            started = subprocess.Popen(SLEEPS)
            Path(os.environ[NOTED]).write_text(str(started.pid), encoding="utf-8")
            time.sleep(300)
    return pretended(shape, variants, options)


def leaves_while_another_holds_its_pipe(shape, variants, options, note):
    for variant in variants:
        note(variant.label)
        if variant.label == "alibi/slow" and os.fork() == 0:
            time.sleep(60)
        elif variant.label == "alibi/slow":
            os._exit(3)
    return pretended(shape, variants, options)


def lives(pid):
    """Whether a process does anything; one that nobody has buried yet does not."""
    status = Path(f"/proc/{pid}/stat")
    return status.exists() and status.read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"


def test_a_variant_that_hangs_is_ended_with_all_that_it_started_and_takes_nobody_with_it(hurried, tmp_path, monkeypatch):
    noted = tmp_path / "pid"
    monkeypatch.setenv(NOTED, str(noted))
    rows = {v.label: (s, f) for v, s, f in measure_isolated(Shape(), [FAST, SLOW, OTHER], Options(), by=hangs_in_slow)}
    status, figures = rows["alibi/slow"]
    assert status == TOO_SLOW and figures["reason"] == "did not return within 15 s"
    assert broke({"status": status, **figures}), "the exit code is 1"
    assert rows["alibi/fast"][0] == rows["t5/only"][0] == OK
    assert not lives(int(noted.read_text(encoding="utf-8")))


def test_an_implementation_that_hangs_is_named_and_the_others_are_measured(monkeypatch):
    monkeypatch.setattr(isolated, "patience_s", lambda options: 25.0)
    file, small = Path(__file__).with_name("strangers_timed.py"), Shape(key_length=16, heads=2, head_dim=8)
    both = [Variant(label=f"none/{n}", spec=f"{file}:{n}", scheme="none", origin="yours") for n in ("hangs", "plain")]
    rows = {v.label: (s, f) for v, s, f in measure_isolated(small, both, Options(threads=1, rounds=2, memory=False))}
    assert rows["none/hangs"] == (TOO_SLOW, {"reason": "did not return within 25 s", "exit_code": -9})
    assert rows["none/plain"][0] in MEASURED


def test_a_process_that_left_is_not_waited_for_because_of_what_it_started():
    began = time.monotonic()
    found = measure_isolated(Shape(), [FAST, SLOW], Options(), by=leaves_while_another_holds_its_pipe)
    assert {v.label: s for v, s, _ in found}["alibi/slow"] == "failed" and time.monotonic() - began < 55


def test_patience_is_a_minute_at_least_and_more_than_a_right_variant_may_take():
    assert patience_s(Options(most_s=1.0, most_ms=1.0)) == 60
    assert patience_s(Options(most_s=100.0)) > 100 + 3 * 4 and patience_s(Options(most_ms=60_000)) > 60 + 3 * 60
