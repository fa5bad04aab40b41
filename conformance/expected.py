"""What the definition says an implementation returns, with the size of every element's rounding bound."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from relpos.conformance.breath import breathe
from relpos.conformance.magnitude import (
    Size,
    bias_size,
    embedding_size,
    logits_size,
    output_size,
    placed_size,
    rotated_size,
    seen_values,
)
from relpos.conformance.plan import Inputs
from relpos.spec.attention import allowed, attention, default_scale, encoded, logits, placed, repeated, softmax

# Axes of every result, by name: what a message calls them.
AXES: dict[str, tuple[str, ...]] = {
    "bias": ("head", "query", "key"),
    "embedding": ("position", "column"),
    "rotated query": ("batch", "head", "query", "column"),
    "rotated key": ("batch", "head", "key", "column"),
    "logits": ("batch", "head", "query", "key"),
    "output": ("batch", "head", "query", "column"),
}


def axis_of(name: str, axis: str) -> int:
    """Where an axis of a result lies, counted from the end: a bias per sample has one axis more in front."""
    return AXES[name].index(axis) - len(AXES[name])


@dataclass(frozen=True)
class Expected:
    """One array the definition prescribes; kind names its row in the tolerance table."""

    name: str
    kind: str
    value: np.ndarray
    size: Size


def expected(inputs: Inputs, level: str) -> dict[str, Expected]:
    """Results by name at one level, from the definition."""
    breathe()
    if level == "attention":
        return {"output": _output(inputs)}
    if level == "logits":
        return {"logits": _logits(inputs)}
    form = inputs.settings.form
    return {"bias": _bias, "embedding": _embedding, "rotation": _rotated}[form](inputs)


def scale_of(inputs: Inputs) -> float:
    """The scale in force: the given one, else the scheme's."""
    return default_scale(inputs.settings, inputs.q.shape[-1]) if inputs.scale is None else inputs.scale


def visible(inputs: Inputs) -> np.ndarray:
    """Which key a query may attend to, boolean [B, H, Lq, Lk]."""
    shape = (*inputs.q.shape[:3], inputs.k.shape[2])
    hide = getattr(inputs.settings, "segments_hide", True)
    at = (inputs.query_positions, inputs.key_positions)
    return allowed(shape, *at, mask=inputs.mask, causal=inputs.causal, segments_hide=hide)


def _bias(inputs: Inputs) -> dict[str, Expected]:
    s, queries, keys = inputs.settings, inputs.query_positions, inputs.key_positions
    rows = []
    for b in range(inputs.plan.batch):
        value = s.bias(inputs.params, queries.row(b), keys.row(b))
        rows.append((value, bias_size(s, inputs.params, queries.row(b), keys.row(b), value)))
    if not queries.per_sample and not keys.per_sample:
        value, size = rows[0]
        return {"bias": Expected("bias", "bias", value, size)}
    size = Size(np.stack([r[1].M for r in rows]), np.stack([r[1].P for r in rows]), rows[0][1].n)
    return {"bias": Expected("bias", "bias", np.stack([r[0] for r in rows]), size)}


def _embedding(inputs: Inputs) -> dict[str, Expected]:
    value = encoded(inputs.settings, inputs.params, inputs.query_positions.row(0))
    size = embedding_size(inputs.settings, value, inputs.query_positions.row(0))
    return {"embedding": Expected("embedding", "embedding", value, size)}


def _rotated(inputs: Inputs) -> dict[str, Expected]:
    found = {}
    for role, x, positions in (("query", inputs.q, inputs.query_positions), ("key", inputs.k, inputs.key_positions)):
        value = placed(inputs.settings, x, positions, role)
        samples = [rotated_size(inputs.settings, x[b], positions.row(b), role) for b in range(len(x))]
        size = Size(np.stack([s.M for s in samples]), np.stack([s.P for s in samples]), samples[0].n)
        found[f"rotated {role}"] = Expected(f"rotated {role}", "rotated", value, size)
    return found


def _logits(inputs: Inputs) -> Expected:
    scale = scale_of(inputs)
    value = logits(
        inputs.settings, inputs.params, inputs.q, inputs.k, inputs.query_positions, inputs.key_positions, scale=scale
    )
    size = logits_size(inputs.settings, inputs.params, inputs.q, inputs.k, inputs.query_positions, inputs.key_positions, scale)
    return Expected("logits", "logits", value, size)


@dataclass(frozen=True)
class Parts:
    """Attention taken apart: what the output and its gradients are made of."""

    score: Expected
    weights: np.ndarray
    seen: np.ndarray
    seen_size: Size
    out: np.ndarray


def parts(inputs: Inputs) -> Parts:
    """Scores, weights, seen values and output of the definition."""
    score = _logits(inputs)
    weights = softmax(score.value, visible(inputs))
    s, queries, keys = inputs.settings, inputs.query_positions, inputs.key_positions
    v = repeated(inputs.v, inputs.q.shape[1])
    seen = seen_values(s, inputs.params, placed(s, v, keys, "value", inputs.params), queries, keys)
    value = placed_size(s, v, keys, "value", inputs.params)
    sizes = {name: np.abs(p) for name, p in inputs.params.items()}
    M = seen_values(s, sizes, value.M, queries, keys)
    P = np.broadcast_to(value.P[:, :, None], M.shape)
    out = (weights[..., None] * seen).sum(-2)
    return Parts(score, weights, seen, Size(M, P, value.n), out)


def _output(inputs: Inputs) -> Expected:
    p = parts(inputs)
    i = inputs
    value = attention(
        i.settings, i.params, i.q, i.k, i.v, i.query_positions, i.key_positions, mask=i.mask, causal=i.causal, scale=i.scale
    )
    return Expected("output", "output", value, output_size(p.score.size, p.weights, p.out, p.seen, p.seen_size))


def forms_levels(settings: Any) -> tuple[str, ...]:
    """Levels at which a scheme can be judged: content-dependent terms and none start at the logits."""
    return ("logits", "attention") if settings.form in ("none", "logits") else ("contribution", "logits", "attention")
