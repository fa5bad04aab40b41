"""In the user's own repository: laws as their tests, the suite on the command line, entry points, and nothing unasked."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from relpos.conformance.errors import UsageError
from relpos.conformance.loading import load
from relpos.conformance.profiles import profile

FILE = "user_kernels.py"
THREE_LINES = """
import relpos, user_kernels

@relpos.laws(user_kernels.press, scheme="alibi", profile="smoke")
def test_press(law): law()

@relpos.laws(user_kernels.rewarded, scheme="alibi", profile="smoke")
def test_rewarded(law): law()

@relpos.laws(lambda nobody_knows: 0, scheme="alibi", profile="smoke")
def test_broken(law): law()
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
    code, out = run(repository, "-rs", "-k", "L1] or L7]")
    assert code == 1 and "their own conftest" in out
    assert "test_press[L1] PASSED" in out and "test_rewarded[L1] FAILED" in out and "test_broken[L1] FAILED" in out
    assert "test_press[L7] SKIPPED" in out and "L7: not applicable: judged at attention level" in out
    assert "Looks like: alibi with distance rewarded." in out
    assert "asks for `nobody_knows`, which nobody can provide." in out
    assert "user_kernels:rewarded --scheme alibi --law L1 --case" in out
    assert not list(repository.glob(".hypothesis"))


@pytest.mark.parametrize(("name", "code", "word"), [("press", 0, "PASSED"), ("rewarded", 1, "FAILED")])
def test_the_suite_runs_on_what_is_named(repository, name, code, word):
    words = ("--pyargs", "relpos.suite", "-p", "relpos.conformance.plugin", "--impl", f"{FILE}:{name}", "--scheme", "alibi")
    got, out = run(repository, *words, "--profile", "smoke", "--law", "L1", "--law", "L10")
    assert got == code and f"test_law[L1] {word}" in out and f"test_law[L10] {word}" in out
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


def test_every_law_is_one_test_of_the_decorated_function():
    import relpos

    @relpos.laws(lambda num_heads, query_positions, key_positions: None, scheme="alibi")
    def it(law): ...

    (mark,) = it.pytestmark
    assert mark.kwargs["ids"] == [one.name for one in profile("quick").laws()]


def test_check_gives_the_verdict_as_a_value():
    import relpos
    import user_kernels

    verdict = relpos.check(user_kernels.rewarded, scheme="alibi", profile="smoke")
    assert (verdict.word, verdict.exit_code) == ("does not conform", 1)
    assert "L11" in [r.law.name for r in verdict.failures]
