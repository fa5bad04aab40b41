"""Settings of a scheme as the judge sees them: smallest legal ones, named alternatives, which of them can vary."""

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

from relpos.conformance.nearest import nearest
from relpos.spec.contract import SettingsError
from relpos.spec.registry import settings_class

SIZES = {"num_heads": "heads", "head_dim": "head_dim", "embed_dim": "head_dim"}


def smallest(cls: type[Any], **given: Any) -> dict[str, Any]:
    """Values for every setting that has no default, plus the given ones."""
    values: dict[str, Any] = {}
    for field in fields(cls):
        if field.default is MISSING:
            values[field.name] = 2 if field.name in SIZES else cls.draws[field.name][0]
    return {**values, **given}


def sized(cls: type[Any], given: dict[str, Any]) -> dict[str, Any]:
    """All settings: the given ones, and sizes large enough for them to be legal (a partial width needs a head that wide)."""
    values = smallest(cls, **given)
    if legal(cls, values):
        return values
    values = dict(given)
    for field in fields(cls):
        if field.name in SIZES and field.name not in values:
            values[field.name] = max([2, *(v for v in given.values() if isinstance(v, int) and not isinstance(v, bool))])
            values[field.name] += values[field.name] % 2
    if not legal(cls, smallest(cls, **values)):  # a width that this size's neighbour has a meaning for
        values |= {name: size + 2 for name, size in values.items() if name in SIZES and name not in given}
    return smallest(cls, **values)


def choices(cls: type[Any]) -> dict[str, tuple[Any, ...]]:
    """Named values of every setting that has some: literals and flags."""
    found: dict[str, tuple[Any, ...]] = {}
    for name, hint in get_type_hints(cls).items():
        if name not in {f.name for f in fields(cls)}:
            continue
        if get_origin(hint) is Literal:
            found[name] = get_args(hint)
        elif hint is bool:
            found[name] = (False, True)
    return found


def alternatives(cls: type[Any], given: dict[str, Any]) -> list[tuple[str, Any]]:
    """Every named value that differs from the settings in force and is legal beside them."""
    base = sized(cls, given)
    now, found = cls(**base), []
    for name, values in choices(cls).items():
        for value in values:
            if value != getattr(now, name) and legal(cls, {**base, name: value}):
                found.append((name, value))
    return found


def bundles(cls: type[Any], free: tuple[str, ...], values: dict[str, Any]) -> list[dict[str, Any]]:
    """The settings with each group that has a meaning only together, where all of it is free and legal beside them."""
    groups = [group for group in getattr(cls, "bundles", ()) if set(group) <= set(free)]
    return [changed for group in groups if legal(cls, changed := {**values, **group})]


def legal(cls: type[Any], values: dict[str, Any]) -> bool:
    """Whether the scheme has a meaning for these settings."""
    try:
        cls(**values)
    except SettingsError:
        return False
    return True


def parse_settings(scheme: str, texts: Iterable[str]) -> dict[str, Any]:
    """Settings from the command line, `num_heads=12` each; SettingsError if one is unknown or given twice."""
    cls = settings_class(scheme)
    given: dict[str, Any] = {}
    for text in texts:
        name, value = _parsed(cls, scheme, text)
        if name in given and given[name] != value:
            raise SettingsError(
                f"{scheme}: `{name}` is set twice, to {given[name]!r} and to {value!r}; set it once. Without --set the judge "
                "varies what it can."
            )
        given[name] = value
    return given


def checked_settings(scheme: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The same settings; SettingsError if the scheme has none of such a name."""
    known = {f.name for f in fields(settings_class(scheme))}
    for name in given:
        if name not in known:
            near = nearest(name, known)
            hint = f" Did you mean {' or '.join(near)}?" if near else ""
            raise SettingsError(
                f"{scheme}: there is no setting called {name!r}.{hint} Its settings: {', '.join(sorted(known)) or 'none'}."
            )
    return dict(given)


def _parsed(cls: type[Any], scheme: str, text: str) -> tuple[str, Any]:
    name, equals, raw = text.partition("=")
    hints = {f.name: get_type_hints(cls)[f.name] for f in fields(cls)}
    if not equals or name not in hints:
        near = nearest(name, hints) if equals else []
        hint = f" Did you mean {near[0]}={raw}?" if near else ""
        known = ", ".join(f"{n}={'|'.join(map(str, choices(cls)[n])) if n in choices(cls) else '…'}" for n in hints)
        wrong = f"there is no setting called {name!r}." if equals and name else f"--set takes name=value, got {text!r}."
        raise SettingsError(f"{scheme}: {wrong}{hint} Its settings: {known or 'none'}.")
    return name, _convert(hints[name], raw)


def _convert(hint: Any, raw: str) -> Any:
    kinds = get_args(hint) if type(None) in get_args(hint) else (hint,)
    if type(None) in kinds and raw.lower() in ("none", "all"):
        return None
    if any(get_origin(kind) is tuple for kind in kinds):
        parts = [part.strip() for part in raw.strip("()").split(",") if part.strip()]
        return tuple(int(part) for part in parts) if all(part.lstrip("-").isdigit() for part in parts) else raw
    if bool in kinds and raw.lower() in ("true", "yes", "false", "no"):
        return raw.lower() in ("true", "yes")
    for kind in (int, float):
        if kind in kinds:
            try:
                return kind(raw)
            except ValueError:
                return raw
    return raw


def shapes_depend_on(cls: type[Any], name: str, parameter: str) -> bool:
    """Whether a setting shows in the shape of a learned parameter, so that an implementation can read it there."""
    base = smallest(cls)
    step = 2 if name in SIZES else 1
    now = getattr(cls(**base), name)
    changed = {**base, name: now + step} if isinstance(now, int) and not isinstance(now, bool) else base
    try:
        return cls(**base).parameters().get(parameter) != cls(**changed).parameters().get(parameter)
    except SettingsError:
        return False
