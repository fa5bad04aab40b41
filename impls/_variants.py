"""The claim `variants`: options of an implementation's own, each with the values that must all give the same answer."""

from collections.abc import Mapping
from math import prod
from typing import Any

PLAIN = (str, int, float, bool, type(None))
MOST_VARIANTS = 64
FORM = "variants=backend:eager|fused,chunked:true|false"
REQUIRED = (
    "a mapping {their parameter: (two or more different values)} of texts, numbers, True, False or None, with at most "
    f"{MOST_VARIANTS} combinations, such as {{'backend': ('eager', 'fused')}}"
)
WORDS = {"true": True, "false": False, "none": None}


def right_variants(value: Any) -> bool:
    """Whether a claim has the form of `REQUIRED`."""
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        return False
    listed = all(isinstance(values, (tuple, list)) and len(values) > 1 for values in value.values())
    if not listed or not all(isinstance(v, PLAIN) for values in value.values() for v in values):
        return False
    distinct = all(len({repr(v) for v in values}) == len(values) for values in value.values())
    return distinct and prod(len(values) for values in value.values()) <= MOST_VARIANTS


def read_variants(text: str) -> dict[str, tuple[Any, ...]] | None:
    """`backend:eager|fused,chunked:true|false` as a mapping; None where it is not written so."""
    pairs = [part.strip().partition(":") for part in text.split(",") if part.strip()]
    if not pairs or not all(name and colon and values for name, colon, values in pairs):
        return None
    return {name.strip(): tuple(_value(one.strip()) for one in values.split("|")) for name, _, values in pairs}


def written_variants(variants: Mapping[str, Any]) -> str:
    """What `read_variants` reads."""
    return ",".join(f"{name}:{'|'.join(written(v) for v in values)}" for name, values in variants.items())


def written(value: Any) -> str:
    """One value as a command line says it."""
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def _value(text: str) -> Any:
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
