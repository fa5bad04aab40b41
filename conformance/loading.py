"""Finds what `--impl` names: `package.module:name`, or `path/to/file.py:name` from where the user stands."""

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from difflib import get_close_matches
from functools import lru_cache
from importlib.metadata import entry_points
from io import StringIO
from pathlib import Path
from traceback import extract_tb
from types import CodeType, ModuleType
from typing import Any
from warnings import catch_warnings, simplefilter

from relpos.conformance.errors import AdapterError, UsageError

ENTRY_POINTS = "relpos.implementations"
COMPILES = (b"torch.compile", b"import compile", b"torch._dynamo")
FORM = "write module:name or path/to/file.py:name"


def load(spec: str) -> Any:
    """The object that `spec` names; UsageError or AdapterError with the reason and what to do."""
    if ":" not in spec:
        return _entry_point(spec)
    place, name = spec.rsplit(":", 1)
    if not place or not name:
        raise UsageError(f"--impl: {FORM}, got {spec!r}; {'the file or module' if not place else 'the name'} is missing.")
    module = _from_file(place) if place.endswith(".py") else _from_package(place)
    return _attribute(module, name, spec)


def reload(spec: str, target: Any) -> Any:
    """A copy of a function whose module has just been run afresh, caches empty; None where that cannot be done."""
    file = getattr(sys.modules.get(getattr(target, "__module__", "")), "__file__", None)
    if file is None:
        return None
    name = spec.rsplit(":", 1)[1] if ":" in spec else getattr(target, "__qualname__", "")
    try:
        with _silence():  # what it prints was seen when it was loaded
            fresh = _execute(Path(file), target.__module__, register=False)
        return _attribute(fresh, name, spec)
    except (Exception, SystemExit):  # noqa: BLE001 - a module that cannot run twice is no fault of the function
        return None


def compiles(target: Any) -> bool:
    """Whether the file that a target is from compiles with torch.compile, whose results live as long as its code does.

    Two copies of such a module share them, and the second finds the first one's globals missing.
    """
    file = getattr(sys.modules.get(getattr(target, "__module__", "")), "__file__", None)
    return file is not None and Path(file).is_file() and any(word in Path(file).read_bytes() for word in COMPILES)


@contextmanager
def _silence() -> Iterator[None]:
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()), catch_warnings():
        simplefilter("ignore")
        yield


def _from_file(place: str) -> ModuleType:
    path = Path(place).resolve()
    if not path.is_file():
        raise UsageError(f"--impl: there is no file {place} (looked in {Path.cwd()}). Give the path from where you stand.")
    name = path.stem
    folder = str(path.parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        return _execute(path, name, register=True)
    except (Exception, SystemExit) as error:
        raise _not_imported(place, error) from error


def _execute(path: Path, name: str, *, register: bool) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    before = sys.modules.get(name)
    sys.modules[name] = module
    try:
        exec(_code(path, path.stat().st_mtime_ns), vars(module))
    except BaseException:
        register = False
        raise
    finally:
        if not register:
            _restore(name, before)
    return module


@lru_cache(maxsize=16)
def _code(path: Path, written_ns: int) -> CodeType:
    """Compiled once: a function is loaded afresh for every call that it is compared with."""
    del written_ns
    return compile(path.read_bytes(), str(path), "exec", dont_inherit=True)


def _not_imported(place: str, error: BaseException) -> AdapterError:
    """With the line of the user's own file at which it stopped, where there is one."""
    own = [frame for frame in extract_tb(error.__traceback__) if "relpos/conformance" not in Path(frame.filename).as_posix()]
    at = [frame for frame in own if Path(frame.filename).is_file() and "importlib" not in frame.filename]
    where = f" (line {at[-1].lineno} of {Path(at[-1].filename).name})" if at else ""
    if isinstance(error, SystemExit):
        return AdapterError(
            f"{place} ends the process while it is imported{where}; put what it runs under __name__ == '__main__'."
        )
    return AdapterError(f"{place} could not be imported: {type(error).__name__}: {str(error).rstrip('.')}{where}.")


def _restore(name: str, before: ModuleType | None) -> None:
    if before is None:
        sys.modules.pop(name, None)
    else:
        sys.modules[name] = before


def _from_package(place: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        if error.name is not None and (place == error.name or place.startswith(error.name + ".")):
            raise UsageError(
                f"--impl: no module called {place!r} can be imported here. Install it (--with 'your-package'), "
                f"give a file (path/to/file.py:name), or run python -m relpos check in your own environment."
            ) from None
        raise _not_imported(place, error) from error
    except (Exception, SystemExit) as error:
        raise _not_imported(place, error) from error


def _attribute(module: ModuleType, name: str, spec: str) -> Any:
    target: Any = module
    for part in name.split("."):
        if not hasattr(target, part):
            public = [n for n in vars(module) if not n.startswith("_") and callable(getattr(module, n))]
            near = get_close_matches(part, public, n=3)
            hint = f"Did you mean {' or '.join(near)}?" if near else f"It has: {', '.join(public[:12]) or 'nothing callable'}."
            raise UsageError(f"--impl {spec}: {module.__name__} has no `{part}`. {hint}")
        target = getattr(target, part)
    return target


def _entry_point(name: str) -> Callable[..., Any]:
    found = {point.name: point for point in entry_points(group=ENTRY_POINTS)}
    if name in found:
        return found[name].load()
    there = f" Installed packages offer: {', '.join(sorted(found))}." if found else ""
    if Path(name).is_file():
        there = f" Say which part of that file: {name}:name_of_a_function_or_class."
    raise UsageError(f"--impl: {FORM}, got {name!r}.{there}")
