"""How a module finds what a scheme has in `impls/`, by name and form, and asks it by parameter name.

A scheme's settings say form, names and shapes of parameters, and a scale of their own where they have one. Its file in
`impls/` has, by form, `encode`, `rotate`, `bias`, or `term` and, where values are shifted too, `values`.
"""

import inspect
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from relpos.impls.modules._checks import require

ENTRIES = {"none": (), "embedding": ("encode",), "rotation": ("rotate",), "bias": ("bias",), "logits": ("term", "values")}
OPTIONAL = ("values",)
INIT_STD = 0.02


def name_of(settings: Any) -> str:
    """The file of a scheme has one name in every folder."""
    return type(settings).__module__.rpartition(".")[2]


class Asked:
    """A function of a scheme's file and the names it asks for, read once: nothing is inspected under a compiler."""

    def __init__(self, settings: Any, entry: str) -> None:
        scheme = name_of(settings)
        try:
            self.function = getattr(import_module(f"relpos.impls.{scheme}"), entry)
        except (ModuleNotFoundError, AttributeError):
            raise NotImplementedError(
                f"{scheme}: modules need a function `{entry}` in impls/{scheme}.py; there is none. See impls/README.md."
            ) from None
        self.names = tuple(inspect.signature(self.function).parameters)

    def __call__(self, **offered: Any) -> Tensor:
        return self.function(**{name: offered[name] for name in self.names if name in offered})


class Scheme(nn.Module):
    """One scheme as part of a module: its settings, its learned tensors by name, its functions."""

    def __init__(self, settings: Any, *, init_std: float = INIT_STD) -> None:
        super().__init__()
        self.settings, self.init_std = settings, init_std
        own_parameters(self, settings)
        entries = ENTRIES[settings.form]
        self._asked = {entry: Asked(settings, entry) for entry in entries if entry not in OPTIONAL or _has(settings, entry)}
        draw_parameters(self, init_std)

    def has(self, entry: str) -> bool:
        """Whether the scheme has that function."""
        return entry in self._asked

    def ask(self, entry: str, *, dtype: torch.dtype, lent: Mapping[str, Tensor] | None = None, **offered: Any) -> Tensor:
        """The function's answer, learned tensors given in `dtype`, those that the attention lends it among them."""
        learned = {name: parameter.to(dtype) for name, parameter in self.named_parameters(recurse=False)}
        learned |= {name: tensor.to(dtype) for name, tensor in (lent or {}).items()}
        return self._asked[entry](settings=self.settings, params=learned, dtype=dtype, **learned, **offered)

    def reset_parameters(self) -> None:
        """Draw the learned tensors anew."""
        draw_parameters(self, self.init_std)

    def extra_repr(self) -> str:
        return repr(self.settings)


def own_parameters(module: nn.Module, settings: Any) -> None:
    """Register the scheme's learned tensors on a module, under their names; what it is lent belongs to the attention."""
    for name, shape in settings.parameters().items():
        if name in _projections(settings):
            continue
        module.register_parameter(name, nn.Parameter(torch.empty(shape)))


def draw_parameters(module: nn.Module, std: float) -> None:
    """Draw the module's own tensors from a normal distribution."""
    for parameter in module.parameters(recurse=False):
        nn.init.normal_(parameter, std=std)


def check_settings(where: str, settings: Any) -> None:
    """Refuse what is no settings object."""
    is_settings = hasattr(settings, "form") and not isinstance(settings, type)
    required = "settings of a scheme, such as ALiBi(num_heads=8)"
    got = settings.__name__ + ", a class" if isinstance(settings, type) else repr(settings)
    require(where, "schemes", is_settings, required, got, 'relpos.settings_class("alibi") finds the class by name.')


def check_together(where: str, schemes: Sequence[Any], sizes: dict[str, int]) -> None:
    """Refuse schemes that do not fit the module or one another."""
    for settings in schemes:
        check_settings(where, settings)
    names = [name_of(settings) for settings in schemes]
    twice = [name for name in names if names.count(name) > 1]
    require(where, "schemes", not twice, "different from one another", names, "Give each once.")
    owners = [name for name, settings in zip(names, schemes, strict=True) if {"scale", "content"} & set(dir(settings))]
    hint = "q·k is scaled once: which of them is meant cannot be told."
    require(where, "schemes", len(owners) < 2, "at most one that has a scale of its own", owners, hint)
    for name, settings in zip(names, schemes, strict=True):
        for size, wanted in sizes.items():
            said = getattr(settings, size, wanted)
            hint = "It follows from the sizes of the module."
            require(where, size, said == wanted, f"{wanted} in the settings of {name}", said, hint)


def lent(settings: Any, attention: nn.Module) -> dict[str, Tensor]:
    """Weights and biases of the attention's own projections that a scheme projects its tables with."""
    return {name: getattr(getattr(attention, side), part) for name, (side, part) in _projections(settings).items()}


def check_lent(where: str, schemes: Sequence[Any], sizes: dict[str, Any], bias: bool) -> None:
    """Refuse projections that do not fit tables which are projected by them."""
    for settings in schemes:
        if _projections(settings):
            shared = f"with tables of {name_of(settings)} that are projected as queries and keys are"
            num_heads, groups = sizes["num_heads"], sizes["num_kv_heads"]
            require(where, "num_kv_heads", groups == num_heads, f"num_heads = {num_heads} {shared}", groups)
            require(where, "bias", bias, f"True {shared}", bias)


def axes_of(where: str, schemes: Sequence[Any]) -> int:
    """How many coordinates a position has: the same for all schemes that look at positions."""
    looking = [settings for settings in schemes if settings.form != "none"]
    axes = {name_of(settings): getattr(settings, "axes", 1) for settings in looking}
    hint = "A position has as many coordinates as there are axes."
    require(where, "schemes", len(set(axes.values())) < 2, "of one number of axes", axes, hint)
    return next(iter(axes.values()), 1)


def own_scale(schemes: Sequence[Any], head_dim: int) -> float:
    """The scale of q·k: that of the scheme that has its own, else 1/√D."""
    return next((settings.scale(head_dim) for settings in schemes if hasattr(settings, "scale")), head_dim**-0.5)


def _projections(settings: Any) -> dict[str, tuple[str, str]]:
    return settings.projections() if hasattr(settings, "projections") else {}


def _has(settings: Any, entry: str) -> bool:
    return hasattr(import_module(f"relpos.impls.{name_of(settings)}"), entry)
