"""learned: every position has a learned vector of its own, added to the token's vector.

    e[p] = table[p + F]

p       position, 0 … P − 1          P      `max_position`, the number of positions          D      width (`embed_dim`)
F       `first_row`, the row that position 0 reads
table   [F + P, D]; the rows before F belong to no position and learn nothing
sign    none: absolute positions
rows    F + P: position p reads row p + F
scale   none: e is added to the token's vector as it is
beyond  refused
edges   there is no vector beyond the table: a position from P on, or below 0, is refused. Positions are not counted from
        where a chunk starts: a decode step, or a row that is padded on the left, brings its own. e says nothing of distance

Worked table, three positions in width 2, of a table that holds the numbers 0, 1, 2 … and has two rows before position 0:

>>> table = np.arange(10.0).reshape(5, 2)
>>> Learned(embed_dim=2, max_position=3, first_row=2).encode({"table": table}, Range(0, 3))
array([[4., 5.],
       [6., 7.],
       [8., 9.]])

Source: Gehring et al., "Convolutional Sequence to Sequence Learning", 2017, section 3.1; the learned alternative of Vaswani
et al., "Attention Is All You Need", 2017, section 3.5; BERT and GPT use it.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from relpos.spec.contract import Form, PositionError, check_fields, require
from relpos.spec.positions import Positions, Range  # noqa: F401  (Range: the worked table)


@dataclass(frozen=True)
class Learned:
    """Settings of the table.

    embed_dim     width D
    max_position  P: positions 0 … P − 1 have a vector (512 in BERT, 1024 in GPT-2)
    first_row     F: 0 in BERT and GPT-2; 2 in RoBERTa and BART, where it is fairseq's padding_idx + 1, and in OPT
    """

    form: ClassVar[Form] = "embedding"
    claims: ClassVar[frozenset[str]] = frozenset()
    draws: ClassVar[dict[str, tuple]] = {"max_position": (512, 16, 40), "first_row": (0, 2, 1)}

    embed_dim: int
    max_position: int
    first_row: int = 0

    def __post_init__(self) -> None:
        check_fields(self)
        require(self, "embed_dim", self.embed_dim >= 1, "at least 1")
        require(self, "max_position", self.max_position >= 1, "at least 1")
        require(self, "first_row", self.first_row >= 0, "0 or more", "2 is fairseq's padding_idx + 1.")

    def parameters(self) -> dict[str, tuple[int, ...]]:
        """table [F + P, D]."""
        return {"table": (self.first_row + self.max_position, self.embed_dim)}

    def capacity(self) -> int:
        """The number of positions, from 0 on, that have a vector."""
        return self.max_position

    def row_of(self, p: int) -> int:
        """The row of the table that position p reads."""
        if p < 0:
            raise PositionError(f"learned: a position must be 0 or more, got {p}. Count from the first token.")
        if p >= self.max_position:
            raise PositionError(
                f"learned: a position must be less than max_position = {self.max_position}, got {p}. "
                "There is no vector beyond the table: use a longer one, or a scheme without a table of positions."
            )
        return p + self.first_row

    def encode(self, params: dict, positions: Positions) -> np.ndarray:
        """The vectors of the positions, shape [L, D]."""
        e = np.zeros((len(positions), self.embed_dim))
        for a, p in enumerate(positions):
            e[a] = params["table"][self.row_of(p)]
        return e
