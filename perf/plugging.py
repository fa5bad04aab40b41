"""A variant plugged in for one shape: whether it can be had there at all, and what it is given besides q, k and v."""

from dataclasses import replace
from typing import Any

import numpy as np

from relpos.conformance.loading import load
from relpos.conformance.plan import Inputs, Plan
from relpos.conformance.plan import inputs as built
from relpos.conformance.subject import Subject, plug_in
from relpos.perf.point import Shape, Variant
from relpos.perf.settings import window

TIMED = ("causal", "dtype", "device", "scale")  # what is given of the options that an implementation has


class Unsupported(Exception):
    """A variant cannot be had at a shape: the reason, in words for the row."""


def subject_of(variant: Variant, shape: Shape, settings: dict[str, Any]) -> Subject:
    target = load(variant.spec)
    plain = plug_in(target, spec=variant.spec, scheme=variant.scheme, given=settings, claims=dict(variant.claims))
    if shape.dtype not in plain.dtypes:
        raise Unsupported(f"{shape.dtype} is not claimed")
    if plain.kind == "resizer":
        raise Unsupported("it resizes tables")
    card = replace(plain.card, binds=tuple(name for name in plain.card.binds if plain.card.rename.get(name, name) in TIMED))
    found = plug_in(target, spec=variant.spec, scheme=variant.scheme, given=settings, claims={**dict(variant.claims),
                    "binds": card.binds})  # fmt: skip
    if shape.mode == "decode" and found.kind != "decoder" and found.positions == "contiguous" and found.card.corner is None:
        raise Unsupported("it cannot be told where a lone query lies")
    return _able(found, shape)


def _able(subject: Subject, shape: Shape) -> Subject:
    if subject.on_grid and (shape.causal or shape.mode == "decode"):
        raise Unsupported("positions have several axes: nothing is causal, nothing is decoded")
    flagged = "causal" in subject.asks or subject.level != "attention" or subject.card.softmax == "causal"
    if subject.card.softmax == "causal" and not shape.causal and shape.mode != "decode":
        raise Unsupported("it is right under a causal softmax only")
    if shape.causal and not flagged and subject.kind != "decoder":
        raise Unsupported("it has no causal flag")
    return subject


def inputs_of(subject: Subject, shape: Shape, settings: dict[str, Any]) -> Inputs:
    """Positions, settings and learned tensors; q, k and v are handed in as tensors later."""
    grid = window(shape.key_length - getattr(subject.cls, "special", 0)) if subject.on_grid else None
    plan = Plan(
        settings=settings, dtype=shape.dtype, batch=shape.batch, heads=shape.heads, head_dim=shape.head_dim, grid=grid, seed=1,
        query_length=shape.query_length, key_length=shape.key_length, offset=shape.key_length - shape.query_length,
        causal=shape.causal and shape.mode != "decode",
    )  # fmt: skip
    q, k = (np.broadcast_to(0.0, (shape.batch, shape.heads, n, shape.head_dim)) for n in (plan.query_length, plan.key_length))
    if subject.form == "embedding" and subject.level == "contribution":
        q = k = np.broadcast_to(0.0, (shape.batch, 1, plan.key_length, shape.heads * shape.head_dim))
    return built(plan.but(batch=1, heads=1, head_dim=1), subject.scheme).but(plan=plan, q=q, k=k, v=k)
