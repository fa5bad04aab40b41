"""What is shipped: wheel and sdist are complete, and relpos works where it is installed, from a folder of somebody else."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from documents import HERE, kernel

PARTS = ("spec", "impls", "conformance", "perf", "reports")
PYPROJECT = tomllib.loads((HERE / "pyproject.toml").read_text(encoding="utf-8"))
PINS = dict(
    line.split("==") for line in (HERE / "constraints.txt").read_text(encoding="utf-8").splitlines() if line and line[0] != "#"
)


def requirements() -> list[Requirement]:
    """Every requirement of the package, its extras and its groups."""
    project = PYPROJECT["project"]
    lists = [project["dependencies"], *project["optional-dependencies"].values(), *PYPROJECT["dependency-groups"].values()]
    return [Requirement(text) for texts in lists for text in texts if isinstance(text, str)]


def modules() -> set[str]:
    """Paths that the modules of the clone have when installed."""
    parts = {f"relpos/{path.relative_to(HERE).as_posix()}" for part in PARTS for path in (HERE / part).rglob("*.py")}
    return parts | {path.relative_to(HERE).as_posix() for path in (HERE / "relpos").rglob("*.py")}


def run(python: Path | str, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run Python in a folder, without what this test run has in its environment."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST", "COV"))}
    return subprocess.run([str(python), *arguments], cwd=folder, env=environment, capture_output=True, text=True)


def succeeded(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, f"{done.args}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel built out of the sdist, of a copy of the clone."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    for part in (*PARTS, "relpos"):
        shutil.copytree(HERE / part, source / part, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(HERE / name, source)
    succeeded(run(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(source), folder=out))
    return out


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    return next(built.glob("*.whl"))


@pytest.fixture(scope="module")
def foreign(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Python of a fresh environment with the wheel; its dependencies are those of the environment of this test run."""
    folder = tmp_path_factory.mktemp("foreign") / "environment"
    succeeded(run(sys.executable, "-m", "venv", "--without-pip", str(folder), folder=folder.parent))
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    pip = ("-m", "pip", "--python", str(python), "install", "-q", "--no-deps", "--no-index", str(wheel))
    succeeded(run(sys.executable, *pip, folder=folder.parent))
    own = succeeded(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", folder=folder.parent)).strip()
    Path(own, "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return python


@pytest.fixture(params=["wheel", "this environment"])
def python(request: pytest.FixtureRequest) -> Path:
    """Where relpos is installed: as a wheel, and as in this environment (an editable install, when nox runs the tests)."""
    return request.getfixturevalue("foreign") if request.param == "wheel" else Path(sys.executable)


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """Somebody's own folder, with the kernel of the README in it."""
    (tmp_path / "my_kernels.py").write_text(kernel(), encoding="utf-8")
    return tmp_path


def test_wheel_has_every_module_and_nothing_else(wheel: Path) -> None:
    names = {name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".py")}
    assert names == modules(), "list the folder under [tool.setuptools] packages in pyproject.toml"


def test_wheel_is_typed_and_licensed(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "relpos/py.typed" in names
    assert [name for name in names if name.endswith("licenses/LICENSE")]


def test_wheel_has_the_template_of_reports(wheel: Path) -> None:
    assert "relpos/reports/templates/README.md.j2" in zipfile.ZipFile(wheel).namelist()


def test_wheel_plugs_into_nothing(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (entry_points,) = [name for name in archive.namelist() if name.endswith("entry_points.txt")]
    assert re.findall(r"^\[(.*)\]$", archive.read(entry_points).decode(), re.MULTILINE) == ["console_scripts"]


def test_wheel_needs_what_pyproject_says(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (name,) = [name for name in archive.namelist() if name.endswith("METADATA")]
    metadata = Parser().parsestr(archive.read(name).decode())
    assert metadata["Requires-Python"] == PYPROJECT["project"]["requires-python"]
    assert set(metadata.get_all("Provides-Extra", [])) == {"triton", "peers", "perf", "plots", "test"}


def test_sdist_builds_what_the_clone_builds(built: Path) -> None:
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "relpos/py.typed", "spec/alibi.py"} <= names


def test_parts_come_from_where_relpos_is_installed(foreign: Path, theirs: Path) -> None:
    code = "import relpos.spec.alibi as a, relpos.impls, relpos.conformance; print(a.__file__)"
    assert Path(succeeded(run(foreign, "-c", code, folder=theirs)).strip()).is_relative_to(foreign.parents[1])


def test_versions_agree(python: Path, theirs: Path) -> None:
    code = "import relpos, importlib.metadata as m; print(relpos.__version__, m.version('relpos'))"
    version = PYPROJECT["project"]["version"]
    assert succeeded(run(python, "-c", code, folder=theirs)).split() == [version, version]
    assert yaml.safe_load((HERE / "CITATION.cff").read_text(encoding="utf-8"))["version"] == version


def test_command_line_helps(python: Path, theirs: Path) -> None:
    assert "check" in succeeded(run(python, "-m", "relpos", "--help", folder=theirs))


@pytest.mark.parametrize("place", [pytest.param("my_kernels.py:alibi", marks=pytest.mark.exhaustive), "my_kernels:alibi"])
def test_command_line_judges_what_lies_there(python: Path, place: str, theirs: Path) -> None:
    asked = ("check", place, "--scheme", "alibi", "--set", "slope_rule=geometric", "--profile", "smoke")
    succeeded(run(python, "-m", "relpos", *asked, folder=theirs))


def test_suite_judges_what_lies_there(python: Path, theirs: Path) -> None:
    asked = ("--impl", "my_kernels:alibi", "--scheme", "alibi", "--set", "slope_rule=geometric", "--profile", "smoke")
    suite = ("-m", "pytest", "--pyargs", "relpos.suite", "-p", "relpos.conformance.plugin", *asked)
    assert " passed" in succeeded(run(python, *suite, folder=theirs))


def test_plain_pytest_loads_nothing_of_relpos(python: Path, tmp_path: Path) -> None:
    text = 'import sys\n\ndef test_nothing():\n    assert not [name for name in sys.modules if name.startswith("relpos")]\n'
    (tmp_path / "test_theirs.py").write_text(text, encoding="utf-8")
    assert "1 passed" in succeeded(run(python, "-m", "pytest", "-q", folder=tmp_path))


@pytest.mark.parametrize("requirement", requirements(), ids=str)
def test_a_pin_lies_in_the_range(requirement: Requirement) -> None:
    pin = {canonicalize_name(name): version for name, version in PINS.items()}.get(canonicalize_name(requirement.name))
    exact = [specifier for specifier in requirement.specifier if specifier.operator == "=="]
    assert exact or requirement.name == "triton" or pin, f"constraints.txt does not pin {requirement.name}"
    assert pin is None or requirement.specifier.contains(pin)


def test_torch_is_pinned_without_a_build() -> None:
    assert PINS["torch"] == "2.13.0"


def test_every_dependency_has_its_reason_beside_it() -> None:
    lines = (HERE / "pyproject.toml").read_text(encoding="utf-8").splitlines()
    for requirement in requirements():
        found = [text for text in lines if re.match(rf'\s*"{requirement.name}[\[=>]', text)]
        assert found and all("   # " in line for line in found), f"pyproject.toml does not say why {requirement.name} is needed"
