"""Laws, one per file, found by listing this folder: `laws()`."""

from functools import cache
from importlib import import_module
from pathlib import Path

from relpos.conformance.errors import UsageError
from relpos.conformance.laws.base import Law


@cache
def laws() -> tuple[Law, ...]:
    """All laws in the order of their numbers."""
    names = sorted(p.stem for p in Path(__file__).parent.glob("l[0-9]*.py"))
    return tuple(import_module(f"relpos.conformance.laws.{name}").LAW for name in names)


def law(name: str) -> Law:
    """A law by name; UsageError with the names there are."""
    for one in laws():
        if one.name.lower() == name.lower():
            return one
    raise UsageError(f"--law must be one of {', '.join(f'{one.name} ({one.title})' for one in laws())}; got {name!r}.")
