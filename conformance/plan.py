"""A plan is one drawn input, small enough to print, store and replay; `inputs` builds the tensors it stands for."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from relpos.conformance.errors import UsageError
from relpos.conformance.precision import rounded, smallest_normal
from relpos.spec.contract import SettingsError
from relpos.spec.positions import Explicit, Grid, Positions, Range
from relpos.spec.registry import settings_class

# Of η: products of two tiny numbers are still normal ones, so that underflow excuses nothing.
TINY_POWER = 0.25
# Logits in the hundreds: an exponential without the maximum taken off overflows, first order still holds in float32.
LOUD = 16.0
# Fields that a description names where they differ from their default; extras that are told otherwise, or not at all.
SAID = (
    *("offset", "grid", "query_positions", "key_positions", "context_length", "content", "dtype", "causal", "mask", "scale"),
    "seed",
)
PRINTED = "--case must be the JSON that a failure printed"
UNSAID = ("calls", "steps", "subset", "small", "vary", "how", "samples", "computed", "second", "path", "variant")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One input of a law.

    offset            absolute index of query 0 when key 0 has index 0; used when no positions are listed
    context_length    stated length of the context of all samples; None: the largest position + 1
    query_positions   listed positions, one row or one row per sample; None: contiguous. On several axes, tuples and None
    grid              (height, width) of the tokens of a whole grid, for schemes whose positions have several axes
    content           "normal" | "one_hot" | "ones" | "tiny" | "zeros" | "loud": what q, k, v and the parameters hold
    mask              "none" | "random" | "padding" | "empty": which keys are hidden besides the causal ones
    extra             what a single law needs besides
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    batch: int = 1
    heads: int = 1
    kv_heads: int | None = None
    query_length: int = 1
    key_length: int = 1
    head_dim: int = 2
    offset: int = 0
    query_positions: tuple | None = None
    key_positions: tuple | None = None
    context_length: int | None = None
    grid: tuple | None = None
    content: str = "normal"
    seed: int = 0
    dtype: str = "float32"
    causal: bool = False
    mask: str = "none"
    scale: float | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    def but(self, **changes: Any) -> "Plan":
        """This plan with some fields replaced."""
        return replace(self, **changes)

    def to_json(self) -> str:
        """One line that `from_json` reads back; fields at their default are left out."""
        default = Plan()
        said = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != getattr(default, f.name)}
        return json.dumps({name: dict(v) if isinstance(v, Mapping) else v for name, v in said.items()}, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> "Plan":
        """Read a plan; UsageError if it is not one."""
        try:
            said = json.loads(text)
        except ValueError as error:
            raise UsageError(f"{PRINTED}, got {text!r} ({error}).") from None
        if not isinstance(said, dict):
            raise UsageError(f"{PRINTED}, got {text!r}, which is no object in braces.")
        known = [f.name for f in fields(cls)]
        if unknown := [name for name in said if name not in known]:
            raise UsageError(f"{PRINTED}, got {text!r}. No input has `{unknown[0]}`; it may have {', '.join(known)}.")
        for name in ("settings", "extra"):
            if not isinstance(said.get(name, {}), dict):
                raise UsageError(f"{PRINTED}, got {text!r}. `{name}` must be an object in braces.")
        for one in fields(cls):
            if type(one.default) is int and type(said.get(one.name, 0)) is not int:
                raise UsageError(f"{PRINTED}, got {text!r}. `{one.name}` must be a whole number.")
        try:
            return cls(**{name: _tuples(value) for name, value in said.items()})
        except (ValueError, TypeError, AttributeError) as error:
            raise UsageError(f"{PRINTED}, got {text!r} ({error}).") from None

    def describe(self) -> str:
        """The plan in words: settings, sizes, positions, dtype, seed."""
        default, said = Plan(), []
        said += [f"{name} = {value!r}" for name, value in self.settings.items() if value is not None]
        sizes = ["query_length", "key_length"]
        sizes += [n for n in ("batch", "heads", "kv_heads", "head_dim") if getattr(self, n) != getattr(default, n)]
        named = {"heads": "num_heads", "head_dim": "embed_dim" if "embed_dim" in self.settings else "head_dim"}
        for name in sizes:
            if getattr(self, name) is not None and named.get(name, name) not in self.settings:
                said.append(f"{named.get(name, name)} = {getattr(self, name)}")
        for name in SAID:
            if getattr(self, name) != getattr(default, name):
                said.append(f"{name} = {getattr(self, name)}")
        said += [f"{name} = {_told(value, name)}" for name, value in self.extra.items() if name not in UNSAID]
        first, calls = self.but(extra={}).to_json(), self.extra.get("calls", ())
        others = calls[1:] if calls[:1] == (first,) else calls
        after = [f"; then {Plan.from_json(call).describe()}" for call in others]
        return ", ".join(said) + "".join(after)


@dataclass(frozen=True)
class Inputs:
    """The tensors of a plan, float64 holding values of the working dtype; q, k, v [B, H, L, D], mask [B, 1, Lq, Lk]."""

    plan: Plan
    settings: Any
    params: dict[str, np.ndarray]
    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    query_positions: Positions
    key_positions: Positions
    mask: np.ndarray | None
    causal: bool
    scale: float | None

    def but(self, **changes: Any) -> "Inputs":
        """These inputs with some replaced."""
        return replace(self, **changes)


def inputs(plan: Plan, scheme: str) -> Inputs:
    """Build the tensors of a plan; UsageError if the settings have no meaning."""
    try:
        settings = settings_class(scheme)(**plan.settings)
    except (SettingsError, TypeError) as error:
        raise UsageError(_settings_help(scheme, plan, error)) from None
    B, H, Lq, Lk, D = plan.batch, plan.heads, plan.query_length, plan.key_length, plan.head_dim
    Hkv = H if plan.kv_heads is None else plan.kv_heads
    fill = _Filler(plan)
    q, k, v = fill((B, H, Lq, D)), fill((B, Hkv, Lk, D)), fill((B, Hkv, Lk, D))
    params = {name: fill(shape) for name, shape in settings.parameters().items()}
    queries, keys = _positions(plan, settings)
    return Inputs(plan, settings, params, q, k, v, queries, keys, _mask(plan, fill.generator), plan.causal, plan.scale)


class _Filler:
    def __init__(self, plan: Plan) -> None:
        self.plan, self.generator = plan, np.random.default_rng(plan.seed)

    def __call__(self, shape: tuple[int, ...]) -> np.ndarray:
        normal = self.generator.standard_normal(shape)
        if self.plan.content == "ones":
            normal = np.ones(shape)
        elif self.plan.content == "zeros":
            normal = np.zeros(shape)
        elif self.plan.content == "loud":
            normal = normal * LOUD
        elif self.plan.content == "tiny":
            normal = normal * smallest_normal(self.plan.dtype) ** TINY_POWER
        elif self.plan.content == "one_hot" and normal.size:
            hot = self.generator.integers(normal.shape[-1], size=shape[:-1])
            normal = np.eye(shape[-1])[hot]
        return rounded(normal, self.plan.dtype)


def _positions(plan: Plan, settings: Any) -> tuple[Positions, Positions]:
    axes, context = getattr(settings, "axes", 1), plan.context_length
    queries: Positions = Range(plan.offset, plan.query_length, context)
    keys: Positions = Range(0, plan.key_length, context)
    if plan.grid is not None:
        queries = keys = Grid(plan.grid, getattr(settings, "special", 0))
    if plan.query_positions is not None:
        queries = Explicit(plan.query_positions, axes=axes, context_length=context)
    if plan.key_positions is not None:
        keys = Explicit(plan.key_positions, axes=axes, context_length=context)
    return queries, keys


def _mask(plan: Plan, generator: np.random.Generator) -> np.ndarray | None:
    if plan.mask == "none":
        return None
    shape = (plan.batch, 1, plan.query_length, plan.key_length)
    keep = generator.random(shape) < 0.7  # most keys stay, so that a hidden one matters
    if plan.mask == "padding":
        keep = np.broadcast_to(keep[:, :, :1], shape).copy()
    if plan.mask in ("random", "padding"):
        keep[..., 0] = True
    if plan.mask == "empty":
        keep[:, :, plan.seed % plan.query_length] = False
    return keep


def _settings_help(scheme: str, plan: Plan, error: Exception) -> str:
    if isinstance(error, SettingsError):
        return str(error)
    known = ", ".join(f.name for f in fields(settings_class(scheme)))
    return f"{scheme}: its settings are {known or 'none'}; got {', '.join(plan.settings) or 'none'} ({error})."


def _told(value: Any, name: str) -> str:
    summed = isinstance(value, tuple) and all(isinstance(v, int) for v in value) and not name.endswith("_window")
    return " + ".join(map(str, value)) if summed else str(value)


def _tuples(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _tuples(v) for name, v in value.items()}
    return tuple(_tuples(v) for v in value) if isinstance(value, list) else value
