"""Derivatives of schemes into which something enters nonlinearly, one file per scheme; elsewhere a unit input shows them.

A file has two functions, each of which gives a derivative J and the size S of the terms that are rounded on its way:

    of_parameter(given, name)        of every entry of a parameter, in the scores, [B, …, H, Lq, Lk]; in a bias alone, if `bias`
    of_vectors(given, name, column)  of one column of q or k, in the scores, [B, H, Lq, Lk]
"""

from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from relpos.spec.contract import scheme_name


def derivatives(settings: Any) -> ModuleType | None:
    """The file of a scheme, or None: everything enters linearly."""
    return _file(scheme_name(settings))


@cache
def _file(scheme: str) -> ModuleType | None:
    there = Path(__file__).with_name(f"{scheme}.py").exists()
    return import_module(f"relpos.conformance.derivatives.{scheme}") if there else None
