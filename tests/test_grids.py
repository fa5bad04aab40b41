"""Positions on several axes, and settings of the schemes of windows: what they mean, and what is refused in which words."""

import numpy as np
import pytest

from relpos.conformance.plan import Plan, inputs
from relpos.spec.attention import attention, logits
from relpos.spec.beit import BEiT
from relpos.spec.contract import PositionError, SettingsError
from relpos.spec.coordinates import NOWHERE
from relpos.spec.none import NoPE
from relpos.spec.positions import Explicit, Grid, Range
from relpos.spec.swin import Swin
from relpos.spec.swin_v2 import SwinV2
from relpos.spec.t5 import T5
from vision_examples import drawn

# ---- positions


def test_two_columns_are_coordinates_only_where_axes_are_said():
    assert len(Explicit([[0, 1], [2, 3]])) == 2 and Explicit([[0, 1], [2, 3]]).per_sample
    assert list(Explicit([[0, 1], [2, 3]], axes=2)) == [(0, 1), (2, 3)]
    per_sample = Explicit([[(0, 1), None], [(2, 3), (4, 5)]], axes=2)
    assert per_sample.per_sample and list(per_sample.row(0)) == [(0, 1), None] and len(per_sample) == 2
    assert repr(per_sample) == "Explicit([[(0, 1), None], [(2, 3), (4, 5)]], axes=2)"
    assert list(Explicit(Grid((2, 2), 1).array(), axes=2)) == list(Grid((2, 2), 1))
    assert len(Explicit([], axes=2)) == 0 and not list(Explicit([], axes=2))


REFUSED_POSITIONS = [
    (lambda: Grid((3,)), "positions: `shape` of a grid must be two or more sizes, got (3,). One axis: Range."),
    (lambda: Grid((2, 2), -1), "positions: `special` must be 0 or more, got -1. A class token is 1."),
    (
        lambda: Explicit([0, 1], axes=2),
        "positions: `values` on 2 axes must be whole numbers of shape [L, 2] or [B, L, 2], got int64 of shape [2]. "
        "A token without a position is None.",
    ),
    (
        lambda: Explicit([(NOWHERE, 0)], axes=2),
        f"positions: coordinates must be more than {NOWHERE}, which marks a token without a position.",
    ),
    (
        lambda: Explicit([(0, 1), (0, 2)], axes=2, segments=[0]),
        "positions: `segments` must have the shape of the positions, [2], got [1]. Give one segment id to every position.",
    ),
    (
        lambda: Swin(1, (2, 2)).row((0, 0), (2, 0)),
        "swin: positions must lie within one window of (2, 2), got (0, 0) and (2, 0). Cut the map into windows, or use a "
        "larger `window_size`.",
    ),
    (
        lambda: BEiT(1, (2, 2)).row((0, 0), (0, 2)),
        "beit: patches must lie within the grid of (2, 2), got (0, 0) and (0, 2). Resize the table for another image size.",
    ),
    (
        lambda: Swin(1, (2, 2)).windows((3, 4)),
        "swin: `size` must be a multiple of window_size = (2, 2) and `shift` less than it, got (3, 4) and 0. Pad the map.",
    ),
    (
        lambda: attention(NoPE(), {}, *[np.zeros((1, 1, 2, 2))] * 3, Grid((1, 2)), Grid((1, 2)), causal=True),
        "attention: `causal` needs positions on one axis, got 2: there is no before and after. Hide keys with `mask`.",
    ),
    (
        lambda: logits(Swin(1, (2, 2)), drawn(Swin(1, (2, 2))), *[np.zeros((1, 1, 4, 2))] * 2, Range(0, 4), Grid((2, 2))),
        "attention: `query_positions` must have 2 axes, as swin says, got 1.",
    ),
    (
        lambda: logits(T5(1), drawn(T5(1)), *[np.zeros((1, 1, 4, 2))] * 2, Range(0, 4), Grid((2, 2))),
        "attention: `key_positions` must have one axis for t5, got 2.",
    ),
]


@pytest.mark.parametrize(("call", "message"), REFUSED_POSITIONS, ids=[message[:60] for _, message in REFUSED_POSITIONS])
def test_positions_without_meaning_are_refused_in_words(call, message):
    with pytest.raises(PositionError) as caught:
        call()
    assert str(caught.value) == message


SIZES = "two sizes or more, each at least 1"
REFUSED_SETTINGS = [
    (Swin, {"num_heads": 0, "window_size": (2, 2)}, "swin: `num_heads` must be at least 1, got 0."),
    (
        Swin,
        {"num_heads": 1, "window_size": (2,)},
        f"swin: `window_size` must be {SIZES}, got (2,). On one axis use the scheme ",
    ),
    (
        Swin,
        {"num_heads": 1, "window_size": 7},
        "swin: `window_size` must be a tuple of whole numbers, got 7. (height, width), ",
    ),
    (Swin, {"num_heads": 1, "window_size": (2, 0)}, f"swin: `window_size` must be {SIZES}, got (2, 0)."),
    (Swin, {"num_heads": 1, "window_size": (2, 2), "sign": -1}, "swin: `sign` must be one of 'query_minus_key', "),
    (BEiT, {"num_heads": 0, "window_size": (2, 2)}, "beit: `num_heads` must be at least 1, got 0."),
    (
        BEiT,
        {"num_heads": 1, "window_size": (14,)},
        f"beit: `window_size` must be {SIZES}, got (14,). It is the grid of patches.",
    ),
    (BEiT, {"num_heads": 1, "window_size": (2, 2), "sign": "i-j"}, "beit: `sign` must be one of 'query_minus_key', "),
    (SwinV2, {"num_heads": 0, "window_size": (2, 2)}, "swin_v2: `num_heads` must be at least 1, got 0."),
    (SwinV2, {"num_heads": 1, "window_size": (2,)}, f"swin_v2: `window_size` must be {SIZES}, got (2,)."),
    (
        SwinV2,
        {"num_heads": 1, "window_size": (2, 2), "pretrained_window_size": (2, 0)},
        "swin_v2: `pretrained_window_size` must be None or 2 sizes, each at least 1, got (2, 0). Leave it at None for ",
    ),
    (SwinV2, {"num_heads": 1, "window_size": (2, 2), "hidden": 0}, "swin_v2: `hidden` must be at least 1, got 0. The authors "),
    (
        SwinV2,
        {"num_heads": 1, "window_size": (2, 2), "coordinates": "cr"},
        "swin_v2: `coordinates` must be one of 'normalised', ",
    ),
]


@pytest.mark.parametrize(("cls", "given", "message"), REFUSED_SETTINGS, ids=[case[2][:60] for case in REFUSED_SETTINGS])
def test_settings_without_meaning_are_refused_in_words(cls, given, message):
    with pytest.raises(SettingsError) as caught:
        cls(**given)
    assert str(caught.value).startswith(message)


def test_plans_with_places_survive_json_and_say_where_tokens_are():
    plan = Plan(settings={"num_heads": 1, "window_size": (2, 3)}, query_positions=(None, (0, 1)), key_positions=((1, 2),))
    again = Plan.from_json(plan.to_json())
    assert again == plan and list(inputs(again.but(query_length=2), "beit").query_positions) == [None, (0, 1)]
    assert list(inputs(Plan(settings=plan.settings, grid=(1, 2)), "beit").key_positions) == [None, (0, 0), (0, 1)]
