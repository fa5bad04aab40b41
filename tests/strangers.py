"""Right implementations, in every shape in which somebody writes one: what the adapter must be able to take."""

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention


def slopes(num_heads):
    """The authors' rule, by recursion."""
    if num_heads & (num_heads - 1) == 0:
        return [2 ** (-8 * (h + 1) / num_heads) for h in range(num_heads)]
    p = 2 ** (num_heads.bit_length() - 1)
    return slopes(p) + slopes(2 * p)[0::2][: num_heads - p]


def penalty(num_heads, i, j):
    """−m·|i − j| for two columns of positions."""
    m = torch.tensor(slopes(num_heads)).view(-1, 1, 1)
    return -m * (i[:, None] - j[None, :]).abs()


# ---- functions


def by_lengths(num_heads, query_length, key_length, offset):
    return penalty(num_heads, torch.arange(offset, offset + query_length), torch.arange(key_length))


def by_positions(num_heads, query_positions, key_positions):
    return penalty(num_heads, query_positions, key_positions)


def by_settings(settings, query_positions, key_positions):
    return penalty(settings.num_heads, query_positions, key_positions)


def one_length(num_heads, key_length):
    return penalty(num_heads, torch.arange(key_length), torch.arange(key_length))


def positional_only(num_heads, query_positions, key_positions, /):
    return penalty(num_heads, query_positions, key_positions)


def in_numpy(num_heads, query_positions, key_positions):
    return penalty(num_heads, query_positions, key_positions).numpy()


def only_numpy(num_heads, query_positions, key_positions):
    if not isinstance(query_positions, np.ndarray):
        raise TypeError("arrays, please")
    m = np.array(slopes(num_heads)).reshape(-1, 1, 1)
    return -m * np.abs(query_positions[:, None] - key_positions[None, :])


class Capsule:
    """Nothing but DLPack."""

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor

    def __dlpack__(self, **options):
        return self._tensor.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._tensor.__dlpack_device__()


def in_dlpack(num_heads, query_positions, key_positions):
    return Capsule(penalty(num_heads, query_positions, key_positions))


class Arrayish:
    """Nothing but `__array__`."""

    def __init__(self, array):
        self._array = array

    def __array__(self, dtype=None, copy=None):
        return np.array(self._array, dtype=dtype)


def in_array_protocol(num_heads, query_positions, key_positions):
    return Arrayish(penalty(num_heads, query_positions, key_positions).numpy())


def with_an_option(num_heads, query_positions, key_positions, bias_max=8.0, verbose=False):
    assert bias_max == 8.0 and verbose is False
    return penalty(num_heads, query_positions, key_positions)


def marked(num_heads, i, j):
    return penalty(num_heads, i, j)


marked.__relpos__ = {"scheme": "alibi", "rename": {"i": "query_positions", "j": "key_positions"}}


def powers_of_two_only(num_heads, query_positions, key_positions):
    if num_heads & (num_heads - 1):
        raise ValueError(f"num_heads must be a power of two, got {num_heads}")
    return penalty(num_heads, query_positions, key_positions)


# ---- classes and modules


class Module(nn.Module):
    def __init__(self, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads

    def forward(self, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        return penalty(self.num_heads, query_positions, key_positions)


class Plain:
    def __init__(self, num_heads: int) -> None:
        self.num_heads = num_heads

    def __call__(self, query_length: int, key_length: int, offset: int) -> Tensor:
        return by_lengths(self.num_heads, query_length, key_length, offset)


def shaw(q, k, v, table_k, table_v):
    """Shaw of equally many queries and keys."""
    n, clip = q.shape[2], table_k.shape[0] // 2
    at = torch.arange(n)
    row = (at - at[:, None]).clamp(-clip, clip) + clip
    score = (q[..., :, None, :] * (k[..., None, :, :] + table_k[row])).sum(-1) * q.shape[-1] ** -0.5
    return (score.softmax(-1)[..., None] * (v[..., None, :, :] + table_v[row])).sum(-2)


class Named(nn.Module):
    """Owns its tables under our names."""

    def __init__(self, head_dim: int, max_distance: int) -> None:
        super().__init__()
        self.rel_k = nn.Parameter(torch.zeros(2 * max_distance + 1, head_dim))
        self.rel_v = nn.Parameter(torch.zeros(2 * max_distance + 1, head_dim))

    def forward(self, q, k, v):
        return shaw(q, k, v, self.rel_k, self.rel_v)


class Embedded(nn.Module):
    """Owns them as embeddings: `rel_k.weight`."""

    def __init__(self, head_dim: int, max_distance: int) -> None:
        super().__init__()
        self.rel_k = nn.Embedding(2 * max_distance + 1, head_dim)
        self.rel_v = nn.Embedding(2 * max_distance + 1, head_dim)

    def forward(self, q, k, v):
        return shaw(q, k, v, self.rel_k.weight, self.rel_v.weight)


class OneTable(nn.Module):
    """Owns one, under a name of its own: told by its shape."""

    def __init__(self, head_dim: int, max_distance: int) -> None:
        super().__init__()
        self.vectors = nn.Parameter(torch.zeros(2 * max_distance + 1, head_dim))

    def forward(self, q, k, v):
        return shaw(q, k, v, self.vectors, self.vectors)


class TwoTables(nn.Module):
    """Owns two of one shape, under names of its own: nobody can tell which is which."""

    def __init__(self, head_dim: int, max_distance: int) -> None:
        super().__init__()
        self.ek = nn.Parameter(torch.zeros(2 * max_distance + 1, head_dim))
        self.ev = nn.Parameter(torch.zeros(2 * max_distance + 1, head_dim))

    def forward(self, q, k, v):
        return shaw(q, k, v, self.ek, self.ev)


class Decoder:
    """Keys and values are kept as they come."""

    def __init__(self, num_heads: int) -> None:
        self.num_heads, self.keys, self.values = num_heads, [], []

    def step(self, q, k, v):
        self.keys.append(k)
        self.values.append(v)
        keys, values = torch.cat(self.keys, 2), torch.cat(self.values, 2)
        j = torch.arange(keys.shape[2])
        i = j[-q.shape[2] :]
        bias = penalty(self.num_heads, i, j).masked_fill(j > i[:, None], -torch.inf)
        return scaled_dot_product_attention(q, keys, values, attn_mask=bias[None].to(q.dtype))


# ---- in the manner of flex_attention


def eight_heads(score, b, h, q_idx, kv_idx):
    return score - 2.0 ** -(h + 1.0) * (q_idx - kv_idx).abs()


def build_score_mod(num_heads):
    m = torch.tensor(slopes(num_heads))
    return lambda score, b, h, q_idx, kv_idx: score - m[h] * (q_idx - kv_idx).abs()
