"""What the definitions refuse, and in which words: scheme, argument, what was required, what came, what to do."""

from dataclasses import FrozenInstanceError, fields

import numpy as np
import pytest

from refused_content import REFUSED_CONTENT
from refused_deberta import REFUSED_DEBERTA
from refused_rotations import REFUSED_ROTATIONS
from refused_tables import REFUSED_TABLES
from relpos.spec.alibi import ALiBi
from relpos.spec.attention import attention, logits
from relpos.spec.clipped import Clipped
from relpos.spec.contract import PositionError, SettingsError, require_params
from relpos.spec.deberta import DeBERTa
from relpos.spec.learned import Learned
from relpos.spec.music_transformer import MusicTransformer
from relpos.spec.none import NoPE
from relpos.spec.positions import Explicit, Range
from relpos.spec.registry import schemes, settings_class
from relpos.spec.rope import RoPE
from relpos.spec.shaw import Shaw
from relpos.spec.sinusoidal import Sinusoidal
from relpos.spec.t5 import T5
from relpos.spec.transformer_xl import TransformerXL
from spec_examples import EXAMPLES, label

WHOLE = "Convert it with int() where you build the settings."
EXPLAINED = "The module's docstring explains each."

REFUSED_SETTINGS = [
    (ALiBi, {"num_heads": 0}, "alibi: `num_heads` must be at least 1, got 0."),
    (ALiBi, {"num_heads": 8.0}, f"alibi: `num_heads` must be a whole number, got 8.0. {WHOLE}"),
    (ALiBi, {"num_heads": True}, f"alibi: `num_heads` must be a whole number, got True. {WHOLE}"),
    (ALiBi, {"num_heads": "8"}, f"alibi: `num_heads` must be a whole number, got '8'. {WHOLE}"),
    (ALiBi, {"num_heads": np.int64(8)}, f"alibi: `num_heads` must be a whole number, got np.int64(8). {WHOLE}"),
    (ALiBi, {"num_heads": None}, f"alibi: `num_heads` must be a whole number, got None. {WHOLE}"),
    (
        ALiBi,
        {"num_heads": 8, "slope_rule": "paper"},
        f"alibi: `slope_rule` must be one of 'press', 'geometric', got 'paper'. {EXPLAINED}",
    ),
    (ALiBi, {"num_heads": 8, "bias_max": 0.0}, "alibi: `bias_max` must be a positive exponent, got 0.0. The authors use 8."),
    (ALiBi, {"num_heads": 8, "bias_max": -8}, "alibi: `bias_max` must be a positive exponent, got -8. The authors use 8."),
    (ALiBi, {"num_heads": 8, "bias_max": float("nan")}, "alibi: `bias_max` must be a finite number, got nan."),
    (ALiBi, {"num_heads": 8, "bias_max": float("inf")}, "alibi: `bias_max` must be a finite number, got inf."),
    (ALiBi, {"num_heads": 8, "bias_max": "8"}, "alibi: `bias_max` must be a finite number, got '8'."),
    (ALiBi, {"num_heads": 8, "bias_max": True}, "alibi: `bias_max` must be a finite number, got True."),
    (
        ALiBi,
        {"num_heads": 8, "distance": "absolute"},
        f"alibi: `distance` must be one of 'symmetric', 'causal', 'key_only', 'half_half', got 'absolute'. {EXPLAINED}",
    ),
    (ALiBi, {"num_heads": 8, "scale_bias": 1}, "alibi: `scale_bias` must be True or False, got 1."),
    (ALiBi, {"num_heads": 8, "num_biased_heads": 9}, "alibi: `num_biased_heads` must be from 0 to num_heads = 8, got 9."),
    (ALiBi, {"num_heads": 8, "num_biased_heads": -1}, "alibi: `num_biased_heads` must be from 0 to num_heads = 8, got -1."),
    (ALiBi, {"num_heads": 8, "num_biased_heads": 2.0}, f"alibi: `num_biased_heads` must be a whole number, got 2.0. {WHOLE}"),
    (
        ALiBi,
        {"num_heads": 3, "distance": "half_half"},
        'alibi: `num_heads` must be even under distance="half_half", got 3. Half look back, half ahead.',
    ),
    (
        ALiBi,
        {"num_heads": 8, "distance": "half_half", "num_biased_heads": 3},
        'alibi: `num_biased_heads` must be even under distance="half_half", got 3. Half look back, half ahead.',
    ),
    (RoPE, {"head_dim": 0}, "rope: `head_dim` must be at least 1, got 0."),
    (RoPE, {"head_dim": 5}, "rope: `head_dim` must be even, got 5. Or turn fewer columns with an even `rotary_dim`."),
    (RoPE, {"head_dim": 8, "rotary_dim": 3}, "rope: `rotary_dim` must be even and from 0 to head_dim = 8, got 3."),
    (RoPE, {"head_dim": 8, "rotary_dim": 10}, "rope: `rotary_dim` must be even and from 0 to head_dim = 8, got 10."),
    (RoPE, {"head_dim": 8, "rotary_dim": -2}, "rope: `rotary_dim` must be even and from 0 to head_dim = 8, got -2."),
    (
        RoPE,
        {"head_dim": 8, "base": 0.0},
        "rope: `base` must be a positive number, got 0.0. The paper uses 10000; for no rotation use the scheme none.",
    ),
    (RoPE, {"head_dim": 8, "base": float("inf")}, "rope: `base` must be a finite number, got inf."),
    (RoPE, {"head_dim": 8, "layout": "neox"}, f"rope: `layout` must be one of 'interleaved', 'half', got 'neox'. {EXPLAINED}"),
    (Sinusoidal, {"embed_dim": 0}, "sinusoidal: `embed_dim` must be at least 1, got 0."),
    (Sinusoidal, {"embed_dim": 4.0}, f"sinusoidal: `embed_dim` must be a whole number, got 4.0. {WHOLE}"),
    (Sinusoidal, {"embed_dim": 4, "base": -1}, "sinusoidal: `base` must be a positive number, got -1. The paper uses 10000."),
    (
        Sinusoidal,
        {"embed_dim": 4, "layout": "concat"},
        f"sinusoidal: `layout` must be one of 'interleaved', 'halves', 't2t', got 'concat'. {EXPLAINED}",
    ),
    (Shaw, {"head_dim": 0, "max_distance": 2}, "shaw: `head_dim` must be at least 1, got 0."),
    (
        Shaw,
        {"head_dim": 4, "max_distance": -1},
        "shaw: `max_distance` must be 0 or more, got -1. 0 gives all keys one shared vector.",
    ),
    (
        Shaw,
        {"head_dim": 4, "max_distance": 2, "tables": "shared"},
        "shaw: `tables` must be one of 'separate', 'tied', 'relative_key', 'relative_key_query', got 'shared'. " + EXPLAINED,
    ),
    (
        Shaw,
        {"head_dim": 4, "max_distance": 2, "sign": -1},
        f"shaw: `sign` must be one of 'published', 'key_minus_query', 'query_minus_key', got -1. {EXPLAINED}",
    ),
    *REFUSED_TABLES,
    *REFUSED_CONTENT,
    *REFUSED_DEBERTA,
    *REFUSED_ROTATIONS,
]


def says(caught: pytest.ExceptionInfo, message: str) -> None:
    assert str(caught.value) == message


@pytest.mark.parametrize(("cls", "given", "message"), REFUSED_SETTINGS, ids=[case[2][:70] for case in REFUSED_SETTINGS])
def test_a_setting_without_meaning_is_refused_in_words(cls, given, message):
    with pytest.raises(SettingsError) as caught:
        cls(**given)
    says(caught, message)


@pytest.mark.parametrize("field", [(cls, f.name) for cls in map(settings_class, schemes()) for f in fields(cls)], ids=str)
def test_every_field_has_a_refusal(field):
    if field[0] in {type(settings) for settings in EXAMPLES}:
        assert any(cls is field[0] and f"`{field[1]}`" in message for cls, _, message in REFUSED_SETTINGS)


@pytest.mark.parametrize(
    "settings",
    [
        ALiBi(1),
        ALiBi(2, num_biased_heads=0),
        ALiBi(2, num_biased_heads=2),
        ALiBi(8, bias_max=8),
        RoPE(5, rotary_dim=4),
        RoPE(1, rotary_dim=0),
        Shaw(1, 0),
        T5(1, num_buckets=4, max_distance=2),
        T5(1, num_buckets=2, max_distance=2, bidirectional=False),
        Clipped(1, 0),
        MusicTransformer(1, 1, 1),
        TransformerXL(1, 2),
        TransformerXL(1, 1, variant="learned", max_distance=1, memory_length=0, segment_length=1),
        Learned(1, 1),
        DeBERTa(1, 1, 1),
        DeBERTa(1, 1, 3, version="v2", num_buckets=2),
    ],
    ids=label,
)
def test_the_smallest_settings_are_allowed(settings):
    require_params(settings, {name: np.zeros(shape) for name, shape in settings.parameters().items()})


@pytest.mark.parametrize("settings", EXAMPLES, ids=label)
def test_settings_are_frozen_and_equal_by_value(settings):
    again = type(settings)(**{f.name: getattr(settings, f.name) for f in fields(settings)})
    assert again == settings and hash(again) == hash(settings)
    for field in fields(settings):
        with pytest.raises(FrozenInstanceError):
            setattr(settings, field.name, getattr(settings, field.name))


# ---- parameters

TABLE = np.zeros((5, 4))
REFUSED_PARAMS = [
    (Shaw(4, 2), {"rel_k": TABLE}, "shaw: parameter `rel_v` of shape [5, 4] is missing; got ['rel_k']."),
    (Shaw(4, 2), {}, "shaw: parameter `rel_k` of shape [5, 4] is missing; got none."),
    (
        Shaw(4, 2, tables="tied"),
        {"rel_k": np.zeros((4, 5))},
        "shaw: parameter `rel_k` must have shape [5, 4], got [4, 5]. The shape follows from the settings.",
    ),
    (
        Shaw(4, 2, tables="tied"),
        {"rel_k": TABLE, "rel_v": TABLE},
        "shaw: parameter `rel_v` is not one of its parameters: ['rel_k'].",
    ),
    (ALiBi(2), {"slopes": np.zeros(2)}, "alibi: parameter `slopes` is not one of its parameters: it has none."),
    (NoPE(), {"table": TABLE}, "none: parameter `table` is not one of its parameters: it has none."),
]


@pytest.mark.parametrize(("settings", "params", "message"), REFUSED_PARAMS, ids=[case[2][:70] for case in REFUSED_PARAMS])
def test_parameters_that_do_not_fit_are_refused_in_words(settings, params, message):
    with pytest.raises(SettingsError) as caught:
        require_params(settings, params)
    says(caught, message)
    x = np.zeros((1, 2, 3, 4))
    with pytest.raises(SettingsError) as caught:
        attention(settings, params, x, x, x, Range(0, 3), Range(0, 3))
    says(caught, message)


# ---- where a scheme or attention is not defined


@pytest.mark.parametrize("tables", ["relative_key", "relative_key_query"])
def test_a_distance_beyond_an_unclipped_table_is_refused_in_words(tables):
    settings = Shaw(4, 2, tables=tables)
    assert settings.rows(Range(0, 3), Range(0, 3)).tolist() == [[2, 1, 0], [3, 2, 1], [4, 3, 2]]
    with pytest.raises(PositionError) as caught:
        settings.rows(Range(5, 1), Range(2, 1))
    says(
        caught,
        f'shaw: with tables="{tables}" a distance must be at most max_distance = 2, got |5 − 2| = 3. '
        "Use a longer table, or separate or tied tables, which clip.",
    )


def test_positions_of_another_length_are_refused_in_words():
    q, k = np.zeros((1, 1, 3, 4)), np.zeros((1, 1, 5, 4))
    for where, name, length, got in (
        ((Range(0, 4), Range(0, 5)), "query_positions", 3, 4),
        ((Range(0, 3), Explicit([0, 1])), "key_positions", 5, 2),
    ):
        with pytest.raises(PositionError) as caught:
            logits(NoPE(), {}, q, k, *where)
        says(caught, f"attention: `{name}` must list {length} positions, one per row, got {got}.")


def test_heads_that_do_not_divide_are_refused_in_words():
    q, k = np.zeros((1, 4, 2, 4)), np.zeros((1, 3, 2, 4))
    with pytest.raises(PositionError) as caught:
        logits(NoPE(), {}, q, k, Range(0, 2), Range(0, 2))
    says(caught, "attention: 4 query heads cannot share 3 key heads evenly; make it a multiple.")
