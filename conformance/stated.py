"""What a user states of an implementation, checked against what there is: laws, parameter names, schemes, sizes."""

import inspect
from collections.abc import Mapping
from dataclasses import fields
from math import prod
from typing import Any

from relpos.conformance.asks import NAMES
from relpos.conformance.errors import UsageError
from relpos.conformance.nearest import nearest
from relpos.conformance.plan import Plan
from relpos.conformance.settings import SIZES
from relpos.impls.card import Card
from relpos.spec.registry import settings_class

# The definitions are loops: what lies beyond would be silent for hours, and shows nothing that smaller sizes do not.
MOST_HEADS_OR_COLUMNS = 1024
TAKEN_FROM_SHAPES = {"num_kv_heads"}  # bound by those who take fewer key heads and read it off k
MOST_NUMBERS = 2**24  # in one learned tensor


def check_scheme(spec: str, *stated: str | None) -> None:
    """UsageError if its card, the option and the claims name different schemes."""
    names = sorted({name for name in stated if name is not None})
    if len(names) > 1:
        raise UsageError(
            f"{spec} is said to implement {' and '.join(map(repr, names))} (its card, --scheme and --claim scheme must agree). "
            "To judge it as another scheme than its card says, wrap it in a function that has no card."
        )


def check_card(spec: str, card: Card, target: Any) -> None:
    """UsageError on a claim about a law, a parameter or a name that there is not: it would change nothing in silence."""
    from relpos.conformance.laws import laws

    known = [law.name for law in laws()]
    for name in card.unclaimed:
        if name not in known:
            raise UsageError(f"{spec}: claim `unclaimed` names {name!r}; the laws are {', '.join(known)}.")
    taken = parameters_of(target)
    if taken is None:
        return
    for name in card.binds:
        if name not in TAKEN_FROM_SHAPES | taken and name not in {card.rename.get(n, n) for n in taken}:
            raise UsageError(f"{spec}: claim `binds` names {name!r}, {_not_taken(name, taken)}")
    check_variants(spec, card, taken)
    owns = inspect.isclass(target) or hasattr(target, "parameters")  # renames may also speak of its learned tensors
    for theirs in card.rename:
        if theirs not in taken and not owns:
            raise UsageError(f"{spec}: claim `rename` speaks of {theirs!r}, {_not_taken(theirs, taken)}")


def check_variants(spec: str, card: Card, taken: frozenset[str]) -> None:
    """UsageError if a variant is not an option of the implementation's own."""
    for name in card.variants:
        if name not in taken:
            raise UsageError(f"{spec}: claim `variants` names {name!r}, {_not_taken(name, taken)}")
        ours = card.rename.get(name, name)
        if ours in NAMES or ours in {f.name for f in fields(settings_class(str(card.scheme)))}:
            raise UsageError(
                f"{spec}: claim `variants` names {name!r}, which the judge gives a value itself. Variants are options of its "
                "own, such as backend:eager|fused."
            )


def check_sizes(scheme: str, settings: Any, given: Mapping[str, Any]) -> None:
    """UsageError on settings with which the looped definition would not come to an end."""
    for name in SIZES:
        if given.get(name, 0) > MOST_HEADS_OR_COLUMNS:
            raise UsageError(
                f"{scheme}: `{name}` must be at most {MOST_HEADS_OR_COLUMNS} for the judge, got {given[name]}: the definition "
                "is evaluated in loops. A smaller one shows the same mistakes."
            )
    for name, shape in settings.parameters().items():
        if prod(shape) > MOST_NUMBERS:
            raise UsageError(
                f"{scheme}: with {', '.join(f'{n}={v}' for n, v in given.items())} the parameter `{name}` has shape "
                f"{list(shape)}; the judge draws at most {MOST_NUMBERS} numbers. Judge it at smaller settings."
            )


def parameters_of(target: Any) -> frozenset[str] | None:
    """Names of everything a target takes, built or called; None where that cannot be read."""
    parts = [target] if inspect.isclass(target) or not hasattr(target, "forward") else [target.forward]
    if inspect.isclass(target):
        parts += [getattr(target, n) for n in ("forward", "step", "__call__") if callable(getattr(target, n, None))][:1]
    elif hasattr(target, "step"):
        parts = [target.step]
    try:
        return frozenset(name for part in parts for name in inspect.signature(part).parameters)
    except (TypeError, ValueError):
        return None


def _not_taken(name: str, taken: frozenset[str]) -> str:
    near = nearest(name, taken)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    return f"but it takes {', '.join(sorted(taken - {'self'})) or 'nothing'}.{hint}"


def check_input(what: str, plan: Plan) -> None:
    """UsageError where the sizes of a stored input, that was written or changed by hand, contradict one another."""
    for name, axis in SIZES.items():
        if name in plan.settings and plan.settings[name] != getattr(plan, axis):
            raise UsageError(f"{what}: `{axis}` is {getattr(plan, axis)}, but the setting `{name}` is {plan.settings[name]}.")
    for name, length in (("query_positions", plan.query_length), ("key_positions", plan.key_length)):
        rows = getattr(plan, name)
        listed = rows[0] if rows and isinstance(rows[0], tuple) else rows
        if listed is not None and len(listed) != length:
            raise UsageError(f"{what}: `{name}` lists {len(listed)} positions for a length of {length}.")
    if min(plan.batch, plan.heads, plan.query_length, plan.key_length, plan.head_dim) < 1:
        raise UsageError(f"{what}: every size must be at least 1.")
