"""L4 as a state machine: right caches in unusual styles are left alone, and a history can be repeated from what is printed."""

import pytest
import torch
from torch import nn

import strangers_compiled
from judging import failing, plugged
from relpos.conformance.history_steps import told
from relpos.conformance.laws import law
from relpos.conformance.plan import Plan
from relpos.conformance.runner import FAIL, replay
from relpos.impls.card import implements
from strangers import slopes


@implements("alibi")
class Grown(nn.Module):
    """A buffer that is not saved and grows when it must, by dtype and device, outside of inference mode."""

    def __init__(self, num_heads):
        super().__init__()
        self.register_buffer("line", torch.zeros(num_heads, 0), persistent=False)
        self.num_heads = num_heads

    def forward(self, query_length, key_length, offset):
        reach = max(offset + query_length, key_length)
        if reach > self.line.shape[1]:
            with torch.inference_mode(False):
                self.line = -torch.tensor(slopes(self.num_heads))[:, None] * torch.arange(2 * reach)
        far = (torch.arange(offset, offset + query_length)[:, None] - torch.arange(key_length)).abs()
        return self.line[:, far]


@implements("clipped", settings={"max_distance": 2, "directions": "both", "beyond": "repeat", "heads": "own"})
class ByVersion(nn.Module):
    """A bias kept for eval mode by everything that it depends on, the version of its table too."""

    def __init__(self, num_heads):
        super().__init__()
        self.table, self.kept = nn.Parameter(torch.zeros(5, num_heads)), {}

    def forward(self, query_length, key_length, offset):
        key = (query_length, key_length, offset, self.table._version, self.table.dtype, self.table.device)
        distance = torch.arange(offset, offset + query_length)[:, None] - torch.arange(key_length)
        if torch.is_grad_enabled():
            return self.table[distance.clamp(-2, 2) + 2].permute(2, 0, 1)
        if key not in self.kept:
            self.kept[key] = self.table[distance.clamp(-2, 2) + 2].permute(2, 0, 1)
        return self.kept[key].clone()


@implements("alibi", softmax="causal")
class LongerSliced(nn.Module):
    """B010: the bias of a longer call, sliced: off by a constant per query, which a causal softmax does not see."""

    def __init__(self, num_heads):
        super().__init__()
        self.num_heads, self.longest = num_heads, 0

    def forward(self, query_length, key_length, offset):
        self.longest = max(self.longest, key_length)
        row = torch.arange(self.longest)[:key_length] - (self.longest - 1)
        return (torch.tensor(slopes(self.num_heads)).view(-1, 1, 1) * row).repeat(1, query_length, 1)


@pytest.mark.parametrize("right", [Grown, ByVersion, LongerSliced], ids=lambda right: right.__name__)
def test_a_right_cache_is_left_alone(right):
    assert not failing(plugged(right), "L4")


def test_a_history_is_told_in_order():
    steps = ({"do": "call"}, {"do": "optimiser step"}, {"do": "call"}, {"do": "call", "plan": {"offset": 1}, "train": True})
    assert told(Plan(query_length=3, key_length=5), steps) == (
        "call at 3 × 5; an optimiser step; the same call; call at 3 × 5, offset = 1, in train mode"
    )


def test_a_history_is_repeated_from_its_json():
    import culprits

    steps = ({"do": "call"}, {"do": "call", "plan": {"offset": 3}})
    plan = Plan(settings={"num_heads": 1}, key_length=4, extra={"steps": steps})
    result = replay(law("L4"), plugged(culprits.Kept), Plan.from_json(plan.to_json()))
    assert result.verdict == FAIL
    assert result.reason.endswith("the answer is still that of call 1")


@pytest.mark.parametrize("target", strangers_compiled.RIGHT, ids=lambda target: target.__name__)
def test_what_compiles_itself_is_held_against_itself_uncompiled(target):
    assert not failing(plugged(target), "L4")


def test_what_compiles_itself_remembers_no_more_than_others_may():
    assert failing(plugged(strangers_compiled.kept_by_length), "L4") == {"L4"}
