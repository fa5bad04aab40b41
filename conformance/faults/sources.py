"""What a row depends on: a fingerprint of source files and of all files of relpos that they import, directly or not."""

import hashlib
import re
from collections.abc import Iterable
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

IMPORT = re.compile(r"^\s*from (relpos[\w.]*) import (\([^)]*\)|[^\n]*)", re.MULTILINE)
ALWAYS = ("relpos.conformance.faults.killing", "relpos.conformance.faults.common")
DRAWS = version("hypothesis")  # another release draws other inputs from the same seed


def fingerprint(modules: Iterable[str], *more: str) -> str:
    """Of modules by name, those that do not exist left out, of what they import and of what else is said."""
    names = sorted(set().union(*(reached(name) for name in (*ALWAYS, *modules))))
    digest = hashlib.sha256("\n".join([DRAWS, *more]).encode())
    for name in names:
        digest.update(_text(name).encode())
    return digest.hexdigest()[:16]


@cache
def reached(module: str) -> frozenset[str]:
    """A module and all modules of relpos that it imports, directly or not."""
    found = [module] if _file(module) else []
    for name in found:
        for package, names in IMPORT.findall(_text(name)):
            inside = [f"{package}.{part}" for part in re.findall(r"\w+", names)]
            found += [one for one in (package, *inside) if one not in found and _file(one)]
    return frozenset(found)


@cache
def _file(module: str) -> Path | None:
    parent = module.rpartition(".")[0]
    if parent and not (_file(parent) or parent == "relpos"):
        return None
    try:
        spec = find_spec(module)
    except ModuleNotFoundError:  # the parent is a module, not a package
        return None
    return Path(spec.origin) if spec is not None and spec.origin else None


@cache
def _text(module: str) -> str:
    file = _file(module)
    assert file is not None
    return file.read_text(encoding="utf-8")
