"""Gradients of gradients: what autograd gives when it goes through a backward pass, and what the definition prescribes.

With x all inputs that need a gradient, d a direction and g(x) the first gradient of L = Σ result · c, the scalar h = d · g(x)
has the derivatives

    ∂h/∂c = J d         the change of the result along d
    ∂h/∂x = H d         the change of g along d, because second derivatives are symmetric

In the terms of `gradients.py`, with a dot for the change along d,

    Ġ_ij = ẇ_ij (s_ij − m_i) + w_ij (ṡ_ij − ṁ_i)      ẇ_ij = w_ij (ż_ij − Σ_k w_ik ż_ik)
    H d  = Σ Ġ ∂z/∂x + Σ ẇ g · ∂v/∂x + Σ G ∂ż/∂x

z and v are polynomials in the inputs, of a degree below five, so a difference of fourth order over a whole step is their
change exactly. Sizes are majorants: every term of a change along d is among the terms at |x| + |d|, and every weight is off
by no more than D, the greatest doubt of its row, of which a term has up to three. Where `derivatives/` has a file, something
enters nonlinearly and none of this holds.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from relpos.conformance.answers import definition
from relpos.conformance.calling import Instance
from relpos.conformance.derivatives import derivatives
from relpos.conformance.errors import Raised, Refused
from relpos.conformance.expected import AXES, Expected, Parts, parts
from relpos.conformance.gradients import Flow, flow_of, of_input, ours, watched
from relpos.conformance.judge import compare, demand
from relpos.conformance.magnitude import Size, gaps
from relpos.conformance.plan import Inputs, Plan
from relpos.conformance.precision import rounded
from relpos.conformance.subject import Subject

FIELDS = {"x of the query": "q", "x of the key": "k"}
AXES |= {f"change of the {name}": axes for name, axes in AXES.items()}
AXES |= {f"gradient of `{n}`": ("batch", "head", "query", "column") for n in ("q", "x of the query")}
AXES |= {f"gradient of `{n}`": ("batch", "head", "key", "column") for n in ("k", "v", "x of the key")}
Arrays = Mapping[str, np.ndarray]


def twice(subject: Subject, given: Inputs, wanted: tuple[str, ...], cotangents: Arrays, plan: Plan) -> float:
    """The derivatives of d · g with respect to inputs and cotangents, against the definition's."""
    if derivatives(given.settings) is not None:
        raise Refused("second derivatives of a scheme that is no polynomial are not judged")
    drawn = np.random.default_rng(plan.seed + 2)
    along = {n: rounded(drawn.standard_normal(_held(given, n).shape), plan.dtype) for n in wanted}
    got, largest = _got(Instance(subject, given), given, along, cotangents), 0.0
    for name, want in _wanted(subject, given, along, cotangents).items():
        found = np.zeros_like(want.value) if (came := got[name]) is None else came
        told = f"differentiated twice, the {want.name} is {'missing' if came is None else 'wrong'}"
        largest = max(largest, demand(compare(found, want, plan.dtype), told, plan))
    return largest


def _got(instance: Instance, given: Inputs, along: Arrays, cotangents: Arrays) -> dict[str, np.ndarray | None]:
    raw, leaves = watched(instance, given, frozenset(along))
    swap = instance.subject.card.layout == "blhd"
    c = {n: torch.from_numpy(g).to(raw[n]).requires_grad_() for n, g in cotangents.items() if raw[n].requires_grad}
    found: dict[str, np.ndarray | None] = dict.fromkeys([*along, *cotangents])
    names = [n for n in along if n in leaves]
    if not c or not names:
        return found
    try:
        first = torch.autograd.grad(
            [raw[n] for n in c], [leaves[n] for n in names], list(c.values()), create_graph=True, allow_unused=True
        )
        terms = [(g * _laid(along[n], n, swap, g)).sum() for n, g in zip(names, first, strict=True) if g is not None]
        h = torch.stack(terms).sum() if terms else torch.zeros(())
        if h.requires_grad:
            second = torch.autograd.grad(h, [*(leaves[n] for n in names), *c.values()], allow_unused=True)
            found |= {n: None if s is None else ours(s, n, swap) for n, s in zip((*names, *c), second, strict=True)}
    except (Exception, SystemExit) as error:
        raise Raised(error) from error
    return found


def _laid(array: np.ndarray, name: str, swap: bool, like: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(ours(array, name, swap))).to(like)


def _wanted(subject: Subject, given: Inputs, along: Arrays, cotangents: Arrays) -> dict[str, Expected]:
    if subject.level == "attention":
        return _of_attention(given, along, cotangents["output"])
    larger = _larger(given, along)
    sizes = definition(subject, larger)
    found = {n: _changed(lambda i, n=n: definition(subject, i)[n].value, given, along) for n in cotangents}
    wanted = {n: Expected(f"change of the {n}", sizes[n].kind, value, sizes[n].size) for n, value in found.items()}
    for name in along:
        nothing = np.zeros(_held(given, name).shape)
        value, size = nothing, Size(nothing, nothing, 1)
        if subject.level == "logits":
            value, size = _through_scores(given, larger, name, along, flow_of(given, "logits", dict(cotangents)))
        wanted[name] = Expected(f"gradient of `{name}`", "gradient", value, size)
    return wanted


@dataclass(frozen=True)
class _Change:
    """Scores, weights and seen values along d: z, w, v change by these, whose sizes are Z, W and V."""

    z: np.ndarray
    w: np.ndarray
    v: np.ndarray
    Z: Size
    V: np.ndarray
    D: np.ndarray
    A: np.ndarray


def _of_attention(given: Inputs, along: Arrays, g: np.ndarray) -> dict[str, Expected]:
    p, larger = parts(given), _larger(given, along)
    c = _along(given, larger, along, p)
    flow = _second_flow(p, c, g)
    assert flow.weights is not None and flow.loose is not None
    out = (c.w[..., None] * p.seen + p.weights[..., None] * c.v).sum(-2)
    M = (flow.loose[..., None] * p.seen_size.M + (c.D * p.weights)[..., None] * c.V).sum(-2)
    wanted = {"output": Expected("change of the output", "gradient", out, Size(M, M, flow.n))}
    first = replace(flow_of(given, "attention", {"output": g}), weights=None, loose=None, g=None)
    for name in along:
        of_weights = of_input(given, name, flow)
        value, size = _through_scores(given, larger, name, along, first)
        total = Size(size.M + of_weights.size.M, size.P + of_weights.size.P, of_weights.size.n)
        wanted[name] = Expected(f"gradient of `{name}`", "gradient", value + of_weights.value, total)
    return wanted


def _along(given: Inputs, larger: Inputs, along: Arrays, p: Parts) -> _Change:
    w, big = p.weights, parts(larger)
    z = _changed(lambda i: parts(i).score.value, given, along)
    v = _changed(lambda i: parts(i).seen, given, along)
    moved = p.score.size.M + gaps(w)
    seen = lambda x: np.where(w > 0, x, 0.0).max(-1, keepdims=True, initial=0.0)  # noqa: E731
    D = 7 + 2 * seen(moved)
    A = 2 * seen(p.score.size.P)
    return _Change(z, w * (z - (w * z).sum(-1, keepdims=True)), v, big.score.size, big.seen_size.M, D, A)


def _second_flow(p: Parts, c: _Change, g: np.ndarray) -> Flow:
    w, mean = p.weights, lambda x: (p.weights * x).sum(-1, keepdims=True)
    s, ds = ((g[..., None, :] * x).sum(-1) for x in (p.seen, c.v))
    S, dS = ((np.abs(g)[..., None, :] * x).sum(-1) for x in (p.seen_size.M, c.V))
    dm = (c.w * s).sum(-1, keepdims=True) + mean(ds)
    G = c.w * (s - mean(s)) + w * (ds - dm)

    def size(Z: np.ndarray) -> np.ndarray:
        shaken = Z + mean(Z)
        return w * (shaken * (S + mean(S)) + mean(shaken * S))

    terms = size(c.Z.M) + w * (dS + mean(dS))
    W, PW = w * (c.Z.M + mean(c.Z.M)), w * (c.Z.P + mean(c.Z.P))
    # An angle is never rounded more coarsely than anything else, so what it moves may be counted among the others.
    loose = 2 * (c.D + c.A) * W + PW
    return Flow(G, 3 * c.D * terms, 3 * c.A * terms + size(c.Z.P), c.Z.n + w.shape[-1], c.w, loose, g)


def _through_scores(given: Inputs, larger: Inputs, name: str, along: Arrays, flow: Flow) -> tuple[np.ndarray, Size]:
    """Σ G ∂ż/∂x, G held."""
    value = _changed(lambda i: of_input(i, name, flow).value, given, along)
    held = replace(flow, G=np.abs(flow.G) + flow.M + flow.P)
    return value, of_input(larger, name, held).size


def _held(given: Inputs, name: str) -> np.ndarray:
    if name in given.params:
        return given.params[name]
    return given.q[:, 0] if name == "x" else getattr(given, FIELDS.get(name, name))


def _with(given: Inputs, name: str, value: np.ndarray) -> Inputs:
    if name in given.params:
        return given.but(params={**given.params, name: value})
    if name == "x":
        return given.but(q=np.concatenate([value[:, None], given.q[:, 1:]], axis=1))
    return given.but(**{FIELDS.get(name, name): value})


def _moved(given: Inputs, along: Arrays, step: float) -> Inputs:
    for name, d in along.items():
        given = _with(given, name, _held(given, name) + step * d)
    return given


def _larger(given: Inputs, along: Arrays) -> Inputs:
    names = [n for n in ("q", "k", "v", *given.params) if n not in along]
    for name in names:
        given = _with(given, name, np.abs(_held(given, name)))
    for name, d in along.items():
        given = _with(given, name, np.abs(_held(given, name)) + np.abs(d))
    return given


def _changed(f: Callable[[Inputs], Any], given: Inputs, along: Arrays) -> np.ndarray:
    """The change of a polynomial of degree four at most along d; a cell at −∞ is cut off and does not change."""
    a, b, c, d = (np.asarray(f(_moved(given, along, step))) for step in (1.0, -1.0, 2.0, -2.0))
    cut = ~np.isfinite(a)
    a, b, c, d = (np.where(cut, 0.0, x) for x in (a, b, c, d))
    return (8 * (a - b) - (c - d)) / 12
