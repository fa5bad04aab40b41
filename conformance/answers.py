"""What a subject answers on a plan, and the comparison with the definition that its card calls for."""

from dataclasses import fields, replace

import numpy as np

from relpos.conformance.calling import Instance
from relpos.conformance.expected import AXES, Expected, expected, visible
from relpos.conformance.judge import Comparison, bound_of, compare, compare_within
from relpos.conformance.magnitude import Size
from relpos.conformance.plan import Inputs, Plan, inputs
from relpos.conformance.precision import rounded
from relpos.conformance.settings import legal
from relpos.conformance.subject import Subject
from relpos.conformance.tolerance import C
from relpos.spec.attention import located

AXES["embedded"] = ("batch", "position", "column")


def prepared(subject: Subject, plan: Plan) -> Inputs:
    """The inputs of a plan for this subject's scheme."""
    given = inputs(plan, subject.scheme)
    given = given.but(key_positions=given.query_positions) if subject.together else given
    if not subject.told_length:
        return given  # alone, a rotation sees its own positions only
    queries, keys = located(given.settings, given.query_positions, given.key_positions, plan.batch)
    return given.but(query_positions=queries, key_positions=keys)


def answer(subject: Subject, given: Inputs) -> dict[str, np.ndarray]:
    """What a fresh instance returns, by name; outputs that have no declared value are 0, unless they are not even finite."""
    return silenced(Instance(subject, given).results(given), undeclared(subject, given))


def undeclared(subject: Subject, given: Inputs) -> np.ndarray:
    """Queries whose own token is padding, [B, Lq]: some compute their outputs, others leave 0, and nobody reads them.

    Only where `padding_mask` is asked for and marks the very tokens that the queries are: the last Lq of the keys, at the
    same positions, in self-attention.
    """
    B, Lq, Lk = len(given.q), given.q.shape[2], given.k.shape[2]
    nowhere = np.zeros((B, Lq), dtype=bool)
    if given.mask is None or "padding_mask" not in subject.asks or getattr(given.settings, "cross_attention", False):
        return nowhere
    queries, keys = given.query_positions.array(), given.key_positions.array()
    tokens = keys[..., Lk - Lq :] if given.query_positions.axes == 1 else keys[..., Lk - Lq :, :]
    alike = (given.mask == given.mask[:, :1, :1]).all()  # else it hides some keys from some queries: no padding
    if Lq > Lk or not alike or not np.array_equal(queries, tokens):
        return nowhere
    return ~given.mask[:, 0, 0, Lk - Lq :]


def silenced(found: dict[str, np.ndarray], rows: np.ndarray) -> dict[str, np.ndarray]:
    """Results with 0 for the outputs of some queries, [B, Lq]; what is NaN or infinite stays, to be found."""
    if "output" not in found or not rows.any():
        return found
    out = found["output"]
    quiet = rows[:, None, :, None] & np.isfinite(out).all(axis=-1, keepdims=True)
    return {**found, "output": np.where(quiet, 0.0, out)}


def definition(subject: Subject, given: Inputs, *, padding: np.ndarray | None = None) -> dict[str, Expected]:
    """What the definition says at the subject's level, in the terms that its card declares; 0 for queries of padding."""
    want = expected(given, subject.level)
    padding = undeclared(subject, given) if padding is None else padding
    if padding.any() and "output" in want:
        output = want["output"]
        want = {"output": replace(output, value=silenced({"output": output.value}, padding)["output"])}
    if "embedding" in want and "x" in subject.called_with.ours:
        return {"embedded": _embedded(want["embedding"], given)}
    if subject.card.softmax == "causal" and _has_key_only(subject, given):
        # Right up to a constant per query means: the terms may be as large as those of the key-only form.
        declared = given.but(settings=subject.cls(**{**given.plan.settings, "distance": "key_only"}))
        sizes = expected(declared, subject.level)
        want = {n: Expected(n, e.kind, e.value, _larger(e.size, sizes[n].size)) for n, e in want.items()}
    return want


def comparisons(
    subject: Subject, given: Inputs, got: dict[str, np.ndarray], *, factor: float = 1.0, asked: Inputs | None = None
) -> list[Comparison]:
    """Every result against the definition; up to a constant per query where only a causal softmax is promised.

    asked: what it was called with, where `given` is what a mistake makes of that.
    """
    found, padding = [], undeclared(subject, given)
    if asked is not None:
        padding = padding | undeclared(subject, asked)
        got = silenced(got, padding)
    for name, want in definition(subject, given, padding=padding).items():
        if subject.card.softmax == "causal" and name in ("bias", "logits"):
            found.append(_modulo_rows(got[name], want, given, subject))
        else:
            found.append(compare(got[name], want, given.plan.dtype, factor=factor))
    return found


def past(given: Inputs, shape: tuple[int, ...]) -> np.ndarray:
    """Cells a causal softmax can see, broadcast to a bias or logits array; all, where positions have several axes."""
    if given.query_positions.axes > 1:
        return np.ones(shape, dtype=bool)
    causal = visible(given.but(causal=True))
    return np.broadcast_to(causal[0] if len(shape) == 3 else causal, shape)


def weighed(subject: Subject, given: Inputs, name: str, cotangent: np.ndarray) -> np.ndarray:
    """A cotangent that asks for no more than is promised: under a causal softmax, differences between keys that are seen."""
    if subject.card.softmax != "causal" or name not in ("bias", "logits"):
        return cotangent
    seen = past(given, cotangent.shape)
    left = np.where(seen, cotangent, 0.0)
    last = np.cumsum(seen, axis=-1) == seen.sum(-1, keepdims=True)
    others = np.where(seen & ~last, left, 0.0)
    balance = rounded(-others.sum(-1, keepdims=True), given.plan.dtype)
    return np.where(seen & last, balance, others)


def anchored(values: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Each row minus its last visible cell; hidden cells are 0."""
    out = np.zeros_like(values)
    for row in np.ndindex(values.shape[:-1]):
        keys = np.flatnonzero(seen[row])
        if len(keys):
            out[row][keys] = values[row][keys] - values[row][keys[-1]]
    return out


def _modulo_rows(got: np.ndarray, want: Expected, given: Inputs, subject: Subject) -> Comparison:
    seen = past(given, want.value.shape) & np.isfinite(want.value)
    bound = bound_of(want, given.plan.dtype)
    # The anchor of a row is rounded too, and the constant that was added to it may be as large as any of its terms.
    bound = np.where(seen, 2 * np.broadcast_to(bound.max(axis=-1, keepdims=True, initial=0), bound.shape), 1.0)
    got, value = anchored(got, seen), anchored(want.value, seen)
    return compare_within(got, value, bound, name=want.name, allowed=C[want.kind], axes=AXES[want.name])


def _has_key_only(subject: Subject, given: Inputs) -> bool:
    named = "distance" in {f.name for f in fields(subject.cls)}
    return named and legal(subject.cls, {**given.plan.settings, "distance": "key_only"})


def _larger(a: Size, b: Size) -> Size:
    return Size(np.maximum(a.M, b.M), np.maximum(a.P, b.P), max(a.n, b.n))


def _embedded(want: Expected, given: Inputs) -> Expected:
    x = given.q[:, 0]
    M, P = np.abs(x) + want.size.M, np.broadcast_to(want.size.P, x.shape)
    return Expected("embedded", "embedding", x + want.value, Size(M, P, 3))
