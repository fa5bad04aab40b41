"""learned: a vector per position, looked up; the lookup's backward adds up what every use of a row sends back.

    e[p] = table[p + first_row]

A position without a vector is refused where its value can be read, and fails in the lookup itself where it cannot.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding

from relpos.impls._attention import DTYPES, attend, visible, working
from relpos.impls._cache import KVCache
from relpos.impls._steps import stepped
from relpos.impls.card import implements
from relpos.spec.learned import Learned

INIT_STD = 0.02


@implements("learned", level="contribution", positions="per_row", dtypes=DTYPES, memory="L*D", double_backward=True)
def encode(settings: Learned, table: Tensor, positions: Tensor) -> Tensor:
    """The vectors of the positions: [L] -> [L, D], [B, L] -> [B, L, D]."""
    _refuse_positions(settings, positions)
    # With rows before position 0, −1 would read one of them.
    rows = torch.where(positions < 0, positions, positions + settings.first_row)
    return embedding(rows.to(table.device), table)


@implements("learned", level="contribution", positions="per_row", dtypes=DTYPES)
class Table(nn.Module):
    """The vectors of the positions, [L, D] or [B, L, D], from a table [F + P, D] that it owns."""

    def __init__(self, settings: Learned) -> None:
        super().__init__()
        self.settings = settings
        self.table = nn.Parameter(torch.empty(settings.first_row + settings.max_position, settings.embed_dim))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the table from a normal distribution of deviation 0.02, as BERT and GPT-2 do."""
        nn.init.normal_(self.table, std=INIT_STD)

    def forward(self, positions: Tensor) -> Tensor:
        return encode(self.settings, self.table, positions)


@implements("learned", level="contribution", positions="offset", dtypes=DTYPES)
def added(settings: Learned, table: Tensor, x: Tensor, offset: int) -> Tensor:
    """x [B, L, D] with the vectors of contiguous positions added: a slice of the table."""
    stop = offset + x.shape[-2]
    _refuse(settings, negative=offset < 0, beyond=stop > settings.max_position)
    return x + table[settings.first_row + offset : settings.first_row + stop].to(x.dtype)


@implements(
    "learned", level="attention", positions="per_row", binds=("mask", "causal", "scale"), dtypes=DTYPES,
    memory="B*H*Lq*Lk + B*H*Lq*D + B*H*Lk*D",
)  # fmt: skip
def attention(
    settings: Learned,
    table: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    query_positions: Tensor,
    key_positions: Tensor,
    *,
    mask: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """Attention [B, H, Lq, D] over q + e, k + e, v + e; q [B, H, Lq, D], k and v [B, Hkv, Lk, D]."""
    out = attend(
        _placed(settings, table, q, query_positions),
        _placed(settings, table, k, key_positions),
        _placed(settings, table, v, key_positions),
        visible=visible(query_positions, key_positions, mask, causal),
        scale=scale,
    )
    return out.to(q.dtype)


@implements("learned", level="attention", dtypes=DTYPES)
class Decoder:
    """Causal decoding; the cache holds keys and values with their vectors added, in the working dtype."""

    def __init__(self, settings: Learned, table: Tensor) -> None:
        self.settings, self.table = settings, table
        self._cache = KVCache("learned")

    @torch.no_grad()
    def step(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Outputs [B, H, n, D] of n new tokens; q, k and v [B, H, n, D]."""
        self._cache.check(k, v, q)
        start, n = self._cache.length, q.shape[-2]
        _refuse(self.settings, negative=False, beyond=start + n > self.settings.max_position)
        at = torch.arange(start, start + n, device=q.device)
        placed_q, placed_k, placed_v = (_placed(self.settings, self.table, x, at) for x in (q, k, v))
        keys, values = self._cache.append(placed_k, placed_v)
        return stepped(placed_q, keys, values, start).to(q.dtype)


def _placed(settings: Learned, table: Tensor, x: Tensor, positions: Tensor) -> Tensor:
    dtype = working(x.dtype)
    vectors = encode(settings, table, positions).to(dtype)
    return x.to(dtype) + (vectors.unsqueeze(1) if positions.ndim > 1 else vectors)


def _refuse_positions(settings: Learned, positions: Tensor) -> None:
    # Reading a value would stop a GPU and break a graph: only plain CPU tensors are asked.
    if positions.device.type != "cpu" or torch.compiler.is_compiling():
        return
    try:
        negative, beyond = bool((positions < 0).any()), bool((positions >= settings.max_position).any())
    except RuntimeError:  # a tensor batched by vmap or traced has no value
        return
    _refuse(settings, negative, beyond)


def _refuse(settings: Learned, negative: bool, beyond: bool) -> None:
    if negative:
        raise ValueError("learned: a position must be 0 or more. Count from the first token.")
    if beyond:
        raise ValueError(
            f"learned: a position must be less than max_position = {settings.max_position}. There is no vector beyond the "
            "table: use a longer one, or a scheme without a table of positions."
        )
