"""Capability cards: what an implementation claims about itself, and the decorator that states it.

A card is data. `@implements("alibi", softmax="causal")` leaves a plain dict on the callable, `__relpos__`, which a file
may also write by hand so that it need not import relpos; `--claim softmax=causal` says the same on the command line.
What is not claimed is not tested, and is listed as "not claimed".
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from relpos.impls._variants import FORM, REQUIRED, read_variants, right_variants

WORKING = ("float64", "float32", "bfloat16", "float16")
TERM = r"(?:B|H|Lq|Lk|L|D|\d+)"
MEMORY = rf"{TERM}(?:\*{TERM})*(?:\+{TERM}(?:\*{TERM})*)*"

Level = Literal["contribution", "logits", "attention"]
C = TypeVar("C", bound=Callable[..., Any])


class CardError(ValueError):
    """A capability card says something that means nothing."""


@dataclass(frozen=True, kw_only=True)
class Card:
    """Claims of one implementation.

    scheme        name of the scheme, as in `spec/`
    level         "contribution" (bias, embedding, rotated tensor), "logits" (complete score, before any mask) or "attention"
                  (output); None: told by what it asks for and returns
    softmax       "any": values are exact. "causal": right only up to a constant per query, under a causal softmax
    corner        "bottom-right" | "top-left": where the queries lie when lengths differ and no offset is asked for
    layout        "bhld" or "blhd": axes of q, k, v and of the output
    mask          sense of the mask it takes: "true_keeps", "true_drops" or "additive" (0 keeps, −inf drops)
    rename        {their parameter name: our name}
    binds         names that are to be given although they have a default
    positions     "contiguous" (from 0), "offset", "arbitrary" or "per_row" ([B, L]); None: told by what it asks for
    dtypes        working dtypes; None: float32, and with a `dtype` asked for also bfloat16 and float16
    devices       devices it runs on
    gradient      differentiable in every float it asks for; None: yes for torch, no for others
    double_backward  its gradients are differentiable themselves, as second-order methods need
    export        True: torch.export takes it, for all lengths at once. None: judged where it does; False: not judged
    vmap          the same of torch.func.vmap
    masked_nan    NaN and inf in masked keys and values are harmless
    max_position  greatest position it is right at
    max_length    greatest number of queries or keys; None: any
    memory        growth of its peak memory as a sum of terms, such as "B*H*Lq*Lk + B*H*Lq*D"; None: not claimed
    settings      settings that it cannot vary, by name
    unclaimed     laws it does not claim, such as ("L4",)
    variants      {parameter of its own: values} that must all give the same answer: {"backend": ("eager", "fused")}. It need
                  not be one of our names; every law but L28 gives the first value
    """

    scheme: str | None = None
    level: Level | None = None
    softmax: Literal["any", "causal"] = "any"
    corner: Literal["bottom-right", "top-left"] | None = None
    layout: Literal["bhld", "blhd"] = "bhld"
    mask: Literal["true_keeps", "true_drops", "additive"] = "true_keeps"
    rename: Mapping[str, str] = field(default_factory=dict)
    binds: tuple[str, ...] = ()
    positions: Literal["contiguous", "offset", "arbitrary", "per_row"] | None = None
    dtypes: tuple[str, ...] | None = None
    devices: tuple[str, ...] = ("cpu",)
    gradient: bool | None = None
    double_backward: bool = False
    export: bool | None = None
    vmap: bool | None = None
    masked_nan: bool = False
    max_position: int = 2**17
    max_length: int | None = None
    memory: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    unclaimed: tuple[str, ...] = ()
    variants: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, claims: Mapping[str, Any]) -> "Card":
        """A card from a plain dict; CardError on an unknown claim or value, with what there is."""
        hints = get_type_hints(cls)
        for name, value in claims.items():
            _check_claim(name, value, hints)
        values: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in claims.items()}
        return cls(**values)

    def with_claims(self, claims: Mapping[str, Any]) -> "Card":
        """This card with some claims replaced."""
        return Card.of({f.name: getattr(self, f.name) for f in fields(self)} | dict(claims))

    def with_settings(self, **settings: Any) -> "Card":
        """This card with some settings fixed."""
        return replace(self, settings={**self.settings, **settings})


def implements(scheme: str, **claims: Any) -> Callable[[C], C]:
    """State on a function, class or module what it implements and claims: the fields of `Card`."""
    Card.of({"scheme": scheme, **claims})

    def mark(target: C) -> C:
        target.__relpos__ = {"scheme": scheme, **claims}  # type: ignore[attr-defined]
        return target

    return mark


def parse_claim(text: str) -> tuple[str, Any]:
    """A claim from the command line: `softmax=causal`, `binds=scale,offset`, `gradient=no`, `rename=attention_mask:mask`."""
    name, equals, value = text.partition("=")
    if not equals:
        raise CardError(f"a claim is written name=value, got {text!r}; for example softmax=causal.")
    hints = get_type_hints(Card)
    parsed = _parsed(name, value, hints[name]) if name in hints else value
    _check_claim(name, parsed, hints)
    return name, parsed


def _parsed(name: str, value: str, hint: Any) -> Any:
    if name in ("binds", "dtypes", "devices", "unclaimed"):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    if name == "rename":
        return _renames(value)
    if name == "variants":
        if (variants := read_variants(value)) is None:
            raise CardError(f"claim `variants` is written parameter:value|value, as in {FORM}, got {value!r}.")
        return variants
    if name == "settings":
        raise CardError("a setting is fixed with --set name=value, not with a claim.")
    if bool in (hint, *get_args(hint)):
        words = {"yes": True, "true": True, "no": False, "false": False}
        if value.lower() not in words:
            raise CardError(f"claim `{name}` must be yes or no, got {value!r}.")
        return words[value.lower()]
    if int in (hint, *get_args(hint)):
        if not value.lstrip("-").isdigit():
            raise CardError(f"claim `{name}` must be a whole number, got {value!r}.")
        return int(value)
    return value


def parse_claims(texts: Sequence[str]) -> dict[str, Any]:
    """Claims from the command line; CardError where one is stated twice, for which one is meant?"""
    claims: dict[str, Any] = {}
    for text in texts:
        name, value = parse_claim(text)
        if name in claims and name in ("rename", "variants"):
            value = {**claims[name], **value}
        elif name in claims:
            raise CardError(f"claim `{name}` is stated twice, as {claims[name]!r} and as {value!r}; state it once.")
        claims[name] = value
    return claims


def _renames(text: str) -> dict[str, str]:
    pairs = [part.strip().partition(":") for part in text.split(",") if part.strip()]
    if not pairs or not all(theirs and colon and ours for theirs, colon, ours in pairs):
        raise CardError(f"claim `rename` is written their_name:our_name, as in rename=attention_mask:mask, got {text!r}.")
    return {theirs: ours for theirs, _, ours in pairs}


def _check_claim(name: str, value: Any, hints: dict[str, Any]) -> None:
    if name not in hints:
        near = get_close_matches(name, hints, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise CardError(f"there is no claim called {name!r}.{hint} There are: {', '.join(sorted(hints))}.")
    if value is None:
        return
    choices = _choices(hints[name])
    if choices and value not in choices:
        raise CardError(f"claim `{name}` must be one of {', '.join(map(repr, choices))}, got {value!r}.")
    if name in RULES:
        right, required = RULES[name]
        if not right(value):
            raise CardError(f"claim `{name}` must be {required}, got {value!r}.")


def _whole(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _names(value: Any, known: tuple[str, ...] = ()) -> bool:
    listed = isinstance(value, (tuple, list)) and all(isinstance(part, str) for part in value)
    return listed and (not known or (bool(value) and set(value) <= set(known)))


# What a claim may be, where its annotation does not say it all.
RULES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "max_position": (lambda v: _whole(v, 0), "a whole number from 0"),
    "max_length": (lambda v: _whole(v, 1), "a whole number from 1"),
    "dtypes": (lambda v: _names(v, WORKING), f"some of {', '.join(WORKING)}, in a tuple"),
    "devices": (lambda v: _names(v) and bool(v), "names of devices, in a tuple, such as ('cpu',)"),
    "binds": (_names, "names of its parameters, in a tuple, such as ('scale',)"),
    "unclaimed": (_names, "names of laws, in a tuple, such as ('L4',)"),
    "memory": (
        lambda v: isinstance(v, str) and re.fullmatch(MEMORY, v.replace(" ", "")) is not None,
        "a sum of products of B, H, Lq, Lk, L, D and numbers, such as B*H*Lq*Lk + B*H*Lq*D",
    ),
    "rename": (lambda v: isinstance(v, Mapping), "a mapping {their name: our name}"),
    "settings": (lambda v: isinstance(v, Mapping), "a mapping {setting: value}"),
    "variants": (right_variants, REQUIRED),
    **dict.fromkeys(
        ("gradient", "double_backward", "export", "vmap", "masked_nan"), (lambda v: isinstance(v, bool), "True or False")
    ),
}


def _choices(hint: Any) -> tuple[Any, ...]:
    if get_origin(hint) is Literal:
        return get_args(hint)
    for part in get_args(hint):
        if get_origin(part) is Literal:
            return get_args(part)
    return ()
