"""Cuts one call into the calls of a decode: some queries at a time, with the keys there are by then."""

from typing import Any

import numpy as np

from relpos.conformance.answers import prepared
from relpos.conformance.plan import Inputs
from relpos.conformance.subject import Subject


def sliceable(subject: Subject) -> str | None:
    """None, or why an implementation cannot be asked for some rows of a call."""
    if subject.kind == "decoder":
        return None
    if subject.positions == "contiguous" and (
        subject.card.corner != "bottom-right" or subject.form in ("rotation", "embedding")
    ):
        return "it cannot be told where its queries lie (ask for offset or query_positions)"
    if subject.positions == "contiguous" and subject.level == "attention" and not _can_be_causal(subject):
        return "without a causal mask, a corner does not say which rows a chunk holds"
    if subject.one_length and (subject.level != "contribution" or subject.form not in ("rotation", "embedding")):
        return "it takes one length for queries and keys"
    return None


def _can_be_causal(subject: Subject) -> bool:
    return "causal" in subject.asks or subject.card.softmax == "causal"


def part(subject: Subject, given: Inputs, start: int, stop: int) -> Inputs:
    """Queries start … stop−1 with the keys there are by then (all of them where nothing is hidden).

    The plan's extra `memory` says how many keys come before those of the first query.
    """
    plan, every, memory = given.plan, len(given.key_positions), given.plan.extra.get("memory", 0)
    keys = every if subject.level == "attention" and not plan.causal and subject.positions != "contiguous" else memory + stop
    first = start if subject.together else 0  # keys that are turned in the same call come with their own queries
    cut = plan.but(
        query_length=stop - start,
        key_length=keys - first,
        offset=plan.offset + start,
        query_positions=_some(plan.query_positions, start, stop),
        key_positions=_some(plan.key_positions, first, keys),
        extra={},
    )
    built = prepared(subject, cut)
    mask = None if given.mask is None else given.mask[:, :, start:stop, first:keys]
    return built.but(
        q=given.q[:, :, start:stop], k=given.k[:, :, first:keys], v=given.v[:, :, first:keys], params=given.params, mask=mask
    )


def _some(positions: tuple | None, start: int, stop: int) -> Any:
    return None if positions is None else positions[start:stop]


def rows_of_part(whole: dict[str, np.ndarray], subject: Subject, cut: Inputs, start: int, stop: int) -> dict[str, np.ndarray]:
    """Of the answers to the whole, what a part of it owes."""
    first = start if subject.together else 0
    keys = slice(first, first + len(cut.key_positions))
    return {name: _cut(value, name, slice(start, stop), keys) for name, value in whole.items()}


def _cut(value: np.ndarray, name: str, queries: slice, keys: slice) -> np.ndarray:
    if name == "rotated key":
        return value[..., keys, :]
    rows = value[..., queries, :]
    return rows[..., keys] if name in ("bias", "logits") else rows
