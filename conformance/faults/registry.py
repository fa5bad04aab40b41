"""All faults of a scheme: those of the file of its name, and the common ones that its form can show."""

from functools import cache
from importlib import import_module
from pathlib import Path

from relpos.conformance.faults.api import Fault, Planted
from relpos.conformance.faults.common import common
from relpos.spec.registry import settings_class


@cache
def faults(scheme: str) -> tuple[Fault | Planted, ...]:
    """Faults of a scheme, its own first."""
    own = import_module(f"relpos.conformance.faults.{scheme}").FAULTS if scheme in _files() else ()
    return (*own, *common(settings_class(scheme)))


@cache
def _files() -> frozenset[str]:
    return frozenset(p.stem for p in Path(__file__).parent.glob("*.py"))
