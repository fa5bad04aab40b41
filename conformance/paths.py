"""Ways of asking an implementation the same thing twice, which it may answer by different code: what L28 goes through.

Nothing of this needs a word from the user but `variants`. A path is tried where an implementation has both of its ways.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import torch

from relpos.conformance.agreement import Answers
from relpos.conformance.answers import answer, past
from relpos.conformance.calling import Instance
from relpos.conformance.expected import scale_of
from relpos.conformance.gradients import float_names
from relpos.conformance.plan import Inputs
from relpos.conformance.reading import to_numpy
from relpos.conformance.subject import Subject
from relpos.impls._variants import written
from relpos.spec.positions import Explicit, Positions


@dataclass(frozen=True)
class Pair:
    """Two answers that must agree, with the words for when they do not, and the inputs that both are answers to."""

    says: str
    got: Answers
    want: Answers
    given: Inputs


def _with(given: Inputs, **extra: Any) -> Inputs:
    return given.but(plan=given.plan.but(extra={**given.plan.extra, **extra}))


# ---- left out, or given in full


def optional(subject: Subject) -> frozenset[str]:
    """Our names of what a call may leave out, because it is None by default."""
    return subject.called_with.optional - set(subject.called_with.positional)


def can_leave_out(subject: Subject) -> tuple[str, ...]:
    found = [name for name in ("mask", "padding_mask") if name in optional(subject)]
    listed = [n for n in ("query_positions", "key_positions", "positions") if n in subject.called_with.ours]
    if listed and set(listed) <= optional(subject) and "offset" in subject.called_with.ours:
        found.append("positions")
    return tuple(found)


def left_out(subject: Subject, given: Inputs) -> Iterator[Pair]:
    """Without a mask, or without positions beside an offset, against the same given in full."""
    whole = answer(subject, given)
    flag = "with a causal flag and no mask" if given.causal else "without a mask"
    for name in can_leave_out(subject):
        names = tuple(n for n in optional(subject) if n.endswith("positions")) if name == "positions" else (name,)
        words = f"{flag}, it differs from a mask that hides nothing"
        if name == "positions":
            words = "told an offset alone, it differs from the same positions listed"
        yield Pair(words, answer(subject, _with(given, left_out=names)), whole, given)


# ---- a causal flag, a scale, positions


def flagged(subject: Subject, given: Inputs) -> Iterator[Pair]:
    """A causal flag against the same mask given explicitly; where causal is meant always, with that mask and without."""
    shape = (*given.q.shape[:3], given.k.shape[2])
    seen = past(given, shape)[:, :1]
    mask = seen if given.mask is None else seen & given.mask
    if "causal" not in subject.asks:
        says = "given the causal mask as well, it differs from the causal mask of its own"
        yield Pair(says, answer(subject, given.but(mask=mask)), answer(subject, given), given)
        return
    open_ = given.but(causal=False, mask=mask, plan=given.plan.but(causal=False))
    explicit = answer(subject, open_)
    flag = given.but(causal=True, plan=given.plan.but(causal=True))
    says = "computed with a causal flag, it differs from the same mask given explicitly"
    yield Pair(says, answer(subject, flag), explicit, flag)
    if "mask" in optional(subject) and given.mask is None:
        says = "computed with a causal flag alone, it differs from the same mask given explicitly"
        yield Pair(says, answer(subject, _with(flag, left_out=("mask",))), explicit, flag)


def scaled(subject: Subject, given: Inputs) -> Iterator[Pair]:
    """The scale left to the implementation against the same number given."""
    given = given.but(scale=None)
    says = "with the scale left to it, it differs from the same scale given"
    yield Pair(says, answer(subject, given), answer(subject, given.but(scale=scale_of(given))), given)


def per_sample(subject: Subject, given: Inputs) -> Iterator[Pair]:
    """Positions shared by all samples against the same listed for each; samples with their own against each of them alone."""
    B, at = given.plan.batch, (given.query_positions, given.key_positions)
    if not any(positions.per_sample for positions in at):
        rows = given.but(query_positions=_listed(given.query_positions, B), key_positions=_listed(given.key_positions, B))
        says = "with positions listed for every sample, it differs from the same positions shared by all"
        yield Pair(says, answer(subject, rows), answer(subject, given), rows)
        return
    batch = answer(subject, given)
    singles = [answer(subject, _sample(given, b)) for b in range(B)]
    alone = {name: np.stack([_only(single[name], batch[name]) for single in singles]) for name in batch}
    yield Pair("with positions of its own, a sample in a batch differs from that sample alone", batch, alone, given)


def _only(one: np.ndarray, batch: np.ndarray) -> np.ndarray:
    """A single sample without its axis of samples."""
    return one[0] if one.ndim == batch.ndim else one


def _listed(positions: Positions, B: int) -> Explicit:
    """The same positions, [B, L]."""
    contexts = [positions.row(b).context_length for b in range(B)]
    stated = None if None in contexts else contexts
    return Explicit(np.stack([positions.row(b).array() for b in range(B)]), axes=positions.axes, context_length=stated)


def _sample(given: Inputs, b: int) -> Inputs:
    one = {x: getattr(given, x)[b : b + 1] for x in "qkv"}
    mask = None if given.mask is None else given.mask[b : b + 1]
    at = {side: getattr(given, side).row(b) for side in ("query_positions", "key_positions")}
    return given.but(plan=given.plan.but(batch=1), mask=mask, **one, **at)


# ---- modes of torch, and variants of the implementation's own


def modes(subject: Subject, given: Inputs) -> Iterator[Pair]:
    """What is computed in evaluation without gradients against every other mode of torch."""
    still = answer(subject, given)
    for training in (False, True) if trains(subject) else (False,):
        where = "in training mode" if training else "in evaluation mode" if trains(subject) else ""
        if training and (found := _quiet(subject, given)) is not None:
            yield Pair(f"{where}, it differs from evaluation mode", found, still, given)
        elif training:
            return  # it draws random numbers: dropout is no position scheme
        if _differentiates(subject, given):
            names = frozenset(float_names(subject, given))
            raw, _ = Instance(subject, given, training=training).tensors(given, names)
            says = f"with gradients required{' ' * bool(where)}{where}, it differs from the same under torch.no_grad"
            yield Pair(says, {name: to_numpy(value) for name, value in raw.items()}, still, given)
    instance = Instance(subject, given)
    with torch.inference_mode():
        yield Pair("under torch.inference_mode, it differs from torch.no_grad", instance.results(given), still, given)


def trains(subject: Subject) -> bool:
    target = subject.target
    return isinstance(target, torch.nn.Module) or (isinstance(target, type) and issubclass(target, torch.nn.Module))


def _differentiates(subject: Subject, given: Inputs) -> bool:
    if subject.card.gradient is False or subject.kind == "decoder":
        return False
    return bool(float_names(subject, given)) or trains(subject)


def _quiet(subject: Subject, given: Inputs) -> Answers | None:
    """The answer in training mode; None if it took random numbers for it."""
    instance = Instance(subject, given, training=True)
    before = torch.random.get_rng_state()
    found = instance.results(given)
    drew = not torch.equal(before, torch.random.get_rng_state())
    torch.random.set_rng_state(before)
    return None if drew else found


def combinations(subject: Subject) -> list[dict[str, Any]]:
    """All combinations of the values that the card lists, the first ones first; none where it lists none."""
    names = list(subject.card.variants)
    return [dict(zip(names, values, strict=True)) for values in product(*subject.card.variants.values())] if names else []


def told(subject: Subject, given: Inputs) -> tuple[tuple[str, Inputs], tuple[str, Inputs]]:
    """The combination of options that a plan tries, and the first one, in words and as inputs."""
    both = dict(given.plan.extra["variant"]), combinations(subject)[0]
    words = (" and ".join(f"{name}={written(v)}" for name, v in one.items()) for one in both)
    here, there = ((said, _with(given, variant=one)) for said, one in zip(words, both, strict=True))
    return here, there


def variants(subject: Subject, given: Inputs) -> Iterator[Pair]:
    """One combination of options against the first."""
    (here, chosen), (there, first) = told(subject, given)
    yield Pair(f"with {here}, it differs from {there}", answer(subject, chosen), answer(subject, first), given)


# ---- steps of a decoder


def steps(subject: Subject, given: Inputs) -> Iterator[Pair]:
    """A sequence taken in steps against the same taken at once."""
    sizes = given.plan.extra["chunks"]
    got, want = answer(subject, given), answer(subject, _with(given, chunks=(sum(sizes),)))
    if getattr(given.settings, "length_dependent", False):
        # Earlier rows were computed in a shorter context: the last step alone is the same question.
        for rows in (got["output"], want["output"]):
            rows[:, :, : -sizes[-1]] = 0.0
    yield Pair(f"in steps of {' + '.join(map(str, sizes))} tokens, it differs from all tokens at once", got, want, given)
