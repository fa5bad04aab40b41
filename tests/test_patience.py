"""How long a worker may say nothing before the law at hand fails."""

import signal
import subprocess
import sys
import time

import pytest

from relpos.conformance.patience import Waiting

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
