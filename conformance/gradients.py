"""Gradients: what autograd gives for an implementation, and what the definition prescribes, with its rounding bound.

Every input enters the logits and the seen values linearly when the others are held, so its derivative is a difference of
two evaluations of the definition, exact up to float64 rounding. With G the cotangent of the logits,

    attention   s_ij = g_i · v_ij       G_ij = w_ij (s_ij − Σ_k w_ik s_ik)
    input x     dx = Σ_ij G_ij ∂logit_ij/∂x  +  Σ_ij w_ij g_i · ∂v_ij/∂x

and M follows term by term: |G| counts (7 + M_ij + g_ij + Σ_k w_ik (M_ik + g_ik)) roundings of w, g_ij as in `magnitude.py`, and
one of every product.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from relpos.conformance.breath import breathe
from relpos.conformance.calling import Instance, matched_parameters
from relpos.conformance.contribution_gradients import change, of_contribution, summed
from relpos.conformance.derivatives import derivatives
from relpos.conformance.errors import Raised
from relpos.conformance.expected import Expected, parts, scale_of
from relpos.conformance.gradients_rows import into_rows
from relpos.conformance.magnitude import Size, gaps, logits_size, seen_values
from relpos.conformance.plan import Inputs
from relpos.conformance.reading import to_numpy
from relpos.conformance.subject import Subject
from relpos.conformance.tolerance import units
from relpos.spec.attention import logits

# A term is linear in each parameter, so a step may be long: over this one, the rounding of all that is held is no more
# than 2⁻⁴⁰ of it.
STEP = 2.0**40

# How a cotangent lies in memory: a sum sends one number to all places, a transposed layer or a matrix its own order.
ARRIVALS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "contiguous": torch.Tensor.contiguous,
    "expanded": lambda g: g.flatten()[:1].view((1,) * g.ndim).expand_as(g) if (g == g.flatten()[0]).all() else g,
    "expanded over columns": lambda g: g[..., :1].expand_as(g) if (g == g[..., :1]).all() else g,
    "transposed": lambda g: g.transpose(-2, -3).contiguous().transpose(-2, -3) if g.ndim > 2 else g,
    "column-major": lambda g: g.mT.contiguous().mT,
}


def float_names(subject: Subject, given: Inputs) -> tuple[str, ...]:
    """Float inputs that the implementation is given or owns, for these settings."""
    asks = subject.called_with.ours | (
        subject.built_with.ours if subject.kind == "builder" and subject.built_with else frozenset()
    )
    names = [n for n in ("q", "k", "v") if n in asks]
    if "x" in asks:
        names += ["x"] if subject.form == "embedding" else ["x of the query", "x of the key"]
    learned = set(given.params) if "params" in asks or subject.owns_parameters else set(given.params) & asks
    return (*names, *sorted(learned))


def backward(
    instance: Instance, given: Inputs, wanted: frozenset[str], cotangents: dict[str, np.ndarray]
) -> dict[str, np.ndarray | None]:
    """Gradients of Σ result · cotangent for the wanted inputs, in our layout; None where none arrives."""
    raw, leaves = watched(instance, given, wanted)
    lies = ARRIVALS[given.plan.extra.get("arrives", "contiguous")]
    pairs = [(raw[n], lies(torch.from_numpy(g).to(raw[n]))) for n, g in cotangents.items() if raw[n].requires_grad]
    if pairs:
        try:
            torch.autograd.backward([r for r, _ in pairs], [g for _, g in pairs])
        except (Exception, SystemExit) as error:
            raise Raised(error) from error
    swap = instance.subject.card.layout == "blhd"
    return {n: _gradient(leaves.get(n), n, swap) for n in wanted}


def watched(instance: Instance, given: Inputs, wanted: frozenset[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Results by name, and the leaves that gradients are wanted of; no other parameter of a module needs one."""
    module = instance.target if isinstance(instance.target, torch.nn.Module) else None
    if module is not None:
        for parameter in module.parameters():
            parameter.requires_grad_(False)
            parameter.grad = None
    if module is not None and instance.subject.owns_parameters:
        for name, parameter in matched_parameters(module, given, instance.subject).items():
            parameter.requires_grad_(name in wanted)
    return instance.tensors(given, wanted)


def _gradient(leaf: Any, name: str, swap: bool) -> np.ndarray | None:
    return None if leaf is None or leaf.grad is None else ours(leaf.grad, name, swap)


def ours(gradient: Any, name: str, swap: bool) -> np.ndarray:
    """A gradient of an input, or something laid out as one, in our layout; the other way round alike."""
    found = to_numpy(gradient) if isinstance(gradient, torch.Tensor) else gradient
    return found.swapaxes(1, 2) if swap and name in ("q", "k", "v", "x of the query", "x of the key") else found


def prescribed(given: Inputs, level: str, names: tuple[str, ...], cotangents: dict[str, np.ndarray]) -> dict[str, Expected]:
    """The definition's gradients with M and P."""
    if level == "contribution":
        return {n: of_contribution(given, n, cotangents) for n in names}
    flow = flow_of(given, level, cotangents)
    return {n: of_input(given, n, flow) for n in names}


@dataclass(frozen=True)
class Flow:
    """Cotangent of the logits with its M and P, and, at attention level, weights, their M and the output's cotangent g."""

    G: np.ndarray
    M: np.ndarray
    P: np.ndarray
    n: int
    weights: np.ndarray | None = None
    loose: np.ndarray | None = None
    g: np.ndarray | None = None


def flow_of(given: Inputs, level: str, cotangents: dict[str, np.ndarray]) -> Flow:
    if level == "logits":
        g = cotangents["logits"]
        return Flow(g, np.abs(g), np.zeros_like(g), 2)
    g, p = cotangents["output"], parts(given)
    w, score = p.weights, p.score.size
    s = (g[..., None, :] * p.seen).sum(-1)
    s_size = (np.abs(g)[..., None, :] * p.seen_size.M).sum(-1)
    mean, mean_size = (w * s).sum(-1, keepdims=True), (w * s_size).sum(-1, keepdims=True)
    # A weight is off by its own logit, by the divisor that all share, and by the distance from the greatest logit.
    moved = score.M + gaps(w)
    doubt = 7 + moved + (w * moved).sum(-1, keepdims=True)
    angle = score.P + (w * score.P).sum(-1, keepdims=True)
    # The mean is an average of s under weights that are off themselves.
    drift = (w * doubt * np.abs(s - mean)).sum(-1, keepdims=True)
    M = w * (doubt * np.abs(s - mean) + s_size + mean_size + drift)
    P = w * (angle * np.abs(s - mean) + (w * angle * np.abs(s - mean)).sum(-1, keepdims=True))
    return Flow(w * (s - mean), M, P, score.n + w.shape[-1], w, w * doubt, g)


def of_input(given: Inputs, name: str, flow: Flow) -> Expected:
    if name in ("q", "k"):
        value, M, P = _through_vectors(given, name, flow)
    elif name == "v":
        value, M, P = _through_values(given, flow)
    elif given.settings.form == "embedding":
        value, M, P = _through_embedding(given, name, flow)
    else:
        value, M, P = _through_table(given, name, flow)
    terms = flow.n + given.q.shape[2] * given.k.shape[2] * given.q.shape[0] * given.q.shape[1]
    return Expected(f"gradient of {name}", "gradient", value, Size(M, P, terms))


def _through_vectors(given: Inputs, name: str, flow: Flow) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """q or k: row i of q moves only row i of the logits, so a column is moved in all rows at once."""
    x = getattr(given, name)
    value, M, P = np.zeros_like(x), np.zeros_like(x), np.zeros_like(x)
    zero, u = given.but(**{name: np.zeros_like(x)}), units(given.plan.dtype).u
    base, derive = _score(zero), derivatives(given.settings)
    for c in range(x.shape[-1]):
        breathe()
        unit = np.zeros_like(x)
        unit[..., c] = 1.0
        moved = given.but(**{name: unit})
        J, size = change(_score(moved), base), _score_size(moved)
        if derive is not None:
            J, S = derive.of_vectors(given, name, c)
            size = Size(S, np.zeros_like(S), size.n)
        value[..., c] = _fold(flow.G * J, name, x.shape)
        # Where G and J are both 0 exactly, the product of their errors is what is left.
        M[..., c] = _fold(flow.M * (np.abs(J) + u * size.M) + np.abs(flow.G) * size.M, name, x.shape)
        P[..., c] = _fold(flow.P * (np.abs(J) + u * size.M) + (np.abs(flow.G) + u * flow.M) * size.P, name, x.shape)
    return value, M, P


def _fold(cells: np.ndarray, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Sum [B, H, Lq, Lk] over keys for q; over queries and the heads that share a key head for k."""
    if name == "q":
        return cells.sum(-1)
    B, Hkv, Lk = shape[:3]
    return cells.sum(-2).reshape(B, Hkv, -1, Lk).sum(2)


def _through_values(given: Inputs, flow: Flow) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    B, Hkv, Lk, D = given.v.shape
    if flow.weights is None or flow.g is None or flow.loose is None:
        return np.zeros_like(given.v), np.zeros_like(given.v), np.zeros_like(given.v)
    w, g = flow.weights.swapaxes(-1, -2), flow.g
    loose = flow.loose.swapaxes(-1, -2)
    group = lambda a: a.reshape(B, Hkv, -1, Lk, D).sum(2)  # noqa: E731
    return group(w @ g), group(loose @ np.abs(g)), np.zeros_like(given.v)


def _through_table(given: Inputs, name: str, flow: Flow) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One entry at a time, the other parameters as they are: a term may be a product of two of them."""
    table = given.params[name]
    if (derive := derivatives(given.settings)) is not None:
        J, S = derive.of_parameter(given, name)
        return summed(flow.G, J), summed(flow.M + np.abs(flow.G), S), summed(flow.P, np.abs(J))
    value, M, P = np.zeros_like(table), np.zeros_like(table), np.zeros_like(table)
    held = {**given.params, name: np.zeros_like(table)}
    without = given.but(params=held)
    base, base_size, base_seen = _score(without), _score_size(without), _seen_of_silence(given, held)
    for cell in np.ndindex(table.shape):
        breathe()
        stepped = {**held, name: np.zeros_like(table)}
        stepped[name][cell] = STEP
        moved = given.but(params=stepped)
        J, size = change(_score(moved), base) / STEP, _score_size(moved)
        value[cell] = (flow.G * J).sum()
        M[cell] = (flow.M * np.abs(J) + np.abs(flow.G) * (size.M - base_size.M) / STEP).sum()
        P[cell] = (flow.P * np.abs(J) + np.abs(flow.G) * (size.P - base_size.P) / STEP).sum()
        if flow.weights is not None and flow.g is not None and flow.loose is not None and base_seen is not None:
            seen = (_seen_of_silence(given, stepped) - base_seen) / STEP
            direct = (flow.g[..., None, :] * seen).sum(-1)
            value[cell] += (flow.weights * direct).sum()
            M[cell] += (flow.loose * (np.abs(flow.g)[..., None, :] * np.abs(seen)).sum(-1)).sum()
    return value, M, P


def _seen_of_silence(given: Inputs, params: dict[str, np.ndarray]) -> Any:
    """The value term of every pair alone, [B, H, Lq, Lk, D]; None where there is none."""
    if not hasattr(given.settings, "values"):
        return None
    silent = np.zeros((given.q.shape[0], given.q.shape[1], given.k.shape[2], given.v.shape[-1]))
    return seen_values(given.settings, params, silent, given.query_positions, given.key_positions)


def _through_embedding(given: Inputs, name: str, flow: Flow) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A row of the table is added wherever its position is: to queries, keys and values, in every head."""
    found = [(_through_vectors(given, x, flow), at) for x, at in (("q", given.query_positions), ("k", given.key_positions))]
    found.append((_through_values(given, flow), given.key_positions))
    value, M, P = (sum(into_rows(given, name, parts[n], at) for parts, at in found) for n in range(3))
    return np.asarray(value), np.asarray(M), np.asarray(P)


def _score(given: Inputs) -> np.ndarray:
    i = given
    return logits(i.settings, i.params, i.q, i.k, i.query_positions, i.key_positions, scale=scale_of(i))


def _score_size(given: Inputs) -> Size:
    i = given
    return logits_size(i.settings, i.params, i.q, i.k, i.query_positions, i.key_positions, scale_of(i))
