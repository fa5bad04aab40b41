"""none (NoPE): attention is told nothing about position; only a causal mask can betray the order.

    logit[h, i, j] = q_i · k_j · scale

i, j    positions of query and key: they do not appear on the right-hand side
sign    none
scale   1/√D on q·k
beyond  nothing changes at any distance
edges   defined at every length, also for Lq ≠ Lk; without a mask the output is permutation-equivariant

Worked table, q and k all ones, one head of width 4:

>>> from relpos.spec.attention import logits
>>> ones = np.ones((1, 1, 3, 4))
>>> logits(NoPE(), {}, ones, ones, Range(0, 3), Range(0, 3))[0, 0]
array([[2., 2., 2.],
       [2., 2., 2.],
       [2., 2., 2.]])

Source: Haviv et al., "Transformer Language Models without Positional Encodings Still Learn Positional Information",
2022; the name NoPE from Kazemnejad et al., "The Impact of Positional Encoding on Length Generalization", 2023.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np  # noqa: F401  (the worked table)

from relpos.spec.contract import Form
from relpos.spec.positions import Range  # noqa: F401  (the worked table)


@dataclass(frozen=True)
class NoPE:
    """Settings of no position encoding: there are none."""

    form: ClassVar[Form] = "none"
    claims: ClassVar[frozenset[str]] = frozenset({"relative", "symmetric"})

    def parameters(self) -> dict[str, tuple[int, ...]]:
        """No learned tensors."""
        return {}
