"""How a fault is written: a wrong definition, made from the right one by overriding a piece or by changing what it is given.

A fault has two uses. Planted, at any level, it proves that a law catches its kind. As an entry of a dictionary, it lets the
judge say which mistake a failing implementation behaves like. Faults that need memory, autograd or shapes of their own are
`Planted`: whole implementations, good for the first use only.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from relpos.conformance.plan import Inputs


class Wrong:
    """Settings of a scheme with some of its methods replaced; everything else is the original's.

    >>> from relpos.spec.alibi import ALiBi
    >>> Wrong(ALiBi(num_heads=2), slopes=lambda: [1.0, 1.0]).slopes()
    [1.0, 1.0]
    """

    def __init__(self, settings: Any, **replaced: Any) -> None:
        self._settings, self._replaced = settings, replaced

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._replaced[name] if name in self._replaced else getattr(self._settings, name)


@dataclass(frozen=True)
class Fault:
    """A named wrong version of a scheme.

    name      one word for tables and ids
    says      completes "behaves like SCHEME with …"
    law       the law that must catch it, where it applies; elsewhere L1 must
    wrong     settings → wrong settings (a `Wrong`), or None
    given     inputs → changed inputs (a lost offset, another corner), or None
    cases     ids of public reports of this kind
    levels    where it can be planted
    settings  settings under which it shows
    claims    what the card of a planted run says besides, such as positions="per_row"
    """

    name: str
    says: str
    law: str
    wrong: Callable[[Any], Any] | None = None
    given: Callable[[Inputs], Inputs] | None = None
    cases: tuple[str, ...] = ()
    levels: tuple[str, ...] = ("contribution", "logits", "attention")
    settings: Mapping[str, Any] = field(default_factory=dict)
    claims: Mapping[str, Any] = field(default_factory=dict)

    def apply(self, inputs: Inputs) -> Inputs:
        """The inputs with the fault in them; asking the definition about these gives the faulty answer."""
        changed = self.given(inputs) if self.given is not None else inputs
        return changed.but(settings=self.wrong(changed.settings)) if self.wrong is not None else changed


@dataclass(frozen=True)
class Planted:
    """A faulty implementation that is more than a wrong definition.

    target  a function, class or module that plugs in like any other
    alike   names of faults that are the same mistake in other words, so that a diagnosis may name them
    """

    name: str
    says: str
    law: str
    target: Any
    cases: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    claims: Mapping[str, Any] = field(default_factory=dict)
    alike: tuple[str, ...] = ()


@dataclass(frozen=True)
class Control:
    """A right implementation that looks wrong, or is written in an unusual style: the judge must stay quiet about it.

    name      one word for tables and ids
    says      what is unusual about it
    scheme    what it implements
    target    a function, class or module that plugs in like any other
    cases     ids of public reports that took it for a fault
    settings  settings under which it is right
    claims    claims under which it is right
    """

    name: str
    says: str
    scheme: str
    target: Any
    cases: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    claims: Mapping[str, Any] = field(default_factory=dict)
