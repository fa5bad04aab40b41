"""Public reports of faults, transcribed: the smallest input of each, what is right there, and where told, what was got.

`ROWS` makes one-hot work short: row r of every table holds r, so that a bias is the row that was read. `Method` asks the
settings themselves, `Under` tries a law at the input, where values alone do not show it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import cos, sin
from typing import Any

import numpy as np

ROWS = "rows"  # row r of every table holds r
Pick = Callable[[np.ndarray], Any]


@dataclass(frozen=True)
class Value:
    """right: what the definition gives at this input, looked at through `pick`; got: what the report's code gave.

    plan    fields of the input, besides the settings
    but     q, k, v or mask, in place of drawn ones
    faults  names; none: all that bear the id
    """

    case: str
    scheme: str
    right: Any
    settings: Mapping[str, Any] = field(default_factory=dict)
    plan: Mapping[str, Any] = field(default_factory=dict)
    level: str = "contribution"
    params: Any = ROWS
    but: Mapping[str, Any] = field(default_factory=dict)
    pick: Pick = lambda value: value[0]
    got: Any = None
    faults: tuple[str, ...] = ()
    compiled: bool = False


@dataclass(frozen=True)
class Method:
    """right: what a method of the settings returns."""

    case: str
    scheme: str
    settings: Mapping[str, Any]
    name: str
    args: tuple
    right: Any
    got: Any = None
    faults: tuple[str, ...] = ()


@dataclass(frozen=True)
class Under:
    """A law fails at this input; without a plan, at what it always tries."""

    case: str
    scheme: str
    law: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    plan: Mapping[str, Any] | None = None
    calls: tuple[Mapping[str, Any], ...] = ()
    faults: tuple[str, ...] = ()
    compiled: bool = False


def square(n: int, **more: Any) -> dict[str, Any]:
    """n queries on n keys."""
    return {"query_length": n, "key_length": n, **more}


def step(n: int, **more: Any) -> dict[str, Any]:
    """The last of n tokens, all of them cached."""
    return {"query_length": 1, "key_length": n, "offset": n - 1, **more}


def at(queries: tuple, keys: tuple, **more: Any) -> dict[str, Any]:
    """Listed positions."""
    sizes = {"query_length": len(queries), "key_length": len(keys)}
    return {"query_positions": queries, "key_positions": keys, **sizes, **more}


def per_slope(value: np.ndarray) -> np.ndarray:
    """Of one head, whose slope is 2^−8."""
    return value[0] * 256


def last(value: np.ndarray) -> np.ndarray:
    """The last key of all heads, first query."""
    return value[:, 0, -1]


def first(value: np.ndarray) -> np.ndarray:
    """The first key of all heads, first query."""
    return value[:, 0, 0]


ONE_HEAD = {"num_heads": 1}
T5 = {"num_heads": 1}
SIX = [-1 / 4, -1 / 16, -1 / 64, -1 / 256, -1 / 2, -1 / 8]
XL = {"num_heads": 1, "head_dim": 2, "d_model": 2}
# q and k hold nothing, v asks for the sine: the logits of a query are the sines of its distances.
SINES = {"pos_bias_u": np.zeros((1, 2)), "pos_bias_v": np.array([[1.0, 0.0]]), "w_pos": np.eye(2)}
XLNET = {**SINES, "seg_embed": np.zeros((2, 1, 2)), "seg_bias": np.zeros((1, 2))}
EMPTY = {"scale": 1.0, "content": "zeros", "heads": 1, "head_dim": 2}
V1 = {"num_heads": 1, "head_dim": 1, "max_distance": 2}
ONES = {"scale": 1.0, "content": "ones", "heads": 1, "head_dim": 1}
SHAW = {"head_dim": 1, "max_distance": 4}
LOGITS: dict[str, Any] = {"level": "logits", "pick": lambda value: value[0, 0]}
EVEN = {"content": "zeros", "heads": 1, "causal": True}  # equal weights, and values that say which key they belong to
OUT: dict[str, Any] = {"level": "attention", "pick": lambda value: value[0, 0, 0]}
TRIANGLE = [[0, -1, -2], [-1, 0, -1], [-2, -1, 0]]

ALIBI = (
    Value("B001", "alibi", [-1 / 16, -1 / 256, -1 / 4], {"num_heads": 3}, at((1,), (0,)), pick=first,
          got=[-0.1575, -0.0248, -0.0039]),
    Value("B003", "alibi", SIX, {"num_heads": 6}, step(2), pick=first, faults=("slopes-next-power", "other-slopes-in-decode")),
    Value("B004", "alibi", SIX, {"num_heads": 6}, square(4), pick=lambda value: value[:, 1, 0]),
    Value("B005", "alibi", [*SIX[:4], 0, 0, 0, 0], {"num_heads": 8, "num_biased_heads": 4}, square(5),
          pick=lambda value: value[:, 1, 0]),
    Value("B006", "alibi", TRIANGLE, ONE_HEAD, square(3), pick=per_slope, got=[[0, 0, 0], [-1, 0, 0], [-2, -1, 0]]),
    Value("B009", "alibi", [[-3, -2, -1], [-1, 0, -1], [-2, -1, 0]], {"num_heads": 2},
          square(3, batch=2, query_positions=((0, 1, 2), (3, 1, 2)), key_positions=((0, 1, 2), (0, 1, 2))),
          pick=lambda value: value[1, 0] * 16),
    Value("B013", "alibi", TRIANGLE, ONE_HEAD, square(3), pick=per_slope, got=[[0, 1, 2], [-1, 0, 1], [-2, -1, 0]]),
    Value("B015", "alibi", [-4, -3, -2, -1, 0], ONE_HEAD, step(5), pick=lambda value: value[0, 0] * 256,
          got=[-5, -4, -3, -2, -1]),
    Value("B016", "alibi", [-(2.0**-h) for h in range(1, 9)], {"num_heads": 8}, step(2), pick=first,
          faults=("slopes-rank-0",)),
    Under("B016", "alibi", "L9", {"num_heads": 8}, {**step(2), "heads": 8, "extra": {"heads": (4, 5, 6, 7)}},
          faults=("first-rank",)),
    Value("B018", "alibi", [-4, -3, -2, -1, 0], ONE_HEAD, step(5), pick=lambda value: value[0, 0] * 256, got=[0] * 5),
    Value("B019", "alibi", SIX, {"num_heads": 6}, square(4), pick=lambda value: value[:, 1, 0]),
    Value("B020", "alibi", [-1 / 16, -1 / 256, -1 / 4], {"num_heads": 3}, at((257,), (256,), dtype="bfloat16"), pick=first,
          got=[0, 0, 0]),
    Under("B021", "alibi", "L23", {"num_heads": 12}, {**square(2), "heads": 12, "extra": {"way": "cast"}}),
    Value("B022", "alibi", [-6, -5, -4, -3, -2, -1, 0], ONE_HEAD, step(7), pick=lambda value: value[0, 0] * 256,
          got=[0, -1, -2, -3, -4, -5, -6]),
    Under("B138", "alibi", "L20", ONE_HEAD, {**square(129), **at((*range(129),), (*range(129),)), "causal": True, "head_dim": 1,
                                             "extra": {"subset": 0}}),
    Value("B142", "alibi", [-58255], ONE_HEAD, at((58255,), (*range(73728),)), pick=lambda value: value[0, :, 0] * 256,
          got=[0]),
    Value("B144", "alibi", [-1], ONE_HEAD, at((32768,), (32767,)), pick=lambda value: value[0, 0] * 256, got=[-65535]),
    Value("B149", "alibi", [0, -3, -4, -7], ONE_HEAD, at((0, 3, 4, 7), (*range(8),)), pick=lambda value: value[0, :, 0] * 256,
          got=[0, -3, 0, -3]),
    Value("B151", "alibi", [0, -3, -4, -7], ONE_HEAD, at((0, 3, 4, 7), (*range(8),)), pick=lambda value: value[0, :, 0] * 256,
          got=[0, -3, -3, -6]),
    Under("B152", "alibi", "L22"),
    Under("B154", "alibi", "L22"),
)  # fmt: skip

TABLES = (
    Value("B007", "t5", [[4, 3, 2, 1, 0]], T5, step(5), got=[[0, 17, 18, 19, 20]]),
    Value("B008", "t5", [[17]], T5, at((0,), (1,)), got=[[0]]),
    Value("B008", "t5", [[9]], {**T5, "bidirectional": False}, at((9,), (0,)), got=[[8]]),
    Value("B025", "t5", np.zeros((2, 3)), {**T5, "cross_attention": True}, {"query_length": 2, "key_length": 3}),
    Under("B027", "t5", "L4"),
    Value("B029", "t5", [[1, 0]], T5, step(2), got=[[0, 0]]),
    Value("B030", "t5", [[14]], {**T5, "max_distance": 256}, at((130,), (0,)), got=[[15]]),
    Value("B031", "t5", [[0, 17, 18, 19]] * 3, {"num_heads": 3}, square(4), pick=lambda value: value[:, 0]),
    Value("B032", "t5", [[17]], T5, at((0,), (1,)), got=[[1]]),
    Value("B033", "t5", [[1, 0]], T5, step(2), compiled=True),
    Under("B133", "t5", "L20", {**T5, "score_scale": "none"}, {**at((*range(4),), (*range(4),)), "extra": {"subset": 4}}),
    Under("B134", "t5", "L20", T5, {**at((*range(4),), (*range(4),)), "extra": {"subset": 0}}),
    Under("B066", "swin", "L23", {**T5, "window_size": (7, 7)},
          {**square(49), "heads": 1, "grid": (7, 7), "extra": {"way": "meta"}}),
    Value("B068", "swin", [[4, 3, 1, 0]], {**T5, "window_size": (2, 2)}, square(4, grid=(2, 2)),
          pick=lambda value: value[0, :1], faults=("rows-in-float",)),
    Value("B072", "swin", [[12, 11, 7, 6]], {**T5, "window_size": (3, 3)}, square(4, grid=(2, 2)),
          pick=lambda value: value[0, :1], faults=("rows-of-this-grid",)),
    Value("B089", "swin", [[12]], {**T5, "window_size": (2, 3)}, at(((1, 0),), ((0, 0),)), got=[[8]]),
    Value("B074", "beit", [[11, 9, 9], [10, 4, 3], [10, 5, 4]], {**T5, "window_size": (2, 2)}, square(3, grid=(1, 2)),
          faults=("grid-fixed",)),
    Method("B070", "swin_v2", {**T5, "window_size": (8, 8)}, "coordinates_of", ((7, 0), (0, 0)), [1.0566, 0], [1, 0]),
    Method("B071", "swin_v2", {**T5, "window_size": (8, 8), "coordinates": "paper"}, "coordinates_of", ((7, 0), (0, 0)),
           [2.0794, 0], [1.0566, 0]),
    Method("B089", "swin_v2", {**T5, "window_size": (2, 3)}, "coordinates_of", ((1, 0), (0, 0)), [1.0566, 0], [0, 1.0566]),
)  # fmt: skip

CONTENT = (
    Value("B035", "shaw", [[2, 3, 4]], SHAW, step(3, **ONES), but={"k": 0.0}, **LOGITS, got=[[4, 4, 4]]),
    Value("B038", "shaw", [[1, 2, 3, 4]], SHAW, step(4, **ONES), but={"k": 0.0}, **LOGITS),
    Under("B039", "music_transformer", "L20", {**T5, "head_dim": 1, "max_distance": 2},
          {**at((0, 1), (0, 1)), "head_dim": 1, "extra": {"subset": 4}}),
    Value("B042", "transformer_xl", None, XL, square(3, heads=1), params=None, level="attention"),
    Value("B043", "transformer_xl", [sin(-2)], {**XL, "variant": "bidirectional"}, square(3, **EMPTY), params=SINES,
          level="logits", pick=lambda value: value[0, 0, 0, 2:], got=[sin(2)], faults=("shifted",)),
    Value("B045", "transformer_xl", [sin(2), sin(1), 0], XL, step(3, **EMPTY), params=SINES, level="logits",
          pick=lambda value: value[0, 0, 0]),
    Value("B048", "transformer_xl", [sin(5 - j) for j in range(8)], XL,
          {**EMPTY, "query_length": 3, "key_length": 8, "offset": 5},
          params=SINES, level="logits", pick=lambda value: value[0, 0, 0], got=[sin(3 - j) for j in range(8)]),
    Value("B050", "transformer_xl", [sin(2), sin(1), 0], {**XL, "variant": "xlnet"}, step(3, **EMPTY), params=XLNET,
          level="logits", pick=lambda value: value[0, 0, 0]),
    Value("B052", "transformer_xl", [sin(2), sin(1), 0], XL, at((3,), (1, 2, 3), **EMPTY), params=SINES, level="logits",
          pick=lambda value: value[0, 0, 0], got=[sin(1), sin(2), sin(3)]),
    Value("B053", "transformer_xl", [0, 1, 1, 1, 1], {**XL, "segment_length": 3, "memory_length": 4},
          at((6,), (1, 2, 3, 4, 5), **EMPTY), params=SINES, level="logits", pick=lambda value: np.isfinite(value[0, 0, 0]),
          got=[0, 0, 1, 1, 1]),
    Value("B054", "deberta", [[5, 3], [7, 5], [7, 7]], V1, {**ONES, "query_length": 3, "key_length": 2}, **LOGITS),
    Value("B055", "deberta", [[3, 2], [4, 3]], {**V1, "terms": "p2c"}, square(2, **ONES), **LOGITS),
    Value("B057", "deberta", [27], {**V1, "max_distance": 16, "version": "v2", "num_buckets": 8},
          at((6,), (*range(8),), **ONES), level="logits", pick=lambda value: value[0, 0, 0, :1], got=[31]),
    Value("B058", "deberta", [[5, 3], [7, 5]], V1, square(2, **ONES), **LOGITS, got=[[5, 5], [5, 5]]),
    Value("B060", "deberta", [47], {**V1, "max_distance": 16}, step(8, **ONES), level="logits",
          pick=lambda value: value[0, 0, 0, :1], got=[41], compiled=True),
    Under("B061", "deberta", "L18", {**V1, "head_dim": 64},
          {**square(2), "heads": 1, "head_dim": 64, "dtype": "float16", "extra": {"mode": "large"}}),
    Value("B062", "deberta", [5, 3, 1, 1], V1, square(4, **ONES, dtype="bfloat16"), level="logits",
          pick=lambda value: value[0, 0, 0]),
    Value("B065", "deberta", [32777], {**V1, "max_distance": 16385}, square(4, **ONES), level="logits",
          pick=lambda value: value[0, 0, 3, :1]),
    Value("B135", "none", [0, 0], {}, square(2, **EMPTY), but={"mask": [[True, True], [False, False]]}, level="attention",
          pick=lambda value: value[0, 0, 1], faults=("empty-row-nan",)),
    Value("B137", "none", [7, 7], {}, {**EMPTY, "query_length": 1, "key_length": 2}, level="attention",
          but={"mask": [[True, False]], "v": [[7.0, 7.0], [np.nan, np.nan]]}, pick=lambda value: value[0, 0, 0],
          faults=("poisoned-values",)),
    Under("B140", "none", "L25", {}, {**square(33), "heads": 2, "mask": "random", "extra": {"storage": "expanded"}},
          faults=("strides-assumed-ragged",)),
    Value("B146", "none", [1 / 3, 1 / 3, 1 / 3, 0, 0], {}, {**EVEN, "query_length": 3, "key_length": 5, "offset": 2,
          "head_dim": 5}, but={"v": np.eye(5)}, **OUT, got=[1, 0, 0, 0, 0], faults=("top-left",)),
    Value("B146", "none", [1, 0, 0, 0, 0], {}, {**EVEN, "query_length": 3, "key_length": 5, "head_dim": 5},
          but={"v": np.eye(5)}, **OUT, got=[1 / 3, 1 / 3, 1 / 3, 0, 0], faults=("bottom-right",)),
    Value("B148", "none", [1 / 2, 1 / 2, 0], {}, {**EVEN, "query_length": 2, "key_length": 3, "offset": 1, "head_dim": 3},
          but={"v": np.eye(3)}, **OUT, got=[1, 0, 0], faults=("top-left",)),
    Value("B129", "none", [1 / 2], {}, at((1,), (0,), heads=1, head_dim=4), but={"q": [[1, 0, 0, 0]], "k": [[1, 0, 0, 0]]},
          level="logits", pick=lambda value: value[0, 0, 0], got=[cos(1) / 2]),
)  # fmt: skip
