"""The same documents in a padded batch, packed into one row, and from a cache: what L28 holds against each other.

A document is the first `lengths[d]` tokens of sample d. Its positions begin at 0 wherever it lies, as far as the
implementation can be told so; where it cannot, only schemes of the distance alone may be laid elsewhere.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from relpos.conformance.answers import answer, prepared
from relpos.conformance.chunking import part, sliceable
from relpos.conformance.placing import within_reach
from relpos.conformance.plan import Inputs, Plan
from relpos.conformance.settings import sized
from relpos.conformance.subject import Subject
from relpos.spec.positions import Explicit, Range

MOVABLE = {"relative", "row_relative"}


@dataclass(frozen=True)
class Laid:
    """A document in one way of computing it: the output of its tokens, the same in the padded batch, its inputs alone."""

    says: str
    got: np.ndarray
    want: np.ndarray
    alone: Inputs


def ways(subject: Subject) -> tuple[str, ...]:
    """The ways besides padding on the right in which an implementation can be given documents."""
    if subject.level != "attention" or subject.kind == "decoder" or subject.on_grid:
        return ()
    if not {"mask", "padding_mask"} & subject.asks:
        return ()
    sample = subject.cls(**sized(subject.cls, subject.fixed))
    found = ("left", "packed") if "mask" in subject.asks else ("left",)
    found = found if _movable(subject, sample) else ()
    return found if sliceable(subject) else (*found, "cached")


def _movable(subject: Subject, settings) -> bool:
    """Whether a document may lie elsewhere in its row."""
    if subject.positions == "arbitrary":
        return True
    return bool(MOVABLE & settings.claims) and not getattr(settings, "length_dependent", False)


def with_documents(subject: Subject, plan: Plan, lengths: tuple[int, ...]) -> Plan:
    """The plan with samples that hold documents of these lengths."""
    most = subject.card.max_length
    while most is not None and sum(lengths) > most and len(lengths) > 1:
        lengths = lengths[:-1]
    lengths = lengths if most is None else tuple(min(n, most) for n in lengths)
    row = _square(subject, plan, sum(lengths))
    whole = within_reach(subject, row)  # a row of all documents must be one the scheme is defined for
    settings = whole.settings
    if whole.query_length < sum(lengths):
        lengths = (whole.query_length,)
    if getattr(subject.cls(**settings), "length_dependent", False):
        lengths = (min(lengths),) * len(lengths)  # a longer one beside it would lengthen the context
    causal = plan.causal or (subject.positions == "contiguous" and "causal" in subject.asks)
    square = _square(subject, plan.but(settings=settings, causal=causal), max(lengths))
    return square.but(batch=len(lengths), mask="none", extra={"path": "documents", "lengths": lengths})


def _square(subject: Subject, plan: Plan, n: int) -> Plan:
    at = tuple(range(n)) if subject.positions == "arbitrary" else None
    return plan.but(query_length=n, key_length=n, offset=0, query_positions=at, key_positions=at, context_length=None)


def laid(subject: Subject, given: Inputs) -> Iterator[Laid]:
    """Every document in every way, against the batch that is padded on the right."""
    there = ways(subject)
    padded = answer(subject, given.but(mask=_padding(given, lengths_of(given))))["output"]
    movable = _movable(subject, given.settings)
    for way, compute in (("left", _left), ("packed", _packed), ("cached", _cached)):
        if way not in there or (way != "cached" and not movable):
            continue
        for d, start, rows, got in compute(subject, given):
            alone = _alone(subject, given, d)
            want = padded[d : d + 1, :, : len(alone.query_positions)][:, :, rows]
            yield Laid(SAYS[way], got, want, _last(subject, alone) if way == "cached" else _at(subject, alone, start))


SAYS = {
    "left": "padded on the left, a document gets another output than padded on the right",
    "packed": "packed into one row with other documents, a document gets another output than in a padded batch",
    "cached": "its last token from a cache, a document gets another output than in a padded batch",
}


def lengths_of(given: Inputs) -> tuple[int, ...]:
    """How many tokens the document of each sample has."""
    return tuple(given.plan.extra["lengths"])


def _padding(given: Inputs, lengths: tuple[int, ...]) -> np.ndarray:
    n = given.plan.key_length
    real = np.arange(n) < np.array(lengths)[:, None]
    return np.broadcast_to(real[:, None, None], (len(lengths), 1, n, n)).copy()


def _alone(subject: Subject, given: Inputs, d: int) -> Inputs:
    """One document and nothing else."""
    n = lengths_of(given)[d]
    plan = _square(subject, given.plan, n).but(batch=1, extra={})
    cut = {name: getattr(given, name)[d : d + 1, :, :n] for name in ("q", "k", "v")}
    return prepared(subject, plan).but(params=given.params, **cut)


def _at(subject: Subject, alone: Inputs, start: int) -> Inputs:
    """The document where it lies, if that is not its own beginning: a bias may grow with the position itself."""
    if subject.positions == "arbitrary":
        return alone
    moved = Range(start, len(alone.query_positions))
    return alone.but(query_positions=moved, key_positions=moved)


def _last(subject: Subject, alone: Inputs) -> Inputs:
    n = len(alone.query_positions)
    return part(subject, alone, n - 1, n)


def _cached(subject: Subject, given: Inputs) -> Iterator[tuple[int, int, slice, np.ndarray]]:
    for d in range(len(lengths_of(given))):
        yield d, 0, slice(-1, None), answer(subject, _last(subject, _alone(subject, given, d)))["output"]


def _left(subject: Subject, given: Inputs) -> Iterator[tuple[int, int, slice, np.ndarray]]:
    """All samples at once where positions may differ per sample or need not be told, else one by one."""
    lengths, n = lengths_of(given), given.plan.key_length
    rows = [range(d, d + 1) for d in range(len(lengths))]
    if subject.positions != "arbitrary" or subject.card.positions == "per_row":
        rows = [range(len(lengths))]
    for samples in rows:
        pads = [n - lengths[d] for d in samples]
        rolled = {x: np.stack([np.roll(getattr(given, x)[d], n - lengths[d], axis=1) for d in samples]) for x in "qkv"}
        real = np.arange(n) >= np.array(pads)[:, None]
        mask = np.broadcast_to(real[:, None, None], (len(pads), 1, n, n)).copy()
        plan = given.plan.but(batch=len(pads), extra={})
        at = given.query_positions
        if subject.positions == "arbitrary":
            listed = np.stack([np.maximum(np.arange(n) - pad, 0) for pad in pads])
            at = Explicit(listed if subject.card.positions == "per_row" else listed[0])
        out = answer(subject, given.but(plan=plan, mask=mask, query_positions=at, key_positions=at, **rolled))["output"]
        for b, d in enumerate(samples):
            yield d, pads[b], slice(None), out[b : b + 1, :, pads[b] :]


def _packed(subject: Subject, given: Inputs) -> Iterator[tuple[int, int, slice, np.ndarray]]:
    """One row that holds all documents, each seeing itself alone, its positions counted from 0."""
    lengths = lengths_of(given)
    joined = {x: np.concatenate([getattr(given, x)[d : d + 1, :, :n] for d, n in enumerate(lengths)], axis=2) for x in "qkv"}
    owner = np.repeat(np.arange(len(lengths)), lengths)
    row = _square(subject, given.plan, len(owner)).but(batch=1, extra={})
    at = prepared(subject, row).query_positions
    if subject.positions == "arbitrary":
        at = Explicit(np.concatenate([np.arange(n) for n in lengths]))
    mask = (owner[:, None] == owner)[None, None]
    out = answer(subject, given.but(plan=row, mask=mask, query_positions=at, key_positions=at, **joined))["output"]
    ends = np.cumsum(lengths)
    for d, n in enumerate(lengths):
        yield d, int(ends[d]) - n, slice(None), out[:, :, ends[d] - n : ends[d]]
