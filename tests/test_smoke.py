"""What cannot be plugged in is answered in words, before anything is judged."""

import numpy as np
import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

import strangers as s
import strangers_attention as a
from judging import complaint, failing, plugged, tried
from relpos.conformance.errors import UsageError
from relpos.conformance.runner import REFUSED
from relpos.conformance.smoke import smoke
from relpos.conformance.subject import plug_in

GIVEN = "num_heads, query_positions, key_positions"


def bias(make):
    """A function that asks for what ALiBi needs and returns whatever `make` makes of the right answer."""

    def it(num_heads, query_positions, key_positions):
        return make(s.penalty(num_heads, query_positions, key_positions))

    it.__qualname__ = "it"
    return it


RETURNED = [
    (
        lambda right: right.transpose(0, 1),
        "returned shape [5, 3, 7]; expected bias [H, Lq, Lk] = [3, 5, 7]. The axes H and Lq look swapped.",
    ),
    (
        lambda right: right.transpose(1, 2),
        "returned shape [3, 7, 5]; expected bias [H, Lq, Lk] = [3, 5, 7]. The axes Lq and Lk look swapped.",
    ),
    (
        lambda right: right[0],
        "returned shape [5, 7]; expected bias [H, Lq, Lk] = [3, 5, 7]. "
        "An axis is missing; size 1 is enough where nothing varies.",
    ),
    (lambda right: right[:, :4], "returned shape [3, 4, 7]; expected bias [H, Lq, Lk] = [3, 5, 7]."),
    (lambda right: right > 0, "returned torch.bool; expected a real floating-point array."),
    (lambda right: right * 1j, "returned torch.complex64; expected a real floating-point array."),
    (lambda right: (right, right), "returned a tuple of 2; return the one array that is judged."),
    (lambda right: [right], "returned a list of 1; return the one array that is judged."),
    (lambda right: None, "returned None: is a `return` missing? Return a torch tensor, a NumPy array or anything with DLPack."),
    (lambda right: "bias", "returned str; return a torch tensor, a NumPy array or anything with DLPack."),
    (lambda right: np.array([["a"]]), "returned ndarray; return a torch tensor, a NumPy array or anything with DLPack."),
]


@pytest.mark.parametrize(("make", "says"), RETURNED, ids=[says[:60] for _, says in RETURNED])
def test_a_result_that_cannot_be_read_is_described(make, says):
    assert complaint(lambda: plugged(bias(make), "alibi")) == f"test_smoke.py:it {says}"


def test_a_bias_may_broadcast():
    assert not failing(
        plugged(lambda num_heads, key_positions: _ahead(num_heads, key_positions), "alibi", softmax="causal"), "L1"
    )


def _ahead(num_heads, key_positions):
    return torch.tensor(s.slopes(num_heads)).view(-1, 1, 1) * key_positions


def test_another_layout_is_recognised_and_named():
    says = complaint(lambda: plugged(lambda q, k, v: a.plain(q, k, v).transpose(1, 2), "none"))
    assert says.endswith("The axes H and Lq look swapped. If that is your layout: --claim layout=blhd.")


def test_rotations_of_both_come_as_a_pair():
    says = complaint(lambda: plugged(lambda q, k: q, "rope"))
    assert says.endswith("takes q and k and must return both, rotated; got Tensor.")


# ---- names


def asks_for(names):
    scope = {}
    exec(f"def it({names}): ...", scope)
    scope["it"].__module__ = "user"
    return scope["it"]


NAMES = [
    ("n_heads", "`n_heads`, which nobody can provide. If it is num_heads", "--claim rename=n_heads:num_heads."),
    ("q_pos", "`q_pos`, which nobody can provide. If it is ", "under another name: --claim rename=q_pos:"),
    ("zzz", "`zzz`, which nobody can provide. Names there are: ", "query_positions"),
]


@pytest.mark.parametrize(("name", "says", "hint"), NAMES, ids=[n for n, _, _ in NAMES])
def test_a_name_nobody_can_provide_is_answered_with_the_names_there_are(name, says, hint):
    message = complaint(lambda: plugged(asks_for(f"query_positions, key_positions, {name}"), "alibi"))
    assert message.startswith(f"user.py:it asks for {says}") and hint in message
    assert "Names there are: bias_max, causal, device, distance, dtype, " in message
    assert message.endswith("Anything else needs a default, or a wrapper that fills it in.")


def test_a_renamed_name_that_is_wrong_is_answered_too():
    message = complaint(lambda: plugged(asks_for("here"), "alibi", rename={"here": "query_position"}))
    assert "asks for `here`" in message


def test_a_callable_without_a_readable_signature_gets_the_wrapper_to_paste():
    message = complaint(lambda: plugged(scaled_dot_product_attention, "none"))
    assert "has no readable signature (compiled code?). Wrap it and name what it needs:" in message
    assert "    def wrapped(q, k, v):\n        return scaled_dot_product_attention(q, k, v)" in message


# ---- calls


def test_what_it_raises_is_shown_with_the_input():
    message = complaint(lambda: plugged(bias(lambda right: 1 / 0), "alibi"))
    assert message.startswith("test_smoke.py:it could not be called on ordinary inputs (num_heads = 3, query_length = 5, ")
    assert message.endswith("ZeroDivisionError: division by zero.")


def test_what_it_would_also_take_is_named_when_it_fails():
    def it(num_heads, query_positions, key_positions, scale=None):
        return s.penalty(num_heads, query_positions, key_positions) * scale

    message = complaint(lambda: plugged(it, "alibi"))
    assert message.endswith("It was not given `scale`, left at the default; if needed: --claim binds=scale.")


def test_nothing_but_nan_is_no_answer():
    message = complaint(lambda: plugged(bias(lambda right: right * torch.nan), "alibi"))
    assert "returned nothing but NaN on ordinary inputs (num_heads = 3, " in message


def test_who_refuses_every_input_by_name_is_not_judged():
    def it(num_heads, query_positions, key_positions):
        raise ValueError("num_heads: not today")

    assert complaint(lambda: plugged(it, "alibi")).endswith("num_heads: not today.")


def test_who_refuses_all_but_the_gate_has_no_law_that_holds():
    def it(num_heads, query_positions, key_positions):
        if len(query_positions) != 5 or len(key_positions) != 7:
            raise NotImplementedError("num_heads is fine, the lengths are not")
        return s.penalty(num_heads, query_positions, key_positions)

    found = tried(plugged(it, "alibi"), "L10", profile_name="smoke")["L10"]
    assert (found.verdict, found.reason) == (REFUSED, "num_heads is fine, the lengths are not")
    assert found.refused == found.inputs > 0


def test_a_refusal_that_names_no_setting_is_a_crash():
    def it(num_heads, query_positions, key_positions):
        if len(query_positions) != 5:
            raise ValueError("not today")
        return s.penalty(num_heads, query_positions, key_positions)

    found = tried(plugged(it, "alibi"), "L1")["L1"]
    assert found.reason == "it raised ValueError: not today"


def test_a_builder_that_builds_no_score_mod_is_told_so():
    message = complaint(lambda: plugged(lambda num_heads: torch.zeros(num_heads), "alibi"))
    assert message.endswith("so it should build a score_mod(score, b, h, q_idx, kv_idx); it returned Tensor.")


def test_what_is_not_callable_is_told_so():
    assert (
        complaint(lambda: plug_in(3, spec="m:three", scheme="alibi")) == "m:three is a int, not something that can be called."
    )


def test_a_scheme_must_be_said():
    message = complaint(lambda: plug_in(s.by_lengths, spec="m:f"), UsageError)
    assert message == "m:f does not say which scheme it implements; add --scheme NAME."


def test_a_claim_that_means_nothing_is_refused_in_words():
    message = complaint(lambda: plug_in(s.by_lengths, spec="m:f", scheme="alibi", claims={"softmaxx": "causal"}), UsageError)
    assert message.startswith("m:f: there is no claim called 'softmaxx'. Did you mean softmax? There are: binds, corner, ")
    message = complaint(lambda: plug_in(s.by_lengths, spec="m:f", scheme="alibi", claims={"softmax": "full"}), UsageError)
    assert message == "m:f: claim `softmax` must be one of 'any', 'causal', got 'full'."


def test_the_gate_changes_nothing_of_a_subject_that_answers():
    subject = plug_in(s.by_lengths, spec="m:f", scheme="alibi")
    assert smoke(subject) == subject
