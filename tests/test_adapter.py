"""The adapter takes what strangers write, as they write it, and finds it right."""

import pytest
import torch

import strangers as s
import strangers_attention as a
from judging import failing, plugged, tried
from relpos.conformance.profiles import PROFILES
from relpos.conformance.runner import PASS


def asks_for_settings_and_a_table(settings, table, query_positions, key_positions):
    """Under cross-attention T5 has no table: then it cannot be asked."""
    rows = [[settings.row(int(i), int(j)) for j in key_positions] for i in query_positions]
    return table[torch.tensor(rows)].permute(2, 0, 1)


NAMES = [law.name for law in PROFILES["smoke"].laws()]
PRESS = {"slope_rule": "press", "distance": "symmetric", "bias_max": 8.0, "num_biased_heads": None}

# target, scheme, settings; what it is taken for: kind, level, positions
SHAPES = [
    (s.by_lengths, "alibi", {}, ("function", "contribution", "offset")),
    (s.by_positions, "alibi", {}, ("function", "contribution", "arbitrary")),
    (s.by_settings, "alibi", PRESS, ("function", "contribution", "arbitrary")),
    (s.one_length, "alibi", {}, ("function", "contribution", "contiguous")),
    (s.positional_only, "alibi", {}, ("function", "contribution", "arbitrary")),
    (s.in_numpy, "alibi", {}, ("function", "contribution", "arbitrary")),
    (s.only_numpy, "alibi", {}, ("function", "contribution", "arbitrary")),
    (s.in_dlpack, "alibi", {}, ("function", "contribution", "arbitrary")),
    (s.in_array_protocol, "alibi", {}, ("function", "contribution", "arbitrary")),
    (s.with_an_option, "alibi", {}, ("function", "contribution", "arbitrary")),
    (s.marked, None, {}, ("function", "contribution", "arbitrary")),
    (s.powers_of_two_only, "alibi", {}, ("function", "contribution", "arbitrary")),
    (s.Module, "alibi", {}, ("module", "contribution", "arbitrary")),
    (s.Plain, "alibi", {}, ("module", "contribution", "offset")),
    (s.Named, "shaw", {}, ("module", "attention", "contiguous")),
    (s.Embedded, "shaw", {}, ("module", "attention", "contiguous")),
    (s.OneTable, "shaw", {"tables": "tied"}, ("module", "attention", "contiguous")),
    (s.Decoder, "alibi", {}, ("decoder", "attention", "contiguous")),
    (s.eight_heads, "alibi", {"num_heads": 8}, ("score_mod", "logits", "offset")),
    (s.build_score_mod, "alibi", {}, ("builder", "logits", "offset")),
    (a.plain, "none", {}, ("function", "attention", "contiguous")),
    (a.scaled, None, {}, ("function", "attention", "contiguous")),
    (a.with_a_scale_of_its_own, None, {}, ("function", "attention", "contiguous")),
    (a.heads_third, None, {}, ("function", "attention", "contiguous")),
    (a.masked, None, {}, ("function", "attention", "contiguous")),
    (a.true_drops, None, {}, ("function", "attention", "contiguous")),
    (a.additive, None, {}, ("function", "attention", "contiguous")),
    (a.padded, None, {}, ("function", "attention", "contiguous")),
    (a.bottom_right, None, {}, ("function", "attention", "contiguous")),
    (a.top_left, None, {}, ("function", "attention", "contiguous")),
    (a.flagged, None, {}, ("function", "attention", "contiguous")),
    (a.grouped, None, {}, ("function", "attention", "contiguous")),
    (a.scores, None, {}, ("function", "logits", "contiguous")),
    (a.both_rotated, None, {}, ("function", "contribution", "contiguous")),
    (a.added, None, {}, ("function", "contribution", "contiguous")),
]
every_shape = pytest.mark.parametrize(("target", "scheme", "given", "taken"), SHAPES, ids=[f"{c[0].__name__}" for c in SHAPES])
OFTEN = 3  # every how many are judged by all laws on every change; the others under `-m exhaustive`
WHOLE = [
    pytest.param(*case[:3], id=case[0].__name__, marks=() if n % OFTEN == 0 else pytest.mark.exhaustive)
    for n, case in enumerate(SHAPES)
]


@every_shape
def test_a_right_implementation_is_taken_as_it_is_written(target, scheme, given, taken):
    subject = plugged(target, scheme, given=given)
    assert (subject.kind, subject.level, subject.positions) == taken
    assert not failing(subject, "L1", profile_name="smoke")


@pytest.mark.parametrize(("target", "scheme", "given"), WHOLE)
def test_a_right_implementation_of_any_shape_is_accused_of_nothing(target, scheme, given):
    assert not failing(plugged(target, scheme, given=given), *NAMES, profile_name="smoke")


def test_an_instance_is_called_like_a_function():
    subject = plugged(s.Plain(8), "alibi", given={"num_heads": 8})
    assert subject.kind == "function" and not failing(subject, "L1", profile_name="smoke")


def test_numpy_arrays_are_handed_to_whoever_refuses_tensors():
    assert plugged(s.only_numpy, "alibi").arrays == "numpy"
    assert plugged(s.in_numpy, "alibi").arrays == "torch"


def test_a_name_with_a_default_is_left_alone_unless_bound():
    assert plugged(s.with_an_option, "alibi").unbound == ("bias_max",)
    assert not plugged(a.scaled).unbound
    assert "L29" in failing(plugged(a.with_a_scale_of_its_own, binds=("scale",)), "L1", "L29")


def test_a_required_scale_is_always_a_number():
    given = []

    def scores(q, k, scale):
        given.append(scale)
        return (q @ k.transpose(-1, -2)) * scale

    assert not failing(plugged(scores, "none"), "L1", profile_name="smoke")
    assert all(isinstance(scale, float) for scale in given)


def test_tables_of_one_shape_are_told_apart_by_a_rename():
    subject = plugged(s.TwoTables, "shaw", rename={"ek": "rel_k", "ev": "rel_v"})
    assert not failing(subject, "L1", "L20", profile_name="smoke")


def test_tables_that_are_exchanged_are_noticed():
    subject = plugged(s.TwoTables, "shaw", rename={"ek": "rel_v", "ev": "rel_k"})
    assert failing(subject, "L1", "L20") == {"L1", "L20"}


@pytest.mark.parametrize(
    ("target", "claims"),
    [
        (a.masked, {"mask": "true_drops"}),
        (a.true_drops, {"mask": "true_keeps"}),
        (a.heads_third, {"layout": "bhld"}),
        (a.bottom_right, {"corner": "top-left"}),
        (a.top_left, {"corner": "bottom-right"}),
        (a.flagged, {"corner": "bottom-right"}),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_another_claim_than_the_implementation_keeps_does_not_hold(target, claims):
    assert "L1" in failing(plugged(target, **claims), "L1")


def test_a_claim_of_the_caller_replaces_one_of_the_dict():
    subject = plugged(s.marked, max_position=100)
    assert subject.card.max_position == 100 and subject.card.rename == s.marked.__relpos__["rename"]


def test_a_refusal_that_names_a_setting_is_no_failure():
    found = tried(plugged(s.powers_of_two_only, "alibi"), "L1", "L10")
    assert {result.verdict for result in found.values()} == {PASS}
    assert found["L10"].refused == 120  # of 128 numbers of heads, 8 are powers of two


def test_a_learned_tensor_that_some_settings_have_not_is_no_fault_of_who_asks_for_it():
    found = tried(plugged(asks_for_settings_and_a_table, "t5"), "L1", "L2", "L16", "L27")
    assert {name: r.reason for name, r in found.items() if r.verdict == "fail"} == {}
    assert found["L1"].refused and found["L27"].verdict == "refused"
