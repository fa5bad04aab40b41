"""README.md, followed word by word: what it shows runs, and what it points to is there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from documents import HERE, blocks, commands

_BIAS, _AROUND, KERNEL, LIBRARY, DEVIATION, DEFINITION, _TRAINING, CLAIMS = blocks("README.md", "python")  # _: tested elsewhere
FOUND = [path for pattern in ("*.md", "*/*.md", "*/*/*.md") for path in HERE.glob(pattern)]
DOCUMENTS = sorted(path.relative_to(HERE).as_posix() for path in FOUND if not path.relative_to(HERE).parts[0].startswith("."))


def run(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST"))}
    return subprocess.run([sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True)


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """Somebody's own folder, with the kernel of the README in it."""
    (tmp_path / "my_kernels.py").write_text(KERNEL, encoding="utf-8")
    return tmp_path


def test_the_two_commands_differ_in_the_session_only() -> None:
    text = (HERE / "README.md").read_text(encoding="utf-8")
    first, second = commands(text)[:2]
    assert (first[-1], second[-1]) == ("conformance", "tests")
    assert first[:-1] == second[:-1]
    assert first[0] == "python3"


@pytest.mark.parametrize("code", [KERNEL, DEVIATION, DEFINITION, CLAIMS], ids=["kernel", "deviation", "definition", "claims"])
def test_example_runs(code: str) -> None:
    exec(compile(code, "README.md", "exec"), {})


def test_kernel_is_accused_until_the_variant_is_said(theirs: Path) -> None:
    asked = ("-m", "relpos", "check", "my_kernels.py:alibi", "--scheme", "alibi", "--profile", "smoke")
    plain = run(*asked, folder=theirs)
    assert plain.returncode in (1, 3), plain.stdout + plain.stderr
    assert "slope_rule=geometric" in plain.stdout
    said = run(*asked, "--set", "slope_rule=geometric", folder=theirs)
    assert said.returncode == 0, said.stdout + said.stderr


def test_three_lines_are_one_test_per_law(theirs: Path) -> None:
    (theirs / "test_mine.py").write_text(LIBRARY, encoding="utf-8")
    done = run("-m", "pytest", "-q", folder=theirs)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(re.findall(r"(\d+) passed", done.stdout)[0]) > 1


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document: str) -> None:
    text = (HERE / document).read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in link]
    missing = [link for link in links if not (HERE / document).parent.joinpath(link).exists()]
    assert not missing, f"{document} points to {missing[0]}"
