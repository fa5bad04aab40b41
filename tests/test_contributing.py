"""CONTRIBUTING.md, "Add a scheme in three files", followed step by step in a copy of the package."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from documents import HERE, commands, files_by_heading, sections

PARTS = ("relpos", "spec", "impls", "conformance", "perf", "reports")
STEPS = commands(sections("CONTRIBUTING.md")["4. Judge it"])


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package with the three files of the document in it."""
    clone = tmp_path_factory.mktemp("clone")
    for part in PARTS:
        shutil.copytree(HERE / part, clone / part, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(HERE / "pyproject.toml", clone)
    for path, content in files_by_heading("CONTRIBUTING.md").items():
        (clone / path).write_text(content, encoding="utf-8")
    return clone


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHONPATH", "PYTEST"))}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def test_it_is_three_files_under_one_name() -> None:
    assert list(files_by_heading("CONTRIBUTING.md")) == [
        "spec/windowed.py",
        "impls/windowed.py",
        "conformance/faults/windowed.py",
    ]


def test_the_copy_is_what_is_run(copy: Path) -> None:
    code = "import relpos.spec.windowed as w; raise SystemExit(w.__file__)"
    assert Path(run([sys.executable, "-c", code], copy).stderr.strip()) == copy / "spec" / "windowed.py"


@pytest.mark.parametrize("step", STEPS, ids=lambda words: " ".join(words[1:4]))
def test_step_of_the_document_succeeds(step: list[str], copy: Path) -> None:
    done = run(step, copy)
    assert done.returncode == 0, f"{' '.join(step)}\n{done.stdout}\n{done.stderr}"


def test_the_judge_names_the_new_scheme(copy: Path) -> None:
    (judge,) = [step for step in STEPS if "builtins" in step]
    assert "windowed" in run(judge, copy).stdout
