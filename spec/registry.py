"""Schemes are found by listing this folder: a file is a scheme if it defines a settings class with a `form`."""

from dataclasses import is_dataclass
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any


class UnknownScheme(ValueError):
    """No file of this name defines a scheme."""


@cache
def schemes() -> tuple[str, ...]:
    """Names of all schemes, sorted."""
    stems = sorted(p.stem for p in Path(__file__).parent.glob("*.py") if p.stem != "__init__")
    return tuple(stem for stem in stems if _settings_of(stem) is not None)


def settings_class(scheme: str) -> type[Any]:
    """The settings class of a scheme; UnknownScheme with the nearest names otherwise."""
    if scheme not in schemes():
        near = get_close_matches(scheme, schemes(), n=3, cutoff=0.5)
        hint = f"Did you mean {' or '.join(near)}? " if near else ""
        raise UnknownScheme(f"no scheme is called {scheme!r}. {hint}There are: {', '.join(schemes())}.")
    found = _settings_of(scheme)
    assert found is not None  # it is one of schemes()
    return found


def _settings_of(stem: str) -> type[Any] | None:
    module = import_module(f"relpos.spec.{stem}")
    for value in vars(module).values():
        if is_dataclass(value) and isinstance(value, type) and value.__module__ == module.__name__ and hasattr(value, "form"):
            return value
    return None
