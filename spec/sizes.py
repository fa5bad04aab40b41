"""How many numbers a scheme learns, and how many a plain evaluation of it writes down beside q, k, v and q·k.

A plain evaluation makes every tensor of the formula whole, for one sample. A vector per pair of positions is by far the
largest of them: it is why Shaw's term is not computed that way, and no part of what the scheme is.

>>> from relpos.spec.clipped import Clipped
>>> from relpos.spec.shaw import Shaw
>>> parameter_count(Clipped(num_heads=12, max_distance=128))  # (2K + 1) · H
3084
>>> settings = Shaw(head_dim=64, max_distance=16)
>>> parameter_count(settings)  # (2K + 1) · D, twice
4224
>>> plain_tensors(settings, query_length=512, key_length=512, num_heads=8)["rel_k of every pair"]
(512, 512, 64)
"""

from math import prod
from typing import Any

# Tables that are read at a row per pair of positions, under the names that the contract gives them.
VECTOR_TABLES = ("rel_k", "rel_v", "pos_key", "pos_query")


def parameter_count(settings: Any) -> int:
    """Learned numbers, of one layer: the sum over `parameters()` of the product of the shape."""
    return sum(prod(shape) for shape in settings.parameters().values())


def plain_tensors(
    settings: Any, *, query_length: int, key_length: int, num_heads: int = 1, head_dim: int = 64
) -> dict[str, tuple[int, ...]]:
    """Tensors of the plain evaluation by name, with shapes; sizes that the settings have themselves are taken from there."""
    H, D = getattr(settings, "num_heads", num_heads), getattr(settings, "head_dim", head_dim)
    Lq, Lk = query_length, key_length
    if settings.form == "embedding":
        return {"embedding": (Lk, getattr(settings, "embed_dim", H * D))}
    if settings.form == "rotation":
        return {"turned q": (H, Lq, D), "turned k": (H, Lk, D)}
    if settings.form == "bias":
        return {"bias": (H, Lq, Lk)}
    if settings.form == "logits":
        tables = {name: shape for name, shape in settings.parameters().items() if name in VECTOR_TABLES}
        gathered = {f"{name} of every pair": (*shape[:-2], Lq, Lk, shape[-1]) for name, shape in tables.items()}
        return {"position term": (H, Lq, Lk), **gathered}
    return {}


def byte_count(shape: tuple[int, ...], bytes_per_number: int = 4) -> int:
    """Bytes of a tensor: of float32 unless another size is given.

    >>> byte_count((2048, 2048, 512)), byte_count((2048, 512))  # a vector per pair, and the table it is read from
    (8589934592, 4194304)
    """
    return prod(shape) * bytes_per_number
