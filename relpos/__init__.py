"""relpos: the executable specification of position encodings for attention."""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

# Started in a clone's own folder, Python finds this folder before the installed package: the parts lie beside it.
if (_clone := Path(__file__).resolve().parents[1]).joinpath("pyproject.toml").exists():
    __path__.append(str(_clone))

__version__ = "0.1.0"

if TYPE_CHECKING:
    from relpos.conformance.deviations import Deviation as Deviation
    from relpos.conformance.testing import check as check
    from relpos.conformance.testing import conforms as conforms
    from relpos.impls.card import Card as Card
    from relpos.impls.card import implements as implements
    from relpos.spec.attention import attention as attention
    from relpos.spec.positions import Explicit as Explicit
    from relpos.spec.positions import Grid as Grid
    from relpos.spec.positions import Range as Range
    from relpos.spec.registry import schemes as schemes
    from relpos.spec.registry import settings_class as settings_class

# Loaded on first use: to define a scheme or mark an implementation needs neither torch nor Hypothesis.
_HOME = {
    "Card": "relpos.impls.card",
    "Deviation": "relpos.conformance.deviations",
    "Explicit": "relpos.spec.positions",
    "Grid": "relpos.spec.positions",
    "Range": "relpos.spec.positions",
    "attention": "relpos.spec.attention",
    "check": "relpos.conformance.testing",
    "conforms": "relpos.conformance.testing",
    "implements": "relpos.impls.card",
    "schemes": "relpos.spec.registry",
    "settings_class": "relpos.spec.registry",
}

__all__ = sorted(_HOME)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'relpos' has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(_HOME[name]), name)
