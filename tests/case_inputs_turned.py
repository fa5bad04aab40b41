"""Public reports of faults, transcribed: rotations, their scaling, and embeddings."""

from math import cos, log, sin

from case_inputs import Method, Under, Value, at, square, step

FIRST = {"q": [[1, 0, 0, 0]], "k": [[1, 0, 0, 0]]}
FOUR, TWO = {"head_dim": 4}, {"head_dim": 2}
LONE = {"query_positions": (1,), "key_positions": (1,), "query_length": 1, "key_length": 1, "heads": 1}
WIDE = {"head_dim": 8, "rotary_dim": 4, "layout": "half"}
PARTIAL = [cos(1) - sin(1), cos(0.01) - sin(0.01), cos(1) + sin(1), cos(0.01) + sin(0.01), 1, 1, 1, 1]
SPREAD = [cos(1) - sin(1), cos(0.1) - sin(0.1), 1, 1, cos(1) + sin(1), cos(0.1) + sin(0.1), 1, 1]
DYNAMIC = {"head_dim": 4, "scaling": "dynamic", "factor": 2.0, "max_position": 4}
YARN = {"head_dim": 4, "scaling": "yarn", "original_max_position": 512}
EAST = {"content": "ones", "heads": 1, "scale": 1.0, "head_dim": 2}
UNIT = {"q": [[1, 0]], "k": [[1, 0]]}
PAIR = {"q": [[1, 0, 0, 0]] * 2, "k": [[0, 0, 1, 0]] * 2}
PADDED = at((0, 0, 0, 1), (0, 0, 0, 1), heads=1, head_dim=2)


def row(n):
    """Row n of the first head."""
    return lambda value: value[0, 0, n]


ROTATIONS = (
    Value("B081", "rope", [sin(1), sin(1)], {**FOUR, "layout": "half"}, at((1, 2), (0, 1), heads=1, head_dim=4, scale=1.0),
          level="logits", but=PAIR, pick=lambda value: [value[0, 0, 0, 0], value[0, 0, 1, 1]], got=[0.0100, 0.3702]),
    Value("B082", "rope", [cos(1), sin(1), 0, 0], FOUR, {**LONE, "head_dim": 4}, but=FIRST, pick=row(0),
          got=[cos(1), 0, sin(1), 0]),
    Value("B083", "rope", [cos(1), 0, sin(1), 0], {**FOUR, "layout": "half"}, {**LONE, "head_dim": 4}, but=FIRST, pick=row(0),
          got=[cos(1), sin(1), 0, 0]),
    Value("B084", "rope", PARTIAL, WIDE, {**LONE, "head_dim": 8, "content": "ones"}, pick=row(0), got=SPREAD),
    Value("B086", "rope", PARTIAL, WIDE, {**LONE, "head_dim": 8, "content": "ones"}, pick=row(0)),
    Value("B092", "rope", [0] * 4, {**FOUR, "layout": "half"}, at((0, 1, 2), (0, 1, 2), heads=2, head_dim=4, content="ones"),
          pick=lambda value: value[0, 0, 2] - value[0, 1, 2]),
    Value("B094", "rope", [cos(3) - sin(3)], {**FOUR, "layout": "half"},
          at((0, 1, 2, 3), (0, 1, 2, 3), heads=2, head_dim=4, content="ones"), pick=lambda value: value[0, 0, 3, :1],
          got=[cos(1) - sin(1)]),
    Under("B095", "rope", "L4", {**FOUR, "layout": "half"}, square(2, head_dim=4, heads=1),
          calls=(square(2, head_dim=4, heads=1, offset=3),)),
    Under("B095", "learned", "L4", {"max_position": 8, "embed_dim": 4}, square(2, head_dim=4),
          calls=(square(2, head_dim=4, offset=3),)),
    Under("B095", "sinusoidal", "L4", {"embed_dim": 4}, square(2, head_dim=4), calls=(square(2, head_dim=4, offset=3),)),
    Value("B096", "rope", [cos(2), cos(1), 1], TWO, step(3, **EAST), but=UNIT, level="logits", pick=row(0),
          got=[1, cos(1), cos(2)]),
    Under("B097", "rope", "L3", {**FOUR, "layout": "half"},
          {**square(3), "heads": 1, "head_dim": 4, "causal": True, "extra": {"chunks": (1, 1, 1)}},
          faults=("steps-from-zero",)),
    Value("B099", "rope", [cos(2), cos(1), 1], TWO, step(3, **EAST), but=UNIT, level="logits", pick=row(0),
          got=[1, cos(1), cos(2)]),
    Value("B101", "rope", [cos(3), cos(2), cos(1), 1], TWO, step(4, **EAST), but=UNIT, level="logits", pick=row(0),
          got=[cos(3), cos(2), cos(3), cos(2)]),
    Value("B104", "rope", [cos(1), sin(1)], TWO, PADDED, but=UNIT, pick=row(3), got=[cos(3), sin(3)]),
    Value("B106", "rope", [cos(1), sin(1)], TWO, PADDED, but=UNIT, pick=row(3), got=[cos(3), sin(3)]),
    Value("B108", "rope", [cos(1857 * 10000 ** (-2 / 32))], {"head_dim": 32},
          at((1857,), (1857,), heads=1, head_dim=32, dtype="float16"),
          but={"q": [[0, 0, 1] + [0] * 29], "k": [[0] * 32]}, pick=lambda value: value[0, 0, 0, 2:3], got=[cos(1045)],
          faults=("angles-float16",)),
    Value("B109", "rope", [cos(257), sin(257)], TWO, at((257,), (257,), heads=1, head_dim=2), but=UNIT, pick=row(0),
          got=[cos(256), sin(256)], faults=("bfloat16-positions",)),
    Under("B109", "rope", "L18", {**TWO, "layout": "half"},
          {**at((256, 257), (256, 257)), "heads": 1, "head_dim": 2, "dtype": "bfloat16", "extra": {"mode": "positions"}},
          faults=("counted-in-dtype",)),
    Value("B116", "rope", [cos(1), sin(1)], TWO, {**LONE, "head_dim": 2}, but=UNIT, pick=row(0), got=[cos(2), sin(2)]),
    Under("B130", "rope", "L4", {**FOUR, "layout": "half"},
          {**at((0, 1), (0, 1)), "heads": 1, "head_dim": 4, "extra": {}}, faults=("in-place",)),
    Under("B130", "rope", "L20", {**FOUR, "layout": "half"},
          {**at((0, 1), (0, 1)), "heads": 1, "head_dim": 4, "extra": {"subset": 0}}, faults=("in-place-gradient",)),
    Under("B132", "rope", "L20", {**FOUR, "layout": "half"},
          {**at((0, 1), (0, 1)), "heads": 1, "head_dim": 4, "extra": {"subset": 0}}, compiled=True),
    Value("B145", "rope", [cos(1), sin(1), 0, 0], FOUR, {**LONE, "head_dim": 4}, but=FIRST, pick=row(0),
          got=[sin(1), cos(1), 0, 0], compiled=True),
)  # fmt: skip

SCALING = (
    Under("B111", "rope", "L4", {**DYNAMIC, "layout": "half"}, square(8, head_dim=4, heads=1),
          calls=(square(2, head_dim=4, heads=1),)),
    Under("B112", "rope", "L3", {**DYNAMIC, "layout": "half"},
          {**square(5), "heads": 1, "head_dim": 4, "causal": True, "extra": {"chunks": (4, 1)}}),
    Method("B113", "rope", {**DYNAMIC, "max_position": 8}, "frequencies", (4,), [1, 0.01]),
    Method("B115", "rope", DYNAMIC, "frequencies", (3,), [1, 0.01], [1, 0.01 / 3]),
    Value("B117", "rope", [1.4852], {**YARN, "factor": 128.0, "attention_factor": 1.4852},
          at((0,), (0,), heads=1, head_dim=4), but=FIRST, pick=lambda value: value[0, 0, 0, :1], got=[2.2058]),
    Value("B118", "rope", [1.0], {**YARN, "factor": 64.0, "attention_factor": 1.0}, at((0,), (0,), heads=1, head_dim=4),
          but=FIRST, pick=lambda value: value[0, 0, 0, :1], got=[1.4159]),
    Value("B121", "rope", [1.0], {**YARN, "factor": 40.0, "mscale": 1.0, "mscale_all_dim": 1.0},
          at((0,), (0,), heads=1, head_dim=4), but=FIRST, pick=lambda value: value[0, 0, 0, :1], got=[0.1 * log(40) + 1]),
    Value("B122", "rope", [1.2608**2 / 2], {**YARN, "factor": 40.0, "mscale": 0.707, "mscale_all_dim": 0.707},
          at((0,), (0, 1), heads=1, head_dim=4, scale=1.2608**2 / 2), but=FIRST, level="logits",
          pick=lambda value: value[0, 0, 0, :1], got=[1 / 2]),
    Method("B123", "rope", DYNAMIC, "frequencies", (4,), [1, 0.01]),
    Value("B127", "rope", [cos(0.01) - sin(0.01)], DYNAMIC,
          {"query_positions": ((0, 1), (6, 7)), "key_positions": ((0, 1), (6, 7)), "query_length": 2, "key_length": 2,
           "batch": 2, "heads": 1, "head_dim": 4, "content": "ones"}, pick=lambda value: value[0, 0, 1, 2:3]),
)  # fmt: skip


def two_products(value):
    """PE(0) · PE(1) and PE(4) · PE(5)."""
    return [value[0] @ value[1], value[2] @ value[3]]


WAVES = (
    Value("B075", "sinusoidal", [0.8415, 0.5403, 0.0251, 0.9997, 0.0006], {"embed_dim": 5}, square(2, head_dim=5),
          pick=lambda value: value[1]),
    Value("B076", "sinusoidal", [1.5403, 1.5403], {"embed_dim": 4}, at((0, 1, 4, 5), (0, 1, 4, 5), head_dim=4),
          pick=two_products, got=[2.0, 2.7237]),
    Value("B077", "sinusoidal", [0.8415, 0.5403, 0.01, 1.0], {"embed_dim": 4}, at((1,), (1,), head_dim=4),
          got=[0.8415, 0.9842, 0.0316, 1.0]),
    Value("B107", "learned", [0, 0], {"max_position": 4, "embed_dim": 2}, at((0, 0, 0), (0, 0, 0), head_dim=2),
          pick=lambda value: value[2], got=[2, 2]),
)  # fmt: skip
