"""Outputs at padding itself: computed or left at 0, nobody reads them; those of real tokens are judged as ever."""

import numpy as np
import pytest
import torch

import strangers_attention as a
from judging import failing, plugged
from relpos.conformance.answers import prepared, undeclared
from relpos.conformance.plan import Plan
from relpos.impls.card import implements

LAWS = ("L1", "L5", "L7", "L20", "L27")
PADDED = Plan(batch=2, heads=1, query_length=6, key_length=6, mask="padding", seed=3)


def left_at(value, shift):
    """Attention that writes a value where the token `shift` places before is padding."""

    @implements("none")
    def attention(q, k, v, padding_mask):
        rows = ~padding_mask.roll(shift, dims=-1)[:, None, :, None]
        return a.padded(q, k, v, padding_mask).masked_fill(rows, value)

    return attention


@pytest.mark.parametrize("target", [a.padded, left_at(0.0, 0), left_at(7.0, 0)], ids=["computed", "zero", "anything"])
def test_outputs_at_padding_are_not_judged(target):
    assert not failing(plugged(target), *LAWS)


def test_they_must_be_finite():
    assert "L1" in failing(plugged(left_at(torch.nan, 0)), "L1")


def test_a_real_token_beside_padding_is_judged():
    assert {"L1", "L5", "L7"} <= failing(plugged(left_at(0.0, 1)), "L1", "L5", "L7")


def test_only_queries_that_are_the_tokens_of_the_mask_are_left_out():
    def masked(q, k, v, query_positions, key_positions, padding_mask):
        return a.padded(q, k, v, padding_mask)

    subject = plugged(masked, "none")
    here = {"query_positions": tuple(range(6)), "key_positions": tuple(range(6))}
    same = prepared(subject, PADDED.but(**here))
    hidden = ~same.mask[:, 0, 0]
    assert hidden.any() and np.array_equal(undeclared(subject, same), hidden)
    step = prepared(subject, PADDED.but(**{**here, "query_length": 2, "query_positions": (4, 5)}))
    assert np.array_equal(undeclared(subject, step), ~step.mask[:, 0, 0, 4:])
    crossed = prepared(subject, PADDED.but(**{**here, "query_positions": tuple(range(1, 7))}))
    random = prepared(subject, PADDED.but(**here, mask="random"))
    assert not undeclared(subject, crossed).any() and not undeclared(subject, random).any()
    assert not undeclared(plugged(a.masked), same).any()  # a mask of pairs marks no token
