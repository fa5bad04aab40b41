"""The sessions: `nox -l` reads as help, and the noxfile keeps its promises without running them."""

import ast
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

HERE = Path(__file__).resolve().parents[1]
SESSIONS = ("conformance", "tests", "lint", "types", "peers", "faults", "perf", "reports")
LONGEST = 10

pytest.importorskip("nox", reason="nox is not installed; the dependency group `tests` has it")


def listing(folder: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("NOX", "PYTEST"))}
    command = [sys.executable, "-m", "nox", "-f", str(HERE / "noxfile.py"), "-l", "--nocolor"]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True).stdout


def session_functions() -> list[ast.FunctionDef]:
    module = ast.parse((HERE / "noxfile.py").read_text(encoding="utf-8"))
    functions = [node for node in module.body if isinstance(node, ast.FunctionDef)]
    return [f for f in functions if any("nox.session" in ast.unparse(d) for d in f.decorator_list)]


def test_every_session_is_listed_with_help(tmp_path: Path) -> None:
    lines = listing(tmp_path).splitlines()
    for session in SESSIONS:
        (line,) = [text for text in lines if text[2:].startswith(f"{session} -> ")]
        assert len(line) > len(f"* {session} -> "), f"{session} says nothing about itself"


def test_conformance_comes_first_and_shows_how_to_judge_your_own(tmp_path: Path) -> None:
    first = next(text for text in listing(tmp_path).splitlines() if " -> " in text)
    assert first.startswith("* conformance -> ")
    assert "--impl" in first
    assert "--scheme" in first


@pytest.mark.parametrize("session", session_functions(), ids=lambda f: f.name)
def test_a_session_is_short_and_documented(session: ast.FunctionDef) -> None:
    assert ast.get_docstring(session)
    assert session.end_lineno is not None
    assert session.end_lineno - session.lineno < LONGEST


@pytest.fixture(scope="module")
def noxfile() -> ModuleType:
    """The noxfile as a module, loaded once: nox registers its sessions by name."""
    spec = importlib.util.spec_from_file_location("noxfile", HERE / "noxfile.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_with_is_taken_out_of_what_the_judge_is_given(noxfile: ModuleType) -> None:
    posargs = ["--impl", "a:b", "--with", "c==1", "--with=d @ here", "--scheme", "alibi"]
    assert noxfile.split_with(posargs) == (["--impl", "a:b", "--scheme", "alibi"], ["c==1", "d @ here"])


def test_with_paths_are_relative_to_where_the_user_stands(noxfile: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "my_pkg").mkdir()
    there = (tmp_path / "my_pkg").as_uri()
    assert noxfile.requirement("my_pkg @ my_pkg", tmp_path) == f"my_pkg @ {there}"
    assert noxfile.requirement("my_pkg[fast] @ ./my_pkg", tmp_path) == f"my_pkg[fast] @ {there}"
    assert noxfile.requirement("./my_pkg", tmp_path) == str(tmp_path / "my_pkg")
    assert noxfile.requirement("my_pkg", tmp_path) == "my_pkg"
    assert noxfile.requirement("my_pkg==1.2", tmp_path) == "my_pkg==1.2"
    assert noxfile.requirement(f"my_pkg @ {there}", tmp_path) == f"my_pkg @ {there}"


def test_the_environment_is_renewed_when_a_module_is_added(
    noxfile: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("pyproject.toml", "constraints.txt"):
        (tmp_path / name).write_text("", encoding="utf-8")
    monkeypatch.setattr(noxfile, "HERE", tmp_path)
    before = noxfile.fingerprint()
    (tmp_path / "spec").mkdir()
    (tmp_path / "spec" / "windowed.py").write_text("", encoding="utf-8")
    assert noxfile.fingerprint() != before
