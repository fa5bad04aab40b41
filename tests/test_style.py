"""House rules that a machine can check, on every module of the repository."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parents[1]
PARTS = ("spec", "impls", "conformance", "perf", "reports")
SKIPPED = {"build", "dist", "__pycache__"}
TEXTS = {"", ".py", ".md", ".toml", ".txt", ".cff", ".json", ".jsonl", ".yml", ".yaml", ".cfg"}
LONGEST = 250
ROUND = 1e-2  # a float literal this small in the judge is a tolerance, whatever it is called


def files() -> list[Path]:
    """Files of the clone; hidden folders hold environments and caches, save the one of continuous integration."""
    found = []
    for path in HERE.rglob("*"):
        folders = path.relative_to(HERE).parts[:-1]
        hidden = any((f.startswith(".") and f != ".ci") or f in SKIPPED or f.endswith(".egg-info") for f in folders)
        if path.is_file() and not path.is_symlink() and not hidden and path.suffix in TEXTS and path.name != ".git":
            found.append(path.relative_to(HERE))
    return sorted(found)


FILES = files()
MODULES = [path for path in FILES if path.suffix == ".py"]


def within(*folders: str) -> list[Path]:
    """Modules of some of the folders."""
    return [path for path in MODULES if path.parts[0] in folders]


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse((HERE / path).read_text(encoding="utf-8"))


def imports(path: Path) -> list[tuple[str, str | None]]:
    """(module, name) of every import, wherever it stands; name is None for `import module`."""
    found: list[tuple[str, str | None]] = []
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            found += [(alias.name, None) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [("." * node.level + (node.module or ""), alias.name) for alias in node.names]
    return found


def whole(imported: tuple[str, str | None]) -> str:
    module, name = imported
    return module if name is None else f"{module}.{name}"


def under(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


def parametrize(paths: list[Path]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("path", paths, ids=[path.as_posix() for path in paths])


@parametrize(MODULES)
def test_module_is_short(path: Path) -> None:
    lines = len((HERE / path).read_text(encoding="utf-8").splitlines())
    assert lines <= LONGEST, f"{path} has {lines} lines, at most {LONGEST} fit in a head: split it by concept"


@parametrize(MODULES)
def test_module_says_what_it_is(path: Path) -> None:
    assert ast.get_docstring(tree(path)), f"{path} has no docstring"


@parametrize(within(*PARTS, "relpos"))
def test_only_the_console_prints(path: Path) -> None:
    if path == Path("conformance/console.py"):
        return
    prints = [n.lineno for n in ast.walk(tree(path)) if isinstance(n, ast.Call) and getattr(n.func, "id", "") == "print"]
    assert not prints, f"{path} prints in line {prints[0]}; conformance/console.py does that"


@parametrize(MODULES)
def test_imports_are_absolute(path: Path) -> None:
    relative = [whole(i) for i in imports(path) if i[0].startswith(".")]
    assert not relative, f"{path} imports {relative[0]}; write it from relpos on"


@parametrize(within(*PARTS))
def test_no_part_is_a_pytest_module(path: Path) -> None:
    assert not re.fullmatch(r"test_.*|.*_test|conftest", path.stem), f"{path} would be collected under a second name"


@parametrize(within("spec"))
def test_definitions_know_nothing_of_the_fast_side(path: Path) -> None:
    allowed = {"numpy", "math", "dataclasses", "typing", "functools", "collections", "importlib", "pathlib", "difflib"}
    foreign = [whole(i) for i in imports(path) if i[0].split(".")[0] not in allowed and not under(i[0], "relpos.spec")]
    assert not foreign, f"{path} imports {foreign[0]}; definitions are NumPy and the standard library"


@parametrize(within("impls"))
def test_implementations_take_no_definition(path: Path) -> None:
    for module, name in imports(path):
        if not under(module, "relpos.spec") or module in ("relpos.spec.positions", "relpos.spec.contract"):
            continue
        is_class = name is not None and name[:1].isupper()
        assert is_class, f"{path} takes {whole((module, name))} from spec/; only settings classes and positions may be"


@parametrize(within("impls"))
def test_implementations_do_not_know_their_judge(path: Path) -> None:
    judge = [whole(i) for i in imports(path) if under(whole(i), "relpos.conformance")]
    assert not judge, f"{path} imports {judge[0]}"


# What plugs in, calls, reads and compares; what is asked of the command line; certificates and peers. Never a law.
PLUGS = (
    "answers", "binding", "builtins", "calling", "certificate", "certifying", "console", "errors", "expected", "isolated",
    "judge", "loading", "memory", "peers", "plan", "precision", "reading", "settings", "sources", "subject", "verdict",
)  # fmt: skip


@parametrize(within("perf", "reports"))
def test_measurements_judge_nothing_themselves(path: Path) -> None:
    inside = [whole(i).removeprefix("relpos.conformance.") for i in imports(path) if under(i[0], "relpos.conformance")]
    internals = [name for name in inside if name.split(".")[0] not in PLUGS]
    assert not internals, (
        f"{path} imports {internals[0]}; perf plugs in and compares as the judge does; it and reports know no law"
    )


@parametrize(within("conformance"))
def test_tolerances_stand_in_one_table(path: Path) -> None:
    if path == Path("conformance/tolerance.py"):
        return
    constants = [n for n in ast.walk(tree(path)) if isinstance(n, ast.Constant) and isinstance(n.value, float)]
    small = [n for n in constants if 0 < abs(n.value) < ROUND]
    assert not small, f"{path}:{small[0].lineno} has the literal {small[0].value}; tolerances are derived in tolerance.py"


@parametrize(FILES)
def test_file_names_no_machine(path: Path) -> None:
    # Assembled, so that this file passes as well.
    folders = "|".join(["work", "tmp", "root", "home", "Users", "mnt", "opt"])
    text = (HERE / path).read_text(encoding="utf-8")
    found = re.search(rf"(?<![\w.~$}}/])/(?:{folders})/[\w.-]+", text)
    assert not found, f"{path} names a path of one machine: {found.group()}"
