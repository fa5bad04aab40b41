"""What an implementation asks for by parameter name, and whether anybody can provide it."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from relpos.conformance.errors import AdapterError
from relpos.conformance.nearest import nearest
from relpos.impls.card import Card

TENSORS = {"q", "k", "v", "x"}
POSITIONS = {"query_positions", "key_positions", "positions"}
LENGTHS = {"query_length", "key_length", "offset"}
OTHERS = {
    "settings",
    "params",
    "role",
    "mask",
    "padding_mask",
    "causal",
    "scale",
    "dtype",
    "device",
    "sequence_length",
    "num_kv_heads",
    "head_indices",
}
NAMES = TENSORS | POSITIONS | LENGTHS | OTHERS
SCORE_MOD = ("score", "b", "h", "q_idx", "kv_idx")


@dataclass(frozen=True)
class Asks:
    """Names asked for by one callable, theirs mapped to ours, in order; and those left at their default."""

    names: Mapping[str, str]
    positional: tuple[str, ...]
    unbound: tuple[str, ...]

    @property
    def ours(self) -> frozenset[str]:
        """Our names of everything asked for."""
        return frozenset(self.names.values())


def read_asks(function: Callable[..., Any], card: Card, cls: type[Any], *, what: str) -> Asks:
    """Read a signature; AdapterError if it cannot be read or asks for what nobody can provide."""
    known = NAMES | {f.name for f in fields(cls)} | _parameter_names(cls)
    names: dict[str, str] = {}
    positional, unbound = [], []
    for theirs, parameter in _signature(function, cls, what).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        ours = card.rename.get(theirs, theirs)
        if parameter.default is not parameter.empty and theirs not in card.binds and ours not in card.binds:
            if ours in known:
                unbound.append(theirs)
            continue
        if ours not in known:
            raise AdapterError(_nobody(theirs, known, what))
        names[theirs] = ours
        if parameter.kind is parameter.POSITIONAL_ONLY:
            positional.append(theirs)
    return Asks(names, tuple(positional), tuple(unbound))


def score_mod_like(function: Callable[..., Any]) -> bool:
    """Whether a callable has the signature of a flex_attention score_mod."""
    try:
        required = [n for n, p in inspect.signature(function).parameters.items() if p.default is p.empty]
    except (TypeError, ValueError):
        return False
    return tuple(required) == SCORE_MOD


def _parameter_names(cls: type[Any]) -> set[str]:
    found: set[str] = set()
    for settings in example_settings(cls):
        found |= set(settings.parameters())
    return found


def example_settings(cls: type[Any]) -> list[Any]:
    """Settings of a scheme with small sizes, one for each value of each named choice."""
    from relpos.conformance.settings import alternatives, smallest

    base = smallest(cls)
    return [cls(**base)] + [cls(**{**base, name: value}) for name, value in alternatives(cls, base)]


def _signature(function: Callable[..., Any], cls: type[Any], what: str) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        names = {"bias": "query_positions, key_positions", "embedding": "positions", "rotation": "x, positions"}
        needs = names.get(cls.form, "q, k, v")
        raise AdapterError(
            f"{what} has no readable signature (compiled code?). Wrap it and name what it needs:\n"
            f"    def wrapped({needs}):\n        return {getattr(function, '__name__', 'it')}({needs})"
        ) from None


def _nobody(theirs: str, known: set[str], what: str) -> str:
    near = nearest(theirs, known)
    hint = f"If it is {' or '.join(near)} under another name: --claim rename={theirs}:{near[0]}. " if near else ""
    return (
        f"{what} asks for `{theirs}`, which nobody can provide. {hint}"
        f"Names there are: {', '.join(sorted(known))}. Anything else needs a default, or a wrapper that fills it in."
    )
