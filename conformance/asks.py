"""What an implementation asks for by parameter name, and whether anybody can provide it."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from relpos.conformance.errors import AdapterError
from relpos.conformance.nearest import nearest
from relpos.impls.card import Card

TENSORS = {"q", "k", "v", "x"}
POSITIONS = {"query_positions", "key_positions", "positions"}
LENGTHS = {"query_length", "key_length", "offset", "grid"}
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
    "source_window",
}
NAMES = TENSORS | POSITIONS | LENGTHS | OTHERS
SCORE_MOD = ("score", "b", "h", "q_idx", "kv_idx")

# What belongs to a layer around the scheme, and what the scheme itself should find out.
WHOLE_LAYERS = ("d_model", "dim", "embed_dim", "embedding_dim", "hidden_size")
DISTANCES = ("relative_position", "relative_positions", "rel_pos", "distance", "distances", "relative_distance")


@dataclass(frozen=True)
class Asks:
    """Names asked for by one callable, theirs mapped to ours, in order.

    unbound    names left at their default
    optional   our names of those that could be left out, since their default is None
    options    names of its own, with the values that the card lists as variants
    """

    names: Mapping[str, str]
    positional: tuple[str, ...]
    unbound: tuple[str, ...]
    optional: frozenset[str] = frozenset()
    options: tuple[str, ...] = ()

    @property
    def ours(self) -> frozenset[str]:
        """Our names of everything asked for."""
        return frozenset(self.names.values())


def read_asks(function: Callable[..., Any], card: Card, cls: type[Any], *, what: str) -> Asks:
    """Read a signature; AdapterError if it cannot be read or asks for what nobody can provide."""
    known = NAMES | {f.name for f in fields(cls)} | _parameter_names(cls)
    names: dict[str, str] = {}
    positional, unbound, unknown, optional, options = [], [], [], [], []
    for theirs, parameter in _signature(function, cls, what).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if theirs in card.variants:
            options.append(theirs)
            continue
        ours = card.rename.get(theirs, theirs)
        if parameter.default is not parameter.empty and theirs not in card.binds and ours not in card.binds:
            if ours in known:
                unbound.append(theirs)
            continue
        if ours not in known:
            unknown.append(theirs)
        names[theirs] = ours
        if parameter.kind is parameter.POSITIONAL_ONLY:
            positional.append(theirs)
        elif parameter.default is None:
            optional.append(ours)
    if unknown:
        raise AdapterError(_nobody(unknown, known, what))
    return Asks(names, tuple(positional), tuple(unbound), frozenset(optional), tuple(options))


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


def _nobody(theirs: list[str], known: set[str], what: str) -> str:
    asked = " and ".join(f"`{name}`" for name in theirs)
    return (
        f"{what} asks for {asked}, which nobody can provide. {''.join(_hints(theirs, known))}"
        f"Names there are: {', '.join(sorted(known))}. Anything else needs a default, or a wrapper that fills it in."
    )


def _hints(theirs: list[str], known: set[str]) -> Iterator[str]:
    """What to type, or to write, for each name that is not ours."""
    if any(name in DISTANCES for name in theirs):
        yield "Distances have a sign, which is judged too: wrap it in a function of query_positions and key_positions. "
    elif any(name in WHOLE_LAYERS and not nearest(name, known) for name in theirs):
        yield "A layer with projections of its own cannot be judged: name the part that takes q, k, v, or the bias alone. "
    else:
        near = {name: found for name in theirs if (found := nearest(name, known))}
        said = " and ".join(f"{name} is {' or '.join(found)}" for name, found in near.items())
        if len(near) == 1:
            said = f"it is {' or '.join(*near.values())} under another name"
        if near:
            yield f"If {said}: --claim rename={','.join(f'{name}:{found[0]}' for name, found in near.items())}. "
