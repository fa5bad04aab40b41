"""What L20, L22, L23 and L24 leave alone: right implementations that PyTorch's transforms decline, and rarer backends."""

import os

import pytest
import torch
from torch import nn

from judging import failing, plugged, tried
from relpos.conformance import compilers
from relpos.conformance.console import _detail
from relpos.conformance.laws import law
from relpos.conformance.laws.l22_memory import exponent
from relpos.conformance.memory import measured
from relpos.conformance.profiles import PROFILES
from relpos.conformance.runner import FAIL, PASS, LawResult, replay

FIXED = {"max_distance": 3, "directions": "both", "beyond": "repeat", "heads": "own", "sign": "key_minus_query"}


def by_einsum(q, k, v):
    return torch.einsum("bhij,bhjd->bhid", (torch.einsum("bhid,bhjd->bhij", q, k) * q.shape[-1] ** -0.5).softmax(-1), v)


def written_in_place(q, k, v):
    scores = torch.zeros(*q.shape[:3], k.shape[2])
    scores += q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    return scores.softmax(-1) @ v


def chosen_by_value(q, k, v):
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    if scores.max().item() > 1:
        scores = scores - scores.amax(-1, keepdim=True)
    return scores.softmax(-1) @ v


def through_a_checkpoint(q, k, v):
    return torch.utils.checkpoint.checkpoint(by_einsum, q, k, v, use_reentrant=True)


class Buffered(nn.Module):
    """A table, and rows that are saved with it."""

    def __init__(self, num_heads):
        super().__init__()
        self.table = nn.Parameter(torch.zeros(7, num_heads))
        self.register_buffer("rows", (torch.arange(1024) - 512).clamp(-3, 3) + 3)

    def forward(self, query_positions, key_positions):
        return self.table[self.rows[key_positions - query_positions[:, None] + 512]].permute(2, 0, 1)


def scored(settings, table):
    """A score_mod around a table that learns."""

    def score_mod(score, b, h, q_idx, kv_idx):
        r = (kv_idx - q_idx).clamp(-settings.max_distance, settings.max_distance) + settings.max_distance
        return score + table[r, h]

    return score_mod


def scored_frozen(settings, table):
    return scored(settings, table.detach())


STYLES = [by_einsum, written_in_place, chosen_by_value, through_a_checkpoint]


def of_trace(subject, *ways):
    """Reasons of the failures under some of the ways, empty for none."""
    plans = [p for p in law("L24").pinned(subject) if p.extra.get("how", "compiled") in ways]
    assert len(plans) == len(ways)
    return [r.reason for r in (replay(law("L24"), subject, plan) for plan in plans) if r.reason]


@pytest.mark.parametrize("right", STYLES)
def test_right_attention_in_any_style_is_not_accused(right):
    subject = plugged(right, "none")
    assert not failing(subject, "L20", profile_name="smoke") and not of_trace(subject, "exported", "mapped")


@pytest.mark.exhaustive
@pytest.mark.parametrize("right", STYLES)
def test_right_attention_in_any_style_is_not_accused_once_compiled(right):
    assert not failing(plugged(right, "none"), "L20", "L22", "L23", "L24")


@pytest.mark.exhaustive
def test_a_module_with_a_buffer_is_not_accused():
    subject = plugged(Buffered, "clipped", given=FIXED, max_position=500)
    assert not failing(subject, "L20", "L22", "L23", "L24")


def test_what_torch_export_declines_is_a_failure_only_where_it_is_claimed():
    (reason,) = of_trace(plugged(chosen_by_value, "none", export=True), "exported")
    assert reason.startswith("exported, it is declined: ")


def test_a_transform_that_is_not_claimed_is_not_tried():
    kinds = {p.extra.get("how") for p in law("L24").pinned(plugged(by_einsum, "none", export=False, vmap=False))}
    assert kinds == {None, "dynamic"}


def test_a_table_in_a_score_mod_has_gradients_and_owes_them():
    right, wrong = (plugged(one, "clipped", given=FIXED) for one in (scored, scored_frozen))
    verdicts = [{replay(law("L20"), one, plan).verdict for plan in law("L20").pinned(one)} for one in (right, wrong)]
    assert verdicts == [{PASS}, {FAIL}] and not of_trace(right, "compiled")


def test_without_a_compiler_the_result_says_what_was_compiled_with(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    compilers.cpp_compiler.cache_clear()
    monkeypatch.setattr("torch._inductor.cpp_builder.get_cpp_compiler", no_compiler)
    try:
        subject = plugged(by_einsum, "none")
        assert compilers.backend() == "aot_eager" and law("L24").rare(subject) == []
        assert not of_trace(subject, "dynamic")
        passed = LawResult(law("L24"), PASS, law("L24").note(subject), inputs=4)
        assert _detail(passed, "attention").startswith("4 inputs, exact, no C++ compiler: compiled with aot_eager")
    finally:
        compilers.cpp_compiler.cache_clear()


def no_compiler():
    raise RuntimeError(f"no compiler in {os.environ['PATH']}")


def test_only_the_thorough_profile_pays_for_rare_inputs():
    assert [name for name, one in PROFILES.items() if one.rare] == ["thorough"]


@pytest.mark.exhaustive
@pytest.mark.skipif(compilers.cpp_compiler() is None, reason="no C++ compiler")
def test_pytorchs_own_compiler_is_tried_where_it_can_run():
    subject = plugged(by_einsum, "none")
    plans = law("L24").rare(subject)
    assert [p.extra["backend"] for p in plans] == ["inductor"]
    assert all(replay(law("L24"), subject, plan).verdict == PASS for plan in plans)


def test_the_exponent_of_growth_is_that_of_a_power():
    assert exponent([256, 512, 1024], [3 * n**2 for n in (256, 512, 1024)]) == pytest.approx(2)
    assert exponent([1, 2, 4], [7.0, 7.0, 7.0]) == pytest.approx(0)


def test_measuring_says_nothing_of_blocks_that_were_there_before(capfd):
    held = [torch.randn(1000)]
    found = measured(held.clear)
    os.write(2, b"said by somebody else\n")
    assert capfd.readouterr().err == "said by somebody else\n" and found.peak_bytes >= 0


class Rebuilt(nn.Module):
    """A bias of zeros out of a table that is as long as the last call."""

    __relpos__ = {"scheme": "none", "memory": "B*H*Lq*Lk + B*H*Lq*D + B*H*Lk*D"}  # noqa: RUF012

    def __init__(self):
        super().__init__()
        self.line = torch.zeros(0)

    def forward(self, q, k, v):
        if len(self.line) != k.shape[2]:
            self.line = torch.zeros(k.shape[2])
        return (q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5 + self.line).softmax(-1) @ v


def test_a_table_that_is_built_again_is_a_note_and_no_failure():
    subject = plugged(Rebuilt)
    assert law("L22").note(subject) == "a table is built anew after every shorter call"
    assert tried(subject, "L22")["L22"].verdict == PASS
    assert law("L22").note(plugged(by_einsum, "none")) == ""
