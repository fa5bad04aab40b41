"""In the user's own repository: laws as their tests, the suite on the command line, entry points, and nothing unasked."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from relpos.conformance.errors import UsageError
from relpos.conformance.laws import laws
from relpos.conformance.loading import load
from relpos.conformance.profiles import profile

FILE = "user_kernels.py"
THREE_LINES = """
import user_kernels
from relpos import conforms
test_press = conforms(user_kernels.press, scheme="alibi", profile="smoke")

test_rewarded = conforms(user_kernels.rewarded, scheme="alibi", profile="smoke")
test_broken = conforms(lambda nobody_knows: 0, scheme="alibi", profile="smoke")
"""
WITNESS = (
    """{"settings":{"num_heads":%d},"heads":%d,"query_length":2,"key_length":2,"query_positions":[0,1],"key_positions":[0,1]}"""
)
ACCEPTED = f"""
import user_kernels
from relpos import Deviation, conforms

said = dict(name="their slopes", law="L10", also=("L1",), reason="Old checkpoints.", bound="Odd numbers of heads.", units=2e7)
geometric = dict(target=user_kernels.geometric, scheme="alibi", profile="smoke")
test_as_declared = conforms(**geometric, deviations=[Deviation(**said, witness='{WITNESS % (3, 3)}')])
test_stale = conforms(**geometric, deviations=[Deviation(**said, witness='{WITNESS % (4, 4)}')])
test_exceeded = conforms(**geometric, deviations=[Deviation(**{{**said, "units": 9.0}}, witness='{WITNESS % (3, 3)}')])
test_no_input = conforms(**geometric, deviations=[Deviation(**said, witness='{{"settings":{{"num_heads":4}},"heads":4}}')])
"""
POINT = "[relpos.implementations]\nuser-press = user_kernels:press\n"


@pytest.fixture
def repository(tmp_path):
    """A fresh repository: its own conftest, its own pytest.ini, one module."""
    shutil.copy(Path(__file__).with_name(FILE), tmp_path)
    (tmp_path / "conftest.py").write_text(
        "def pytest_report_header(config):\n    return 'their own conftest'\n", encoding="utf-8"
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p no:cacheprovider\nfilterwarnings = error\n", encoding="utf-8")
    return tmp_path


def run(folder: Path, *words: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:xdist", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=200)
    return done.returncode, done.stdout + done.stderr


def test_three_lines_in_their_own_test_file_are_one_test_per_law(repository):
    (repository / "test_theirs.py").write_text(THREE_LINES, encoding="utf-8")
    code, out = run(repository, "-rs", "-k", "L1- or L7-")
    assert code == 1 and "their own conftest" in out
    assert "test_theirs.py::test_press[alibi-L1-definition] PASSED" in out  # no other file beside it
    assert "test_rewarded[alibi-L1-definition] FAILED" in out and "test_broken[alibi-L1-definition] FAILED" in out
    assert "test_press[alibi-L7-masks] SKIPPED" in out and "L7: not applicable: judged at attention level" in out
    assert "\nL1 · equals the definition: the bias differs from the definition\n\nEvery element equals" in out
    assert "Looks like: alibi with distance rewarded." in out
    assert "\nadapter broken: test_theirs:<lambda> asks for `nobody_knows`, which nobody can provide." in out
    assert "\nadapter broken: nothing was judged, as alibi-L1-definition says\n" in out
    assert "Traceback" not in out and "def test(" not in out and "traceback entries" not in out
    assert "user_kernels:rewarded --scheme alibi --law L1 --case" in out
    assert not list(repository.glob(".hypothesis"))


def test_ids_name_laws_and_what_failed_is_run_again_on_two_workers(repository):
    (repository / "pytest.ini").unlink()
    (repository / "test_theirs.py").write_text(THREE_LINES, encoding="utf-8")
    words = ("-n", "2", "-k", "not broken and (chunked-decode or L11-)")
    command = [sys.executable, "-m", "pytest", "-q", *words]
    first, again = (
        subprocess.run([*command, *more], cwd=repository, capture_output=True, text=True, timeout=200)
        for more in ((), ("--lf",))
    )
    assert first.returncode == 1 and "1 failed, 3 passed" in first.stdout, first.stdout
    assert again.returncode == 1 and "1 failed in" in again.stdout and "test_rewarded[alibi-L11-direction]" in again.stdout


def test_accepted_deviations_are_expected_failures_and_stale_ones_fail(repository):
    (repository / "test_theirs.py").write_text(ACCEPTED, encoding="utf-8")
    code, out = run(repository, "-rx", "-k", "L10-")
    assert code == 1 and "3 failed, 1 xfailed" in re.sub(r", \d+ deselected|\d+ deselected, ", "", out)
    assert "test_as_declared[alibi-L10-slopes] - accepted deviation: their slopes (Old checkpoints)" in out
    assert "L10 · slopes for 1…128 heads: the deviation 'their slopes' is stale: L10 holds on its witness; remove it\n" in out
    assert "The deviation 'their slopes' is stale: L10 holds on its witness; remove it.\nWitness: num_heads = 4, " in out
    assert "the deviation 'their slopes' exceeds its bound of 9 units on its witness (6.86e+06)\n" in out
    assert "wrong usage: deviation 'their slopes': its witness is no input of L10 (" in out
    assert "Take the JSON that a failure of L10 printed behind --case." in out


@pytest.mark.parametrize(("name", "code", "word"), [("press", 0, "PASSED"), ("rewarded", 1, "FAILED")])
def test_the_suite_runs_on_what_is_named(repository, name, code, word):
    words = ("--pyargs", "relpos.suite", "-p", "relpos.conformance.plugin", "--impl", f"{FILE}:{name}", "--scheme", "alibi")
    got, out = run(repository, *words, "--profile", "smoke", "--law", "L1", "--law", "L10")
    assert got == code and f"test_law[alibi-L1-definition] {word}" in out and f"test_law[alibi-L10-slopes] {word}" in out
    assert not list(repository.glob(".hypothesis"))


SUITE = ("--pyargs", "relpos.suite", "-p", "relpos.conformance.plugin")
COMPLAINTS = [
    ((), "relpos.suite needs --impl package.module:name (and --scheme, unless the implementation says it)"),
    (("--impl", f"{FILE}:press", "--scheme", "alibbi"), "no scheme is called 'alibbi'. Did you mean alibi?"),
    (("--impl", f"{FILE}:press"), f"{FILE}:press does not say which scheme it implements"),
]


@pytest.mark.parametrize(("words", "says"), COMPLAINTS, ids=[says[:50] for _, says in COMPLAINTS])
def test_the_suite_answers_what_makes_no_sense_in_words(repository, words, says):
    code, out = run(repository, *SUITE, *words)
    assert code != 0 and says in " ".join(out.split()) and "Traceback" not in out


def test_nothing_of_relpos_is_loaded_unasked(repository):
    probe = "import sys\n\ndef test_it():\n    assert not {'relpos', 'torch', 'hypothesis'} & set(sys.modules)\n"
    (repository / "test_theirs.py").write_text(probe, encoding="utf-8")
    code, out = run(repository, "-p", "no:hypothesispytest")
    assert code == 0, out
    code, out = run(repository, "--impl", "x:y")
    assert code == 4 and "unrecognized arguments: --impl" in out


# ---- entry points


def installed(folder: Path) -> None:
    info = folder / "user_kernels-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: user-kernels\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(POINT, encoding="utf-8")


def test_an_installed_package_is_found_by_its_entry_point(repository, monkeypatch):
    installed(repository)
    monkeypatch.syspath_prepend(repository)
    assert load("user-press").__name__ == "press"
    with pytest.raises(UsageError) as caught:
        load("user-pres")
    assert str(caught.value).endswith("got 'user-pres'. Installed packages offer: user-press.")


def test_every_law_is_one_test_in_the_file_that_asks_for_it():
    import relpos

    it = relpos.conforms(lambda num_heads, query_positions, key_positions: None, scheme="alibi")
    (mark,) = it.pytestmark
    assert mark.kwargs["ids"] == [f"alibi-{one.name}-{one.slug}" for one in profile("quick").laws()]
    assert "alibi-L3-chunked-decode" in mark.kwargs["ids"]
    assert (it.__code__.co_filename, it.__module__) == (__file__, __name__)


def test_ids_are_of_one_to_three_words_and_unique():
    slugs = [one.slug for one in laws()]
    assert len(set(slugs)) == len(slugs) and all(re.fullmatch(r"[a-z]+(-[a-z]+){0,2}", slug) for slug in slugs)


def test_check_gives_the_verdict_as_a_value():
    import relpos
    import user_kernels

    verdict = relpos.check(user_kernels.rewarded, scheme="alibi", profile="smoke")
    assert (verdict.word, verdict.exit_code) == ("does not conform", 1)
    assert "L11" in [r.law.name for r in verdict.failures]
