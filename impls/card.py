"""Capability cards: what an implementation claims about itself, and the decorator that states it.

A card is data. `@implements("alibi", softmax="causal")` leaves a plain dict on the callable, `__relpos__`, which a file
may also write by hand so that it need not import relpos; `--claim softmax=causal` says the same on the command line.
What is not claimed is not tested, and is listed as "not claimed".
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

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
    masked_nan    NaN and inf in masked keys and values are harmless
    max_position  greatest position it is right at
    max_length    greatest number of queries or keys; None: any
    memory        growth of its peak memory as a sum of terms, such as "B*H*Lq*Lk + B*H*Lq*D"; None: not claimed
    settings      settings that it cannot vary, by name
    unclaimed     laws it does not claim, such as ("L4",)
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
    masked_nan: bool = False
    max_position: int = 2**17
    max_length: int | None = None
    memory: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    unclaimed: tuple[str, ...] = ()

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
    hint = get_type_hints(Card).get(name)
    if name in ("binds", "dtypes", "devices", "unclaimed"):
        return name, tuple(part for part in value.split(",") if part)
    if name == "rename":
        return name, dict(part.split(":", 1) for part in value.split(",") if ":" in part)
    if bool in (hint, *get_args(hint)):
        words = {"yes": True, "true": True, "no": False, "false": False}
        if value.lower() not in words:
            raise CardError(f"claim `{name}` must be yes or no, got {value!r}.")
        return name, words[value.lower()]
    if int in (hint, *get_args(hint)):
        if not value.lstrip("-").isdigit():
            raise CardError(f"claim `{name}` must be a whole number, got {value!r}.")
        return name, int(value)
    _check_claim(name, value, get_type_hints(Card))
    return name, value


def _check_claim(name: str, value: Any, hints: dict[str, Any]) -> None:
    if name not in hints:
        near = get_close_matches(name, hints, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise CardError(f"there is no claim called {name!r}.{hint} There are: {', '.join(sorted(hints))}.")
    choices = _choices(hints[name])
    if choices and value is not None and value not in choices:
        raise CardError(f"claim `{name}` must be one of {', '.join(map(repr, choices))}, got {value!r}.")


def _choices(hint: Any) -> tuple[Any, ...]:
    if get_origin(hint) is Literal:
        return get_args(hint)
    for part in get_args(hint):
        if get_origin(part) is Literal:
            return get_args(part)
    return ()
