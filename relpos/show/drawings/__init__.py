"""Drawings by form (`bias.py`, `rotation.py` …), or by scheme where a file has its name: found by listing, no list to add to.

A drawing is a function `panels(settings)` that returns Panels.
"""

from importlib import import_module
from pathlib import Path
from typing import Any

from relpos.show.drawings.panel import Panel
from relpos.show.probing import axes
from relpos.spec.contract import scheme_name


def panels_of(settings: Any) -> list[Panel]:
    """The panels of the scheme's own drawing, or of its form's."""
    own = Path(__file__).with_name(f"{scheme_name(settings)}.py")
    form = settings.form if axes(settings) == 1 else f"{settings.form}_on_axes"
    name = own.stem if own.exists() else form
    return import_module(f"relpos.show.drawings.{name}").panels(settings)
