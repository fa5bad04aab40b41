"""Mistakes that show among several tiles of keys only: with hidden keys, shared keys, one query, or step by step."""

import pytest
import torch

from relpos.conformance.laws import law
from relpos.conformance.profiles import PROFILES
from relpos.conformance.runner import FAIL, PASS, run_law
from relpos.conformance.smoke import smoke
from relpos.conformance.subject import plug_in

FIRST = 64  # keys that every culprit treats rightly


def attend(q, k, v, keep):
    score = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    return score.masked_fill(~keep, -torch.inf).softmax(-1) @ v


def padded(q, k, v, padding_mask):
    """Right: padding is never seen."""
    return attend(q, k, v, padding_mask[:, None, None])


def padding_seen(q, k, v, padding_mask):
    """Padding beyond the first keys is seen."""
    there = torch.arange(k.shape[2]) >= FIRST
    return attend(q, k, v, (padding_mask | there)[:, None, None])


def one_query(q, k, v, query_positions, key_positions):
    """One query reads the first keys only."""
    there = torch.arange(k.shape[2]) < (FIRST if q.shape[2] == 1 else k.shape[2])
    return attend(q, k, v, there)


def groups_mixed(q, k, v, num_kv_heads):
    """Beyond the first keys, groups of heads take the wrong key head."""
    each = q.shape[1] // num_kv_heads
    near, far = k.repeat_interleave(each, dim=1), k.repeat(1, each, 1, 1)
    keys = torch.cat([near[:, :, :FIRST], far[:, :, FIRST:]], dim=2)
    return attend(q, keys, v.repeat_interleave(each, dim=1), torch.tensor(True))


class Decoder:
    """Right: every token sees all before it."""

    reach = 10**6

    def __init__(self):
        self.kept = []

    def step(self, q, k, v):
        self.kept.append((k, v))
        keys, values = (torch.cat(pieces, dim=2) for pieces in zip(*self.kept, strict=True))
        j = torch.arange(keys.shape[2])
        i = j[-q.shape[2] :, None]
        reach = self.reach if q.shape[2] == 1 else i.max() + 1
        return attend(q, keys, values, (j <= i) & (i - j < reach))


class Window(Decoder):
    """A single token sees the last keys only."""

    reach = FIRST


def verdict(target):
    subject = smoke(plug_in(target, spec=target.__name__, scheme="none", claims={"level": "attention"}))
    return run_law(law("L25"), subject, PROFILES["quick"], shrink=False).verdict


@pytest.mark.parametrize("culprit", [padding_seen, one_query, groups_mixed, Window], ids=lambda c: c.__name__)
def test_a_mistake_among_several_tiles_of_keys_is_caught(culprit):
    assert verdict(culprit) == FAIL


@pytest.mark.parametrize("right", [padded, Decoder], ids=lambda c: c.__name__)
def test_what_is_right_among_several_tiles_of_keys_passes(right):
    assert verdict(right) == PASS
