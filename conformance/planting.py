"""The definition itself as an implementation, with or without a fault in it.

Without one it must pass every law at every level, before anyone else is judged. With one it must fail the law that the
fault names. It answers in float32, from tensors, like a stranger's NumPy function.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from relpos.conformance.expected import expected, forms_levels
from relpos.conformance.faults.api import Fault, Planted
from relpos.conformance.plan import Inputs, Plan
from relpos.conformance.subject import Subject, plug_in
from relpos.spec.positions import Explicit
from relpos.spec.registry import schemes, settings_class

NO_FAULT = Fault("none", "no fault", law="")


def plant(scheme: str, level: str, fault: Fault | Planted = NO_FAULT) -> Subject:
    """A subject that answers what the definition says with the fault in it."""
    name = f"{scheme}/{level}/{fault.name}"
    if isinstance(fault, Planted):
        return plug_in(fault.target, spec=name, scheme=scheme, given=fault.settings, claims=fault.claims)
    target = _maker(settings_class(scheme).form, level)(fault)
    return plug_in(target, spec=name, scheme=scheme, given=fault.settings, claims={**_claims(level), **fault.claims})


def __getattr__(name: str) -> Any:
    """`alibi_as_contribution` and so on: a definition under a name that `--impl` can take."""
    scheme, found, level = name.partition("_as_")
    if not found or scheme not in schemes() or level not in forms_levels(settings_class(scheme)):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    target = _maker(settings_class(scheme).form, level)(NO_FAULT)
    target.__relpos__ = {"scheme": scheme, **_claims(level)}  # type: ignore[attr-defined]
    return target


def _claims(level: str) -> dict[str, Any]:
    # Loops have no tiles, and take a minute at a thousand keys or when they are compiled.
    return {"level": level, "gradient": False, "binds": ("num_kv_heads",), "unclaimed": ("L24", "L25")}


def levels_of(scheme: str, fault: Fault | Planted) -> tuple[str, ...]:
    """Levels at which a fault can be planted in a scheme."""
    if isinstance(fault, Planted):
        return ("itself",)
    there = forms_levels(settings_class(scheme))
    return tuple(level for level in there if level in fault.levels)


def _maker(form: str, level: str) -> Callable[[Fault], Callable[..., np.ndarray]]:
    if level != "contribution":
        return {"logits": _logits, "attention": _attention}[level]
    return {"bias": _bias, "embedding": _embedding, "rotation": _rotation}[form]


def _answer(fault: Fault, level: str, name: str, given: Inputs) -> np.ndarray:
    return expected(fault.apply(given), level)[name].value.astype(np.float32)


def _inputs(settings: Any, query_positions: Any, key_positions: Any, sequence_length: Any = None, **more: Any) -> Inputs:
    at, axes = (query_positions, key_positions), getattr(settings, "axes", 1)
    queries, keys = (Explicit(np.asarray(p), axes=axes, context_length=sequence_length) for p in at)
    q = more.get("q", np.zeros((1, 1, len(queries), 1)))
    k = more.get("k", np.zeros((1, 1, len(keys), 1)))
    samples = max(len(queries.array()) if queries.per_sample else 1, len(q))
    plan = Plan(batch=samples, heads=q.shape[1], query_length=len(queries), key_length=len(keys), head_dim=q.shape[-1])
    filled = {"params": {}, "v": k, "mask": None, "causal": False, "scale": None, **more, "q": q, "k": k}
    return Inputs(plan=plan, settings=settings, query_positions=queries, key_positions=keys, **filled)


def _float(x: Any) -> np.ndarray:
    return np.asarray(x, dtype=np.float64)


def _stated(mask: np.ndarray) -> np.ndarray | None:
    """A mask that hides nothing is none, as it is for the definition."""
    return None if mask.all() else mask


def _floats(params: dict[str, Any]) -> dict[str, np.ndarray]:
    return {name: _float(value) for name, value in params.items()}


def _bias(fault: Fault) -> Callable[..., np.ndarray]:
    def bias(settings, params, query_positions, key_positions):
        given = _inputs(settings, query_positions, key_positions, params=_floats(params))
        bias = _answer(fault, "contribution", "bias", given)
        per_sample = given.query_positions.array().ndim == 2 and bias.ndim == 3  # one for all samples, where that is the fault
        return np.broadcast_to(bias, (given.plan.batch, *bias.shape)) if per_sample else bias

    return bias


def _embedding(fault: Fault) -> Callable[..., np.ndarray]:
    def encode(settings, params, positions):
        return _answer(fault, "contribution", "embedding", _inputs(settings, positions, positions, params=_floats(params)))

    return encode


def _rotation(fault: Fault) -> Callable[..., np.ndarray]:
    def rotate(settings, x, positions, role, sequence_length):
        x = _float(x)
        given = _inputs(settings, positions, positions, sequence_length, q=x, k=x)
        return _answer(fault, "contribution", f"rotated {role}", given)

    return rotate


def _logits(fault: Fault) -> Callable[..., np.ndarray]:
    def logits(settings, params, q, k, query_positions, key_positions, sequence_length, scale):
        more = {"q": _float(q), "k": _float(k), "params": _floats(params), "scale": scale}
        given = _inputs(settings, query_positions, key_positions, sequence_length, **more)
        return _answer(fault, "logits", "logits", given)

    return logits


def _attention(fault: Fault) -> Callable[..., np.ndarray]:
    def attention(settings, params, q, k, v, query_positions, key_positions, sequence_length, mask, causal, scale):
        q, k, v, params = _float(q), _float(k), _float(v), _floats(params)
        more = {"params": params, "mask": _stated(np.asarray(mask)), "causal": causal, "scale": scale}
        given = _inputs(settings, query_positions, key_positions, sequence_length, q=q, k=k, v=v, **more)
        return _answer(fault, "attention", "output", given)

    return attention
