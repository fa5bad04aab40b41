"""An implementation that has been plugged in: what it is, what it asks for, at which level it answers."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from relpos.conformance.asks import LENGTHS, POSITIONS, TENSORS, Asks, read_asks, score_mod_like
from relpos.conformance.deviations import Deviation
from relpos.conformance.deviations import checked as checked_deviations
from relpos.conformance.errors import AdapterError, UsageError
from relpos.conformance.settings import SIZES, checked_settings, legal, shapes_depend_on, sized, smallest
from relpos.conformance.stated import check_card, check_scheme, check_sizes
from relpos.impls.card import Card, CardError
from relpos.spec.registry import settings_class

Kind = str  # "function" | "builder" | "module" | "decoder" | "score_mod" | "resizer"


@dataclass(frozen=True)
class Subject:
    """One implementation and what is known of it.

    spec     how the user named it; given: settings that the user fixed; arrays: "torch" or "numpy", what it is
    handed; accepted: deviations that its users know and accept
    """

    spec: str
    scheme: str
    target: Any
    kind: Kind
    card: Card
    built_with: Asks | None
    called_with: Asks
    given: Mapping[str, Any]
    level: str
    arrays: str = "torch"
    device: str = "cpu"
    accepted: tuple[Deviation, ...] = ()

    @property
    def cls(self) -> type[Any]:
        """The settings class of its scheme."""
        return settings_class(self.scheme)

    @property
    def form(self) -> str:
        """Where its scheme lets position enter."""
        return self.cls.form

    @property
    def asks(self) -> frozenset[str]:
        """Our names of everything it asks for, when it is built or called; on several axes nothing is causal."""
        asked = self.called_with.ours | (self.built_with.ours if self.built_with else frozenset())
        return asked - {"causal"} if self.on_grid else asked

    @property
    def on_grid(self) -> bool:
        """Whether positions of its scheme have several axes."""
        return hasattr(self.cls, "axes")

    @property
    def unbound(self) -> tuple[str, ...]:
        """Names it would take but that have a default, so that they are left alone."""
        return self.called_with.unbound + (self.built_with.unbound if self.built_with else ())

    def but(self, **changes: Any) -> "Subject":
        """This subject with something replaced."""
        return replace(self, **changes)

    @property
    def fixed(self) -> dict[str, Any]:
        """Settings that never vary: by the user's word or the card's."""
        return {**self.card.settings, **self.given}

    @property
    def free(self) -> tuple[str, ...]:
        """Settings that the judge may vary, because the implementation is told of them."""
        return tuple(f.name for f in fields(self.cls) if f.name not in self.fixed and self._told(f.name))

    def _told(self, name: str) -> bool:
        if "settings" in self.asks or name in self.asks:
            return True
        if SIZES.get(name) and TENSORS & self.asks:
            # A function of q, k, v sees the number of heads and the width there.
            return name != "num_heads" or self.level != "contribution"
        learned = set(cls_parameters(self.cls))
        told = learned if "params" in self.asks else learned & self.asks
        return any(shapes_depend_on(self.cls, name, parameter) for parameter in told)

    @property
    def scores(self) -> bool:
        """Whether it is a score_mod or builds one: evaluated point by point, at positions it is told."""
        return self.kind in ("score_mod", "builder")

    @property
    def positions(self) -> str:
        """Which positions it can be told: "contiguous", "offset" or "arbitrary"."""
        if self.card.positions is not None:
            return "arbitrary" if self.card.positions == "per_row" else self.card.positions
        if self.scores or POSITIONS & self.asks:
            return "offset" if self.scores else "arbitrary"
        return "offset" if "offset" in self.asks else "contiguous"

    @property
    def one_length(self) -> bool:
        """Whether queries and keys must be equally many: it has no way to be told where the queries lie."""
        if self.form in ("rotation", "embedding") and self.level == "contribution":
            return self.together
        both = {"query_positions", "key_positions"} <= self.asks or self.scores
        sees_both = {"query_length", "key_length"} <= self.asks or {"q", "k"} <= self.asks
        return not (both or (sees_both and ("offset" in self.asks or self.card.corner is not None)))

    @property
    def together(self) -> bool:
        """Whether it rotates queries and keys in one call at one set of positions: rows of k lie where those of q do."""
        pair = self.form == "rotation" and self.level == "contribution" and {"q", "k"} <= self.asks
        return pair and not {"query_positions", "key_positions"} <= self.asks

    @property
    def told_length(self) -> bool:
        """Whether it is told how long the whole context is."""
        return "sequence_length" in self.asks

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Working dtypes it claims: float32, and half precision where it asks for `dtype`."""
        if self.card.dtypes is not None:
            return self.card.dtypes
        return ("float32", "bfloat16", "float16") if "dtype" in self.asks and self.arrays == "torch" else ("float32",)

    @property
    def empty_rows(self) -> bool:
        """Whether a query may be left without any key: masks are taken, and such rows are not claimed off."""
        return "mask" in self.asks and "L8" not in self.card.unclaimed

    @property
    def owns_parameters(self) -> bool:
        """Whether it is a module that holds the learned tensors itself."""
        return self.kind in ("module", "decoder") and not ({"params"} | set(cls_parameters(self.cls))) & self.asks


def cls_parameters(cls: type[Any]) -> tuple[str, ...]:
    """Names of the learned tensors of a scheme's published settings."""
    return tuple(cls(**smallest(cls)).parameters())


def plug_in(
    target: Any,
    *,
    spec: str,
    scheme: str | None = None,
    given: Mapping[str, Any] | None = None,
    claims: Mapping[str, Any] | None = None,
    device: str = "cpu",
    deviations: Iterable[Deviation] = (),
) -> Subject:
    """Make a subject of a function, class, module, decoder or score_mod; AdapterError if it cannot be one."""
    if not callable(target) and not hasattr(target, "step"):
        raise AdapterError(f"{spec} is a {type(target).__name__}, not something that can be called.")
    if inspect.isclass(target) and not {"forward", "step", "__call__"} & set(dir(target)):
        raise AdapterError(f"{spec} is a class that cannot be called: it needs `forward`, `__call__` or `step(q, k, v)`.")
    own = getattr(target, "__relpos__", {})
    if not isinstance(own, Mapping):
        raise AdapterError(f"{spec}: `__relpos__` must be a dict of claims, got {own!r}; such as {{'scheme': 'alibi'}}.")
    check_scheme(spec, own.get("scheme"), scheme, (claims or {}).get("scheme"))
    try:
        card = Card.of({**own, **({"scheme": scheme} if scheme else {})}).with_claims(claims or {})
    except CardError as error:
        raise UsageError(f"{spec}: {error}") from None
    if card.scheme is None:
        raise UsageError(f"{spec} does not say which scheme it implements; add --scheme NAME.")
    cls = settings_class(card.scheme)
    fixed = checked_settings(card.scheme, {**card.settings, **(given or {})})
    if not legal(cls, sized(cls, fixed)):
        cls(**sized(cls, fixed))  # raises the scheme's own message
    check_sizes(card.scheme, cls(**sized(cls, fixed)), fixed)
    check_card(spec, card, target)
    kind = _kind(target, card, cls)
    built, called = _read(target, kind, card, cls, spec)
    kind = "resizer" if "source_window" in called.ours else kind
    accepted = checked_deviations(deviations, cls)
    subject = Subject(spec, card.scheme, target, kind, card, built, called, dict(given or {}), "", device=device)
    return subject.but(level=_level(subject), accepted=accepted)


def _kind(target: Any, card: Card, cls: type[Any]) -> Kind:
    if hasattr(target, "step"):
        return "decoder"
    if inspect.isclass(target):
        return "module"
    if score_mod_like(target):
        return "score_mod"
    if inspect.isfunction(target) and _is_builder(target, card, cls):
        return "builder"
    return "function"


def _is_builder(target: Callable[..., Any], card: Card, cls: type[Any]) -> bool:
    """A function that asks for settings and parameters only builds the real implementation (a score_mod, a closure)."""
    names = {card.rename.get(n, n) for n, p in inspect.signature(target).parameters.items() if p.default is p.empty}
    about_input = TENSORS | POSITIONS | LENGTHS | {"mask", "padding_mask", "causal", "role", "sequence_length"}
    return not names & about_input and bool(names) and not hasattr(cls, "axes")  # a whole window needs no positions


def _read(target: Any, kind: Kind, card: Card, cls: type[Any], spec: str) -> tuple[Asks | None, Asks]:
    nothing = Asks({}, (), ())
    if kind == "score_mod":
        return None, nothing
    if kind == "builder":
        return read_asks(target, card, cls, what=spec), nothing
    if kind == "function":
        function = target.forward if hasattr(target, "forward") else target
        return None, read_asks(function, card, cls, what=spec)
    is_class = inspect.isclass(target)
    built = read_asks(target, card, cls, what=f"{spec} (constructor)") if is_class else None
    method = target.step if kind == "decoder" else getattr(target, "forward", None) or target.__call__
    called = read_asks(_without_self(method) if is_class else method, card, cls, what=f"{spec} (call)")
    if kind == "decoder" and (missing := [name for name in "qkv" if name not in called.ours]):
        lacks = f"`step` does not take {' and '.join(missing)}"
        raise AdapterError(
            f"{spec}: {lacks}; write step(q, k, v), the new tokens alone, or rename with --claim rename=theirs:q."
        )
    return built, called


def _without_self(method: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(method)
    parameters = list(signature.parameters.values())[1:]

    def described() -> None: ...

    described.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return described


def _level(subject: Subject) -> str:
    asks = subject.called_with.ours
    form = subject.form
    if subject.card.level is not None:
        return subject.card.level
    if subject.kind == "resizer":
        return "table"
    if subject.kind == "decoder" or "v" in asks:
        return "attention"
    if subject.kind in ("score_mod", "builder") or form in ("none", "logits"):
        return "logits"
    if {"q", "k"} <= asks:
        return "contribution" if form == "rotation" else "logits"
    return "contribution"
