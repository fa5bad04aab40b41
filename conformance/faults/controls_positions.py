"""Right position terms in unusual styles: complex numbers, matrices, gathers, other ways to count and to look up."""

import numpy as np
import torch
from torch import Tensor, nn

from relpos.conformance.faults.api import Control
from relpos.conformance.faults.controls_attention import searched
from relpos.spec.sinusoidal import Sinusoidal

WOVEN = {"layout": "interleaved", "rotary_dim": None, "base": 10000.0, "partial": "leading", "scaling": "none"}
SEPARATE = {"tables": "separate", "sign": "published"}
V1 = {"version": "v1", "indices": "code", "terms": "both", "share_att_key": False, "num_buckets": None, "clamp": False}
CLIPPED = {"directions": "both", "beyond": "repeat", "sign": "query_minus_key", "heads": "own"}
PUBLISHED_T5 = {"sign": "key_minus_query", "cross_attention": False}


def _angles(positions: Tensor, width: int) -> Tensor:
    return positions[..., None] * 10000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)


def complex_numbers(x: Tensor, positions: Tensor) -> Tensor:
    """Neighbours are one complex number, multiplied by e^(ipθ)."""
    unit = torch.polar(torch.ones((), dtype=torch.float64), _angles(positions, x.shape[-1])).to(torch.complex64)
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * unit).flatten(-2)


def rotation_matrices(x: Tensor, positions: Tensor) -> Tensor:
    """One block-diagonal matrix for every position."""
    angles = _angles(positions, x.shape[-1])
    c, s = angles.cos(), angles.sin()
    blocks = torch.stack((torch.stack((c, -s), -1), torch.stack((s, c), -1)), -2).to(x.dtype)
    whole = torch.stack([torch.block_diag(*row) for row in blocks]) if len(blocks) else blocks.new_zeros(0, *2 * x.shape[-1:])
    return torch.einsum("lij,...lj->...li", whole, x)


def doubled_columns(x: Tensor, positions: Tensor) -> Tensor:
    """GPT-J's: cosines and sines repeated for both columns, x plus its neighbours turned by a quarter."""
    angles = _angles(positions, x.shape[-1]).repeat_interleave(2, dim=-1)
    quarter = torch.stack((-x[..., 1::2], x[..., 0::2]), dim=-1).flatten(-2)
    return (x.double() * angles.cos() + quarter.double() * angles.sin()).to(x.dtype)


def rows_of_a_list(settings: Sinusoidal, positions):
    """NumPy, one position at a time, parts of e^(ipθ)."""
    out = np.zeros((len(positions), settings.embed_dim), dtype=np.float32)
    for row, p in zip(out, np.asarray(positions), strict=True):
        wave = np.exp(1j * int(p) * settings.frequencies())
        for m, (sine, cosine) in enumerate(settings.columns()):
            row[sine] = wave[m].imag
            if cosine < settings.embed_dim:
                row[cosine] = wave[m].real
    return out


def one_hot_rows(settings, table: Tensor, positions: Tensor) -> Tensor:
    """A product of one-hot rows with the table; positions outside it are refused."""
    rows = positions + settings.first_row
    if positions.numel() and (positions.min() < 0 or positions.max() >= settings.max_position):
        raise ValueError(f"max_position is {settings.max_position}, got positions up to {int(positions.max())}")
    return nn.functional.one_hot(rows, len(table)).to(table.dtype) @ table


class Embedded(nn.Module):
    """T5's table as an embedding, rows by a sorted search."""

    def __init__(self, settings) -> None:
        super().__init__()
        self.settings = settings
        self.relative_attention_bias = nn.Embedding(settings.num_buckets, settings.num_heads)

    def forward(self, query_length: int, key_length: int, offset: int) -> Tensor:
        far = np.arange(key_length) - np.arange(offset, offset + query_length)[:, None]
        return self.relative_attention_bias(torch.from_numpy(searched(self.settings, far))).permute(2, 0, 1)


def a_list_of_heads(settings, table, query_positions, key_positions):
    """NumPy, one line of the table for every query, heads in a list."""
    K = settings.max_distance
    heads = []
    for h in range(settings.num_heads):
        lines = [np.take(table[:, h], np.clip(int(i) - key_positions, -K, K) + K) for i in query_positions]
        heads.append(np.array(lines).reshape(len(query_positions), len(key_positions)))
    return np.stack(heads)


def products_gathered(
    q: Tensor, k: Tensor, v: Tensor, rel_k: Tensor, rel_v: Tensor, query_positions: Tensor, key_positions: Tensor
) -> Tensor:
    """q meets every row of the table once, the products are gathered; weights are scattered back onto rows for the values."""
    K, shape = rel_k.shape[0] // 2, (*q.shape[:3], k.shape[2])
    r = ((key_positions - query_positions[:, None]).clamp(-K, K) + K).expand(shape)
    score = q @ k.transpose(-1, -2) + (q @ rel_k.T).gather(-1, r)
    weights = (score * q.shape[-1] ** -0.5).softmax(-1)
    by_row = weights.new_zeros(*shape[:3], rel_k.shape[0]).scatter_add(-1, r, weights)
    return weights @ v + by_row @ rel_v


def disentangled_gathers(q: Tensor, k: Tensor, pos_key: Tensor, pos_query: Tensor, query_positions, key_positions) -> Tensor:
    """The authors' gathers, p2c along the keys and then transposed; scaled before the product."""
    K, D, (B, H) = pos_key.shape[-2] // 2, q.shape[-1], q.shape[:2]
    r = (query_positions[:, None] - key_positions + K).clamp(0, 2 * K - 1)
    q, s = q / (3 * D) ** 0.5, (3 * D) ** -0.5
    c2p = (q @ pos_key.transpose(-1, -2)).gather(-1, r.expand(B, H, -1, -1))
    p2c = (k @ (pos_query * s).transpose(-1, -2)).gather(-1, r.T.expand(B, H, -1, -1)).transpose(-1, -2)
    return q @ k.transpose(-1, -2) + c2p + p2c


def image_of_offsets(settings, table: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor:
    """The table as an image [2Wh − 1, 2Ww − 1, H], looked up at two coordinates."""
    height, width = settings.window_size
    image = table.view(2 * height - 1, 2 * width - 1, -1)
    d = query_positions[:, None] - key_positions
    return image[d[..., 0] + height - 1, d[..., 1] + width - 1].permute(2, 0, 1)


# fmt: off
POSITIONS = (
    Control("complex-numbers", "pairs as complex numbers", "rope", complex_numbers, settings=WOVEN),
    Control("rotation-matrices", "a matrix for every position", "rope", rotation_matrices, settings=WOVEN),
    Control("doubled-columns", "cosines repeated for both columns, in float64", "rope", doubled_columns, settings=WOVEN),
    Control("rows-of-a-list", "NumPy, one position at a time", "sinusoidal", rows_of_a_list),
    Control("one-hot-rows", "a product of one-hot rows", "learned", one_hot_rows),
    Control("embedded", "an embedding of heads, buckets by a sorted search", "t5", Embedded, settings=PUBLISHED_T5),
    Control("list-of-heads", "NumPy, heads in a list", "clipped", a_list_of_heads, settings=CLIPPED),
    Control("products-gathered", "products gathered, weights scattered", "shaw", products_gathered, settings=SEPARATE),
    Control("disentangled-gathers", "the authors' gathers", "deberta", disentangled_gathers, settings=V1,
        claims={"level": "logits"}),
    Control("image-of-offsets", "the table as an image", "swin", image_of_offsets,
        settings={"window_size": (3, 2), "sign": "query_minus_key"}),
)
# fmt: on
