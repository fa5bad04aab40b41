"""No position term: what a causal mask alone makes of tokens that are all alike."""

from typing import Any

import numpy as np

from relpos.show.drawings.panel import Panel, lines, map_of
from relpos.spec.attention import allowed, logits, softmax
from relpos.spec.positions import Range

LENGTH = 16


def panels(settings: Any) -> list[Panel]:
    """Weights of equal tokens under a causal mask: the first row alone tells where it stands."""
    positions, same = Range(0, LENGTH), np.ones((1, 1, LENGTH, 4))
    score = logits(settings, {}, same, same, positions, positions)
    weights = softmax(score, allowed(score.shape, positions, positions, causal=True))[0, 0]
    return [
        Panel("weights of equal tokens under a causal mask", map_of(np.where(weights > 0, weights, np.nan), "weight")),
        Panel("weight of key 0", lines(np.arange(LENGTH), [weights[:, 0]], [""], "query i", "weight = 1/(i + 1)")),
    ]
