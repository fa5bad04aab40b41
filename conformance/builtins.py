"""What ships with relpos and is judged by it: the definitions first, then the implementations found by listing `impls/`."""

from collections.abc import Sequence
from importlib import import_module

from relpos.conformance.errors import UsageError
from relpos.conformance.expected import forms_levels
from relpos.conformance.loading import load
from relpos.spec.registry import schemes, settings_class


def definitions(scheme: str | None = None) -> dict[str, str]:
    """Every definition at every level, such as "alibi as bias", with what `--impl` takes for it."""
    found: dict[str, str] = {}
    for name in schemes() if scheme is None else (scheme,):
        form = settings_class(name).form
        for level in forms_levels(settings_class(name)):
            word = form if level == "contribution" else level
            found[f"{name} as {word}"] = f"relpos.conformance.planting:{name}_as_{level}"
    return found


def builtins(scheme: str | None = None) -> dict[str, str]:
    """Every implementation, such as "alibi/toeplitz", with what `--impl` takes for it."""
    found: dict[str, str] = {}
    for name in schemes() if scheme is None else (scheme,):
        module = import_module(f"relpos.impls.{name}")
        for variant, value in vars(module).items():
            marked = "__relpos__" in getattr(value, "__dict__", {}) and value.__module__ == module.__name__
            if marked and not variant.startswith("_"):
                found[f"{name}/{variant}"] = f"relpos.impls.{name}:{variant}"
    return found


def builtins_named(scheme: str | None, wanted: Sequence[str]) -> dict[str, str]:
    """Of one scheme or all, those named, "alibi/toeplitz" or "toeplitz", or every one. UsageError with those there are."""
    if scheme is not None:
        settings_class(scheme)
    every = builtins(scheme)
    missing = [name for name in wanted if not any(_named(label, name) for label in every)]
    if missing:
        raise UsageError(f"--variant: there is no {' and no '.join(map(repr, missing))}; there are {', '.join(every)}.")
    return {label: spec for label, spec in every.items() if not wanted or any(_named(label, name) for name in wanted)}


def _named(label: str, name: str) -> bool:
    return name in (label, label.partition("/")[2])


def builtin(name: str) -> object:
    """An implementation by its name."""
    return load(builtins(name.partition("/")[0])[name])
