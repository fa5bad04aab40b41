"""Sessions: one command each. All share one environment, `.nox/environment`; what follows `--` goes to the tool."""

import hashlib
import os
import shlex
from pathlib import Path

import nox

HERE = Path(__file__).parent
HOME = HERE / os.environ.get("NOX_ENVDIR", ".nox")
SCRIPTS = "Scripts" if os.name == "nt" else "bin"
PYTHON = HOME / "environment" / SCRIPTS / "python"
STRICT = ("--config-settings", "editable_mode=strict")  # type checkers see the mapped folders only in this mode

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "virtualenv"
nox.options.sessions = ["lint", "types", "conformance", "tests"]


@nox.session(requires=["environment"], venv_backend="none")
def conformance(session: nox.Session) -> None:
    """Judge every built-in, or yours: nox -s conformance -- --impl my_pkg.alibi:bias --scheme alibi [--with my-pkg==1.2]"""
    asked, packages = split_with(session.posargs)
    python = beside(session, packages) if packages else PYTHON
    session.chdir(session.invoked_from)  # paths are relative to where the user stands
    session.run(python, "-m", "relpos", *(["check", *asked] if asked else ["builtins"]), external=True)


@nox.session(requires=["environment"], venv_backend="none")
def tests(session: nox.Session) -> None:
    """Test relpos itself, on all cores: nox -s tests -- -k alibi"""
    session.run(PYTHON, "-m", "pytest", *(session.posargs or ["-n", "auto", "--dist", "worksteal"]), external=True)


@nox.session(requires=["environment"], venv_backend="none")
def lint(session: nox.Session) -> None:
    """Look for unused names, imports out of order and known bugs (ruff): nox -s lint -- --fix"""
    session.run(PYTHON, "-m", "ruff", "check", *session.posargs, external=True)


@nox.session(requires=["environment"], venv_backend="none")
def types(session: nox.Session) -> None:
    """Check the annotations (pyright), on the folders as installed."""
    session.run(PYTHON, "-m", "pyright", "--pythonpath", str(PYTHON), *session.posargs, external=True)


@nox.session(requires=["environment"], venv_backend="none")
def peers(session: nox.Session) -> None:
    """Judge implementations from PyPI that nobody here wrote, and write reports/peers.md (installs the extra `peers`)."""
    session.run(PYTHON, "-m", "pip", "install", "-q", "-c", "constraints.txt", "-e", ".[peers]", *STRICT, external=True)
    session.run(PYTHON, "-m", "relpos", "peers", *(session.posargs or ["--report", "reports/peers.md"]), external=True)
    session.run(PYTHON, "-m", "pytest", "tests/test_peers.py", "tests/test_spec_table.py", external=True)


@nox.session(requires=["environment"], venv_backend="none")
def perf(session: nox.Session) -> None:
    """Measure memory and latency over L beside attention without positions: nox -s perf -- --scheme alibi [--peers | --bars]"""
    if {"--peers", "--bars"} & set(session.posargs):
        session.run(PYTHON, "-m", "pip", "install", "-q", "-c", "constraints.txt", "-e", ".[peers]", *STRICT, external=True)
    session.chdir(session.invoked_from)
    session.run(PYTHON, "-m", "relpos", "perf", *session.posargs, external=True)


@nox.session(requires=["environment"], venv_backend="none")
def reports(session: nox.Session) -> None:
    """Make reports/README.md and its figures from the committed rows, or from yours: nox -s reports -- --data full.jsonl"""
    session.chdir(session.invoked_from)
    session.run(PYTHON, "-m", "relpos", "reports", *session.posargs, external=True)


@nox.session(requires=["environment"], venv_backend="none")
def faults(session: nox.Session) -> None:
    """Plant every known fault and see that its law catches it: the kill table, an hour or less; nox -s faults -- --scheme t5"""
    made = ["--report", "reports/kill_table.md", "--kills", "reports/data/kills.csv", "--worth", "conformance/worth.json"]
    usual = ["--sizes", "--out", "kill_rows.jsonl", *made]
    session.run(PYTHON, "-m", "relpos", "faults", *(session.posargs or usual), external=True)


@nox.session(requires=["environment"], venv_backend="none")
def vectors(session: nox.Session) -> None:
    """Write vectors of every scheme and check them in JavaScript (needs Node 18): nox -s vectors -- --out DIR"""
    folder = session.create_tmp()
    session.run(PYTHON, "-m", "relpos", "vectors", *(session.posargs or ["--out", folder]), external=True)
    if not session.posargs:
        session.run("node", f"{folder}/check.mjs", folder, external=True)


@nox.session(reuse_venv=True)
def environment(session: nox.Session) -> None:
    """Make the environment that the other sessions share, or renew it when pyproject.toml, pins or files changed."""
    stamp, wanted = PYTHON.parents[1] / "installed", fingerprint()
    if not any(HERE.glob("build/__editable__.*")) or not stamp.exists() or stamp.read_text() != wanted:
        session.install("-c", "constraints.txt", "-e", ".[test,plots,perf,triton]", "--group", "dev", *STRICT)
        stamp.write_text(wanted)


def fingerprint() -> str:
    """Changes with the requirements and with the list of modules: a strict editable install links file by file."""
    folders = ("spec", "impls", "conformance", "perf", "reports", "relpos")
    modules = sorted(str(path.relative_to(HERE)) for folder in folders for path in (HERE / folder).rglob("*.py"))
    texts = [(HERE / name).read_text(encoding="utf-8") for name in ("pyproject.toml", "constraints.txt")]
    return hashlib.sha256("\n".join([*texts, *modules]).encode()).hexdigest()


def split_with(posargs: list[str]) -> tuple[list[str], list[str]]:
    """Arguments for the judge, and what `--with` names, once or several times."""
    asked, packages, rest = [], [], iter(posargs)
    for argument in rest:
        if argument == "--with":
            packages.append(next(rest, ""))
        elif argument.startswith("--with="):
            packages.append(argument.removeprefix("--with="))
        else:
            asked.append(argument)
    return asked, packages


def beside(session: nox.Session, packages: list[str]) -> Path:
    """Python of a separate environment that has `packages`, and sees the shared one behind them."""
    wanted = [requirement(package, Path(session.invoked_from)) for package in packages]
    folder = HOME / ("with-" + hashlib.sha256("\n".join(wanted).encode()).hexdigest()[:12])
    python = folder / SCRIPTS / "python"
    session.run(PYTHON, "-m", "virtualenv", "-q", folder, external=True)
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    shared, own = (session.run(p, "-c", code, external=True, silent=True, log=False).strip() for p in (PYTHON, python))
    Path(own, "shared.pth").write_text(f"import site; site.addsitedir({shared!r})\n", encoding="utf-8")
    session.log("installing %s into %s, not into the shared environment", shlex.join(packages), folder)
    session.run(python, "-m", "pip", "install", "-q", *wanted, external=True)
    return python


def requirement(package: str, stands: Path) -> str:
    """`name @ path` and plain paths, relative to where the user stands, as pip understands them from anywhere."""
    name, at, place = package.rpartition("@")
    path = (stands / place.strip()).resolve()
    if not path.exists() or "://" in place or (not at and os.sep not in place):
        return package
    return f"{name.strip()} @ {path.as_uri()}" if at else str(path)
