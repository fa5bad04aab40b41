"""How long a worker may say nothing before the law at hand fails."""

import os
import signal
import subprocess
import sys
import time

import pytest

from relpos.conformance import breath, expected, worker
from relpos.conformance.breath import breathe, breathing
from relpos.conformance.patience import Waiting
from relpos.conformance.plan import Plan, inputs

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux says whether a process is starved")


@pytest.fixture
def started():
    running: list[subprocess.Popen[str]] = []

    def start(code: str) -> subprocess.Popen[str]:
        running.append(subprocess.Popen([sys.executable, "-c", f"print('up', flush=True); {code}"], stdout=-1, text=True))
        assert running[-1].stdout.readline() == "up\n"
        return running[-1]

    yield start
    for one in running:
        one.kill()
        one.communicate()


def test_one_that_sleeps_has_had_its_time(started):
    waiting = Waiting(started("import time; time.sleep(60)").pid)
    assert not waiting.is_over(60)
    time.sleep(0.3)
    assert waiting.is_over(0.2)


def test_one_that_is_not_let_run_is_waited_for_but_not_for_ever(started):
    process = started("any(iter(int, 1))")
    process.send_signal(signal.SIGSTOP)
    time.sleep(0.1)
    waiting = Waiting(process.pid)
    time.sleep(0.3)
    assert not waiting.is_over(0.2)
    assert waiting.is_over(0.02)  # more than ten times as long


def test_what_was_heard_begins_anew(started):
    waiting = Waiting(started("import time; time.sleep(60)").pid)
    time.sleep(0.3)
    waiting.hear()
    assert not waiting.is_over(0.2)


def test_the_judge_gives_a_sign_of_life_now_and_then(monkeypatch):
    monkeypatch.setattr(breath, "_BREATH", breath._Breath())
    signs = []
    breathe()  # nobody listens
    breathing(lambda: signs.append(1))
    for _ in range(100):
        breathe()
    assert len(signs) == 1


def test_a_definition_at_work_is_heard_by_way_of_the_journal(monkeypatch, tmp_path):
    """Its loops may take minutes, for which no implementation is to blame."""
    monkeypatch.setattr(breath, "_BREATH", breath._Breath())
    journal = tmp_path / "journal"
    breathing(lambda: worker._touch(journal))
    breathe()  # nothing was noted yet
    journal.touch()
    os.utime(journal, (1, 1))
    monkeypatch.setattr(breath._BREATH, "last", 0.0)
    expected.expected(inputs(Plan(settings={"num_heads": 2}), "alibi"), "contribution")
    assert journal.stat().st_mtime > 1
