"""The implementations that ship with relpos, found by listing `impls/`."""

from importlib import import_module

from relpos.conformance.loading import load
from relpos.spec.registry import schemes


def builtins(scheme: str | None = None) -> dict[str, str]:
    """Names such as "alibi/toeplitz", each with what `--impl` takes for it."""
    found: dict[str, str] = {}
    for name in schemes() if scheme is None else (scheme,):
        module = import_module(f"relpos.impls.{name}")
        for variant, value in vars(module).items():
            if not variant.startswith("_") and "__relpos__" in getattr(value, "__dict__", {}) and value.__module__ == module.__name__:
                found[f"{name}/{variant}"] = f"relpos.impls.{name}:{variant}"
    return found


def builtin(name: str) -> object:
    """A built-in by its name."""
    return load(builtins(name.partition("/")[0])[name])
