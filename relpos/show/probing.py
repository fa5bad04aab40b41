"""What a definition reads and writes, found by asking it: no scheme is known by name here.

A learned table is filled with the binary digits of its own row numbers, one digit a time; what comes back says which row
every pair of positions reads, whatever the scale, and −1 where none is read.
"""

from dataclasses import MISSING, fields, replace
from importlib import import_module
from inspect import signature
from typing import Any

import numpy as np

from relpos.conformance.settings import legal, parse_settings
from relpos.spec.contract import PositionError
from relpos.spec.positions import Positions, Range

# Sizes that have no default, as they are shown unless --set says otherwise.
SHOWN = {"num_heads": 8, "head_dim": 64, "embed_dim": 64, "window_size": (3, 4)}


def shown_settings(cls: type[Any], scheme: str, texts: list[str]) -> tuple[Any, dict[str, str]]:
    """Settings to show, and where each value comes from: "given", "default" or "example"."""
    given = parse_settings(scheme, texts)
    values, origin = dict(given), {}
    for field in fields(cls):
        origin[field.name] = "given" if field.name in given else "default"
        if field.default is MISSING and field.name not in given:
            origin[field.name] = "example"
            values[field.name] = _example(cls, field.name)
    if not legal(cls, values):
        smallest = {n: cls.draws[n][0] for n, o in origin.items() if o == "example" and n in getattr(cls, "draws", {})}
        values = values | smallest if legal(cls, values | smallest) else values
    return cls(**values), origin


def drawn_parameters(settings: Any, seed: int = 0) -> dict[str, np.ndarray]:
    """Learned tensors, drawn: there is nothing else to show of them."""
    rng = np.random.default_rng(seed)
    return {name: rng.standard_normal(shape) for name, shape in settings.parameters().items()}


def positions_shown(settings: Any, length: int) -> Positions:
    """The first positions; where they have several axes, those of the whole window."""
    if axes(settings) == 1:
        return Range(0, length)
    return import_module("relpos.spec.positions").Grid(settings.window_size, getattr(settings, "special", 0))


def axes(settings: Any) -> int:
    """Coordinates of a position."""
    return getattr(settings, "axes", 1)


def position_term(settings: Any, params: dict, q: np.ndarray, k: np.ndarray, queries: Positions, keys: Positions) -> np.ndarray:
    """What the scheme adds to the logits, [H, Lq, Lk], at scale 1; q, k [H, L, D]."""
    if settings.form == "bias":
        return settings.bias(params, queries, keys)
    return settings.logits(params, q, k, queries, keys, scale=1.0)


def rows_read(settings: Any, name: str, queries: Positions, keys: Positions) -> np.ndarray | None:
    """Rows of a learned table that pairs of positions read, integers [Lq, Lk], −1 for none; None: it is not read by rows."""
    single = one_head(settings)
    shape = single.parameters().get(name, ())
    if len(shape) < 2 or settings.form not in ("bias", "logits"):
        return None
    count = shape[0] if settings.form == "bias" else shape[-2]
    for role in ("query", "key"):
        code = np.zeros((len(queries), len(keys)), dtype=np.int64)
        for digit in range(count.bit_length()):
            digits = np.array([(row + 1) >> digit & 1 for row in range(count)], dtype=np.float64)
            term = _term_of(single, name, digits, role, queries, keys)
            code += (np.isfinite(term) & (term != 0)).astype(np.int64) << digit
        read = np.unique(code[code > 0])
        if code.max() <= count and (len(read) > 1 or (count == 1 and len(np.unique(code)) > 1)):
            return code - 1
    return None


def one_head(settings: Any) -> Any:
    """The same settings with one head, where that is legal."""
    values = {field.name: getattr(settings, field.name) for field in fields(settings)}
    single = {**values, "num_heads": 1}
    return replace(settings, num_heads=1) if "num_heads" in values and legal(type(settings), single) else settings


def steps(rows: list[int]) -> list[tuple[int, int]]:
    """Runs of equal entries, [first index, last index]."""
    starts = [n for n in range(len(rows)) if n == 0 or rows[n] != rows[n - 1]]
    return list(zip(starts, [n - 1 for n in starts[1:]] + [len(rows) - 1], strict=True))


def reach(settings: Any, wanted: int) -> int:
    """The greatest distance up to `wanted` at which the scheme is defined on either side."""
    own = settings.reach() if hasattr(settings, "reach") else None
    return wanted if own is None else min(wanted, own)


def any_length(settings: Any, far: int = 10**6) -> bool:
    """Whether a query at a far position can attend to the first one."""
    single, one = one_head(settings), np.zeros((1, 1, _width(settings)))
    zeros = {name: np.zeros(shape) for name, shape in single.parameters().items()}
    place: Any = import_module("relpos.spec.positions").Explicit
    if axes(settings) == 1:
        there, first = place([far]), place([0])
    else:
        there, first = (place(np.full((1, axes(settings)), p), axes=axes(settings)) for p in (far, 0))
    try:
        if settings.form in ("bias", "logits"):
            position_term(single, zeros, one, one, there, first)
        elif settings.form == "embedding":
            encoded(settings, there, zeros)
        elif settings.form == "rotation":
            settings.rotate(one, there, "query")
    except PositionError:
        return False
    return True


def encoded(settings: Any, positions: Positions, params: dict) -> np.ndarray:
    """Vectors of positions, [L, D]; `params` are given to those who ask for them."""
    asks = "params" in signature(settings.encode).parameters
    return settings.encode(positions=positions, **({"params": params} if asks else {}))


def embedded(settings: Any, length: int) -> np.ndarray:
    """Vectors of the first positions, [L, D]; a learned table is drawn."""
    return encoded(settings, Range(0, length), drawn_parameters(settings))


def _term_of(settings: Any, name: str, digits: np.ndarray, role: str, queries: Positions, keys: Positions) -> np.ndarray:
    """The term of the first head when one table holds `digits` in its rows, everything else 0, and one side a unit vector."""
    params = {other: np.zeros(shape) for other, shape in settings.parameters().items()}
    heads, width = getattr(settings, "num_heads", 1), _width(settings)
    q, k = np.zeros((heads, len(queries), width)), np.zeros((heads, len(keys), width))
    if settings.form == "bias":
        params[name][:] = digits[:, None]
    else:
        params[name][..., 0] = digits
    (q if role == "query" else k)[..., 0] = 1.0
    return position_term(settings, params, q, k, queries, keys)[0]


def _width(settings: Any) -> int:
    return getattr(settings, "head_dim", SHOWN["head_dim"])


def _example(cls: type[Any], name: str) -> Any:
    """A telling value: a usual size, or the largest that is worth trying."""
    return SHOWN[name] if name in SHOWN else max(cls.draws[name])


def length_within(settings: Any, wanted: int) -> int:
    """The most positions from 0 on, up to `wanted`, for which the embedding is defined."""
    for length in range(wanted, 0, -1):
        try:
            embedded(settings, length)
        except PositionError:
            continue
        return length
    return 0
