"""Every message says what to do next, to type or to write: tutorial code, as it is found, that does not go through at once."""

import math

import pytest
import torch

from judging import complaint, plugged
from relpos.conformance.diagnosis import Diagnosis
from relpos.conformance.laws import law
from relpos.conformance.message import diagnosis_lines
from relpos.conformance.profiles import profile
from relpos.conformance.verdict import DOES_NOT, UNDECIDED, judge
from relpos.impls import beit
from relpos.impls.card import implements
from relpos.spec.beit import BEiT
from test_messages import CULPRITS, written


def bucket(relative, num_buckets=32, max_distance=128):
    half = num_buckets // 2
    exact, n = half // 2, relative.abs()
    far = exact + (torch.log(n / exact) / math.log(max_distance / exact) * (half - exact)).long()
    return torch.where(n < exact, n, far.clamp(max=half - 1)) + half * (relative > 0)


def distances(query_length, key_length):
    return torch.arange(key_length)[None, :] - torch.arange(query_length)[:, None]


def own_names(n_heads, seq_len, table): ...


def of_distances(relative_position, table): ...


def whole_layer(d_model, num_heads, x): ...


def table_turned(table, query_length, key_length):
    return table[:, bucket(distances(query_length, key_length))]


def heads_last(table, query_length, key_length):
    return table[bucket(distances(query_length, key_length))]


def heads_last_at(table, query_positions, key_positions):
    return table[bucket(key_positions[None, :] - query_positions[:, None])]


def one_size(table, query_length, key_length):
    return table[bucket(distances(query_length, key_length))].permute(2, 0, 1)


def scaled(q, k, table, num_buckets, max_distance):
    bias = table[bucket(distances(q.shape[2], k.shape[2]), num_buckets, max_distance)].permute(2, 0, 1)
    return q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5 + bias


def drops(q, k, v, mask):
    return (q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5).masked_fill(mask, -torch.inf).softmax(-1) @ v


def silent_when_causal(q, k, v, causal):
    """PyTorch refuses a bias beside its own causal flag."""
    if causal:
        raise RuntimeError("Explicit attn_mask should not be set when is_causal=True")
    return (q @ k.transpose(-1, -2)).softmax(-1) @ v


COMPLAINTS = [
    (own_names, "t5", "rename=n_heads:num_heads,seq_len:query_length. "),
    (of_distances, "t5", "Distances have a sign, which is judged too: wrap it in a function of query_positions and key_pos"),
    (whole_layer, "t5", "A layer with projections of its own cannot be judged: name the part that takes q, k, v, or the bias"),
    (table_turned, "t5", "It was given `table` of shape [32, 3]."),
    (heads_last, "t5", "The axis H looks last; .permute(2, 0, 1) puts it first."),
    (heads_last_at, "t5", "The axes H, Lq and Lk look turned; .permute(2, 0, 1) puts them right."),
    (drops, "none", "returned nothing but NaN on ordinary inputs (query_length = 7, key_length = 7, batch = 2, "),
    (drops, "none", "It runs if --claim mask=true_drops."),
]


@pytest.mark.parametrize(("target", "scheme", "says"), COMPLAINTS, ids=[f"{t.__name__}-{s[:20]}" for t, _, s in COMPLAINTS])
def test_what_does_not_go_through_is_answered_with_what_to_do(target, scheme, says):
    assert says in complaint(lambda: plugged(target, scheme))


@pytest.mark.parametrize("culprit", [culprit for _, culprit in CULPRITS])
def test_a_failure_ends_in_where_to_read_and_what_to_type(culprit):
    lines = written()[culprit].splitlines()
    (definition,) = (n for n, line in enumerate(lines) if line.startswith("Definition:"))
    assert "spec/" in lines[definition]
    assert lines[definition + 1].startswith("Again:") and " --case " in lines[definition + 1]


def told(target, scheme):
    verdict = judge(plugged(target, scheme), profile("smoke"))
    return verdict, " ".join(diagnosis_lines(verdict.diagnosis, verdict.elsewhere, verdict.passes_if, scheme))


def test_what_is_right_at_the_usual_numbers_alone_is_told_how_to_say_so():
    _, text = told(one_size, "t5")
    assert "every law passes at num_buckets=32, and not at other values" in text
    assert text.endswith("say --set num_buckets=32.")


def test_another_setting_is_said_or_it_is_a_mistake():
    verdict, text = told(scaled, "t5")
    assert verdict.word == UNDECIDED and "--set score_scale=inverse_sqrt" in text
    assert text.endswith("If not, it is a mistake: spec/t5.py says what each value means.")


def test_inputs_that_raise_do_not_hide_what_the_others_look_like():
    _, text = told(silent_when_causal, "none")
    assert "Looks like one of: none with the scale " in text or "Looks like: none with no scale" in text
    assert "(where it answers; elsewhere it raised RuntimeError: Explicit attn_mask" in text


def test_what_passes_under_a_claim_needs_no_other_guess():
    assert diagnosis_lines(Diagnosis(hint="no known mistake matches"), (), ("softmax=causal",), "t5") == [
        "Every law passes if --claim softmax=causal; it is not a pass until you say so."
    ]


@implements("none", softmax="any")
def tiles_of_48(q, k, v):
    """One key past the last whole tile is lost, which no few inputs show."""
    kept = k.shape[2] - (k.shape[2] % 48 == 1 and k.shape[2] > 1)
    return (q @ k[:, :, :kept].transpose(-1, -2) * q.shape[-1] ** -0.5).softmax(-1) @ v[:, :, :kept]


def test_nothing_passes_under_another_reading_unless_what_failed_does():
    """A law that no longer applies, or an input that is not tried again, would make a way out of every failure."""
    subject = plugged(tiles_of_48)
    verdict = judge(subject, profile("smoke"), only=[law("L25")])
    assert verdict.word == DOES_NOT and not verdict.passes_if and not verdict.elsewhere
    assert "every law passes" not in " ".join(diagnosis_lines(verdict.diagnosis, (), (), "none"))


def two_tokens_exchanged(table, query_positions, key_positions, window_size):
    """BEiT's bias with the class token's row as a query and as a key exchanged."""
    table = table[[*range(len(table) - 3), -2, -3, -1]]
    return beit.bias(BEiT(num_heads=table.shape[1], window_size=window_size), table, query_positions, key_positions)


def test_where_tokens_without_a_position_differ_is_told_in_words():
    verdict = judge(plugged(two_tokens_exchanged, "beit", given={"sign": "query_minus_key"}), profile("smoke"))
    assert verdict.word == DOES_NOT
    assert "it differs first at a key without a position" in verdict.diagnosis.hint
