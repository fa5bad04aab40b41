"""Some rows of a long input: the definition is a loop, and positions are explicit, so its rows can be had one by one."""

import numpy as np

from relpos.conformance.plan import Inputs
from relpos.spec.positions import Explicit


def rows_of(length: int, edges: tuple[int, ...], seed: int, drawn: int = 2) -> list[int]:
    """The first and the last row, both sides of every edge, and some drawn ones, in order."""
    found = {0, length - 1, *(r for edge in edges for r in (edge - 1, edge))}
    found |= set(np.random.default_rng(seed).integers(length, size=drawn).tolist())
    return sorted(r for r in found if 0 <= r < length)


def sampled(given: Inputs, rows: list[int]) -> Inputs:
    """The same input with these queries only, and all keys."""
    mask = given.mask
    if mask is not None and mask.shape[2] > 1:
        mask = mask[:, :, rows]
    queries = Explicit(given.query_positions.array()[..., rows], context_length=given.plan.context_length)
    return given.but(q=given.q[:, :, rows], query_positions=queries, mask=mask)
