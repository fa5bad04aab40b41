"""Settings that a scheme is measured with: sizes of the shape, then what was published, then as many rows as it needs."""

from dataclasses import MISSING, fields
from math import isqrt
from typing import Any

from relpos.conformance.settings import choices, legal
from relpos.perf.point import Shape
from relpos.spec.registry import settings_class

CLIP = 64  # distances with a row of their own, where the outermost row is repeated beyond and nothing was published
FAR = 2**20


def measured_settings(scheme: str, shape: Shape, given: dict[str, Any]) -> dict[str, Any]:
    """All settings of a scheme for a shape; `given` ones stay."""
    cls = settings_class(scheme)
    wide = shape.heads * shape.head_dim  # an embedding is added before the width is split into heads
    sizes = {"num_heads": shape.heads, "head_dim": shape.head_dim, "embed_dim": wide, "max_position": shape.key_length}
    required = {f.name for f in fields(cls) if f.default is MISSING}
    values: dict[str, Any] = {name: size for name, size in sizes.items() if name in required}
    if "window_size" in required:
        values["window_size"] = window(shape.key_length - getattr(cls, "special", 0))
    published = next(iter(getattr(cls, "published", ())), {})
    values |= {name: value for name, value in published.items() if name in required}
    values |= _directions(cls, shape.causal)
    values |= {name: value for name, value in given.items() if name not in values or name not in sizes}
    for name in sorted(required - set(values)):
        values[name] = CLIP if _repeats(cls, {**values, name: CLIP}) else shape.key_length
    return values


def window(length: int) -> tuple[int, int]:
    """The squarest grid of so many tokens, (height, width): 512 is 16 × 32."""
    height = next(h for h in range(isqrt(length), 0, -1) if length % h == 0)
    return height, length // height


def _directions(cls: type[Any], causal: bool) -> dict[str, Any]:
    """A scheme that comes in one form for decoders and in another for encoders is measured in the one that fits."""
    named = choices(cls)
    found: dict[str, Any] = {}
    if "bidirectional" in named:
        found["bidirectional"] = not causal
    if {"masked", "unmasked"} <= set(named.get("variant", ())):
        found["variant"] = "masked" if causal else "unmasked"
    return found


def _repeats(cls: type[Any], values: dict[str, Any]) -> bool:
    """Whether distances beyond the table read its last row; otherwise every distance needs one."""
    if not legal(cls, values):
        return False
    row = getattr(cls(**values), "row", None)
    return row is None or row(FAR, 0) is not None
