"""L3: any chunking of a decode, with memory, prefixes, masks and thresholds; what a decoder is given step by step."""

import pytest
import torch

import culprits_paths
from judging import plugged, tried
from relpos.conformance.answers import definition, prepared
from relpos.conformance.chunking import part
from relpos.conformance.faults.registry import faults
from relpos.conformance.judge import LawFailure
from relpos.conformance.laws import law
from relpos.conformance.laws.l02_shift import _table
from relpos.conformance.laws.l03_slice import _threshold
from relpos.conformance.magnitude import logits_size
from relpos.conformance.plan import Plan
from relpos.conformance.planting import plant
from relpos.conformance.profiles import profile
from relpos.conformance.runner import FAIL, PASS, run_law
from relpos.conformance.stepping import of_step
from relpos.conformance.tolerance import growth, units
from test_strategies import drawn

L3 = law("L3")
DYNAMIC = {"head_dim": 4, "scaling": "dynamic", "factor": 2.0, "max_position": 4}
KEPT = "cached keys keep the rotation of a shorter context"


def told(target, sizes: tuple[int, ...]) -> str:
    """What L3 says of a decode in these steps."""
    n = sum(sizes)
    plan = Plan(settings=DYNAMIC, query_length=n, key_length=n, head_dim=4, causal=True, extra={"chunks": sizes})
    with pytest.raises(LawFailure) as caught:
        L3.check(plugged(target), plan)
    return caught.value.says


def test_who_caches_rotated_keys_is_told_so_where_the_threshold_is_crossed():
    assert (
        told(culprits_paths.TurnedOnce, (4, 1))
        == f"row 4, computed alone, differs from that row of the whole of 5 tokens: {KEPT}"
    )
    plan = Plan(settings=DYNAMIC, query_length=4, key_length=4, head_dim=4, causal=True, extra={"chunks": (2, 1, 1)})
    assert L3.check(plugged(culprits_paths.TurnedOnce), plan) < 4  # up to the threshold it is right


def test_another_mistake_across_a_threshold_is_not_called_so():
    (fault,) = [fault for fault in faults("rope") if fault.name == "counts-the-past"]
    result = run_law(L3, plant("rope", "itself", fault), profile("smoke"), shrink=False)
    assert result.verdict == FAIL and KEPT not in result.reason
    assert result.failure.plan.extra["chunks"][0] == fault.settings["max_position"] - 1


@pytest.mark.parametrize(
    ("scheme", "name"), [("transformer_xl", "memory-per-step"), ("none", "padding-forgotten"), ("rope", "keeps-turned-keys")]
)
def test_a_decoder_that_forgets_is_caught_at_once(scheme, name):
    (fault,) = [fault for fault in faults(scheme) if fault.name == name]
    result = run_law(L3, plant(scheme, "itself", fault), profile("smoke"), shrink=False)
    assert result.verdict == FAIL and result.inputs <= 2


def test_drawn_decodes_have_a_memory_and_keys_beyond_the_last_query():
    subject = plant("none", "attention")
    plans = drawn(L3.plans(subject), 60)
    assert {plan.extra.get("memory", 0) for plan in plans} == {0, 1, 2, 3}
    assert any(plan.key_length > plan.query_length + plan.extra.get("memory", 0) for plan in plans)
    for plan in plans:
        assert sum(plan.extra["chunks"]) == plan.query_length
        assert plan.query_positions[0] - plan.key_positions[0] == plan.extra.get("memory", 0)


def test_drawn_decodes_end_around_the_threshold():
    subject = plant("rope", "attention").but(given={"scaling": "dynamic", "factor": 2.0, "max_position": 4})
    ends = set()
    for plan in drawn(L3.plans(subject), 60):
        assert _threshold(subject, plan) == 4
        ends |= {sum(plan.extra["chunks"][: n + 1]) for n in range(len(plan.extra["chunks"]))}
    assert {3, 4, 5} <= ends


def test_a_part_sees_the_memory_before_it():
    subject = plant("alibi", "contribution")
    plan = Plan(settings={"num_heads": 2}, heads=2, query_length=3, key_length=5, query_positions=(2, 3, 4),
                key_positions=(0, 1, 2, 3, 4), extra={"chunks": (1, 2), "memory": 2})  # fmt: skip
    given = prepared(subject, plan)
    cut = part(subject, given, 1, 3)
    assert list(cut.query_positions) == [3, 4] and list(cut.key_positions) == [0, 1, 2, 3, 4]
    whole = definition(subject, given)["bias"].value
    assert (definition(subject, cut)["bias"].value == whole[:, 1:3]).all()
    assert list(part(subject, given, 0, 1).key_positions) == [0, 1, 2]


@pytest.mark.parametrize(
    ("ours", "whole", "expected"),
    [
        ("offset", 7, 9),
        ("query_length", 5, 2),
        ("key_length", 5, 4),
        ("query_positions", torch.arange(10, 15), [12, 13]),
        ("padding_mask", torch.arange(5)[None], [[2, 3]]),
        ("mask", torch.arange(25).view(1, 1, 5, 5), [[[[10, 11, 12, 13], [15, 16, 17, 18]]]]),
        ("scale", 0.5, 0.5),
    ],
)
def test_a_step_is_given_its_own_rows_and_the_keys_there_are(ours, whole, expected):
    found = of_step(ours, whole, 2, 2, "bhld")
    assert (found.tolist() if isinstance(found, torch.Tensor) else found) == expected


def test_tokens_of_a_step_are_cut_by_the_layout():
    x = torch.arange(12).view(1, 3, 4, 1)
    assert of_step("q", x, 1, 2, "bhld").shape == (1, 3, 2, 1) and of_step("q", x, 1, 2, "blhd").shape == (1, 2, 4, 1)


# ---- other laws, where only a padding mask is taken


def poisoned(q, k, v, padding_mask):
    """Hidden keys are subtracted, not skipped."""
    score = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    weights = torch.exp(score - score.amax(-1, keepdim=True)) * padding_mask[:, None, None].to(q.dtype)
    return weights / weights.sum(-1, keepdim=True).clamp(min=torch.finfo(q.dtype).tiny) @ v


def test_poison_in_padding_is_looked_for():
    result = tried(plugged(poisoned, "none", gradient=False), "L8")["L8"]
    assert result.verdict == FAIL and "a huge finite value in keys that are hidden from every query" in result.reason


def test_padding_that_is_not_hidden_is_seen_by_a_pinned_input():
    from strangers_attention import plain

    def ignored(q, k, v, padding_mask):
        del padding_mask
        return plain(q, k, v)

    result = run_law(law("L7"), plugged(ignored, "none"), profile("smoke"), shrink=False)
    assert result.verdict == FAIL and result.inputs <= 2 and "which is hidden from it" in result.reason


def test_right_padding_passes():
    from strangers_attention import padded

    found = tried(plugged(padded), "L7", "L8", profile_name="smoke")
    assert {name: r.verdict for name, r in found.items()} == {"L7": PASS, "L8": PASS}


# ---- bounds


def test_the_bound_of_a_shift_grows_with_the_terms_of_the_dot_product():
    subject, D = plant("rope", "contribution"), 128
    at = (0, 1, 2)
    sizes = {"query_length": 3, "key_length": 3, "query_positions": at, "key_positions": at, "head_dim": D}
    given = prepared(subject, Plan(settings={"head_dim": D}, **sizes))
    size = logits_size(given.settings, {}, given.q, given.k, given.query_positions, given.key_positions, 1.0)
    _, bound, _ = _table(subject, given)
    assert (bound >= growth(size.n) * units("float32").u * size.M).all() and growth(size.n) > 2
