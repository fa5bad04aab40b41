"""Learned tables: other people's code conforms or is told what it does; ours learns, keeps nothing stale and copies little."""

import pickle

import pytest
import torch

import strangers_tables as s
from golden_files import load
from judging import failing, plugged, tried
from relpos.conformance.faults.registry import faults
from relpos.conformance.laws import l12_buckets as rows
from relpos.conformance.laws import laws
from relpos.conformance.planting import plant
from relpos.conformance.profiles import PROFILES
from relpos.conformance.runner import FAIL
from relpos.conformance.verdict import judge
from relpos.impls import _tables, clipped, t5
from relpos.spec.clipped import Clipped
from relpos.spec.t5 import T5

NAMES = [one.name for one in laws()]
SMOKE = PROFILES["smoke"]
SCAN = load("t5__float_boundary_scan.json")
LEARNERS = ((t5.CachedBias, T5(2, 8, 20)), (clipped.CachedBias, Clipped(2, 3)))


# ---- other people's


@pytest.mark.parametrize("bidirectional", [True, False])
def test_hugging_faces_float32_logarithm_conforms_as_published(bidirectional):
    given = {"num_buckets": 32, "max_distance": 128, "bidirectional": bidirectional}
    assert not failing(plugged(s.HuggingFaceBias, "t5", given=given), *NAMES)


def test_hugging_faces_module_conforms_at_every_setting_that_is_drawn():
    assert not failing(plugged(s.HuggingFaceBias, "t5"), *NAMES)


@pytest.mark.parametrize(("N", "D"), [(17, 27), (19, 25), (19, 196), (5, 686), (16, 1461), (32, 939), (64, 1878), (320, 65536)])
def test_a_float32_logarithm_is_off_by_one_bucket_beside_an_edge_if_at_all(N, D):
    """Where it is off depends on the processor's logarithm, so nothing more is said."""
    n = torch.arange(2 * D)
    exact, found = t5._buckets(T5(1, N, D, bidirectional=False), -n), s.relative_position_bucket(-n, False, N, D)
    steps = torch.cat([torch.ones(1, dtype=torch.bool), exact[1:] != exact[:-1], torch.zeros(1, dtype=torch.bool)])
    wrong = found != exact
    assert ((found - exact).abs() <= 1).all() and (steps[:-1] | steps[1:])[wrong].all() and wrong.sum() < N


def test_a_float32_logarithm_is_named_where_it_shows():
    fault = next(fault for fault in faults("t5") if fault.name == "logarithm-float32")
    verdict = judge(plant("t5", "contribution", fault), SMOKE)
    assert any(r.law.name == "L12" for r in verdict.failures)
    assert verdict.diagnosis is not None and verdict.diagnosis.like == (fault.says,)


@pytest.mark.parametrize("formula", [name for name in SCAN.arrays if name.startswith("disagree") and name.endswith("settings")])
def test_no_float_formula_differs_at_the_published_settings(formula):
    assert not [row for row in SCAN[formula] if tuple(row[:2]) == (32, 128)]


def test_a_bias_on_scaled_scores_is_told_apart():
    subject = plugged(s.x_transformers, "t5", level="logits", given={"score_scale": "inverse_sqrt"})
    result = tried(subject, "L29")["L29"]
    assert (result.verdict, result.reason) == (FAIL, "the bias is multiplied by √D")


def test_scaled_scores_are_told_apart():
    def divided(q, k, table, query_positions, key_positions):
        return s.x_transformers(q, k, table / q.shape[-1] ** 0.5, query_positions, key_positions)

    subject = plugged(divided, "t5", level="logits")
    assert tried(subject, "L29")["L29"].reason == "1/√D is applied, which this scheme does not have"


def test_the_tutorials_module_conforms_at_one_length():
    claims = {"rename": {"seq_len": "key_length", "max_relative_distance": "max_distance"}, "binds": ("max_distance",)}
    assert not failing(plugged(s.RelativePositionBias, "clipped", **claims), *NAMES)


# ---- rows


def test_the_message_names_the_first_distance():
    def late(table, query_positions, key_positions):
        return table[s.relative_position_bucket(key_positions - query_positions[:, None]).clamp(max=30)].permute(2, 0, 1)

    subject = plugged(late, "t5", given={"num_buckets": 32, "max_distance": 128, "bidirectional": True})
    assert tried(subject, "L12")["L12"].reason.startswith("at key − query = 91 head 0 reads row 30 in place of row 31")


@pytest.mark.parametrize("scheme", ["t5", "clipped"])
def test_a_pair_of_rows_exchanged_beyond_every_ordinary_length_is_seen_at_attention_level(scheme):
    published = {"num_buckets": 32, "max_distance": 256, "cross_attention": False}
    settings, module = {"t5": (published, t5), "clipped": ({"max_distance": 128}, clipped)}[scheme]

    def attention(settings, params, q, k, v, query_positions, key_positions):
        last = params["table"].shape[0] - 1
        order = [*range(last - 1), last, last - 1]
        given = {"params": {"table": params["table"][order]}} if scheme == "t5" else {"table": params["table"][order]}
        return module.attention(settings, q=q, k=k, v=v, query_positions=query_positions, key_positions=key_positions, **given)

    assert "L12" in failing(plugged(attention, scheme, given=settings), "L12")


def test_rows_are_not_asked_of_schemes_that_have_none():
    for scheme in ("alibi", "shaw", "none"):
        assert rows.LAW.applies(plant(scheme, "logits")) == "the scheme has no table of numbers per distance"


# ---- ours


@pytest.mark.parametrize(("module", "settings"), LEARNERS)
def test_what_is_kept_is_not_what_is_learned(module, settings):
    bias = module(settings)
    optimiser = torch.optim.SGD(bias.parameters(), lr=1.0)
    before = bias(3, 5, 2)
    before.sum().backward()
    optimiser.step()
    fresh = module(settings)
    fresh.load_state_dict(bias.state_dict())
    assert list(bias.state_dict()) == ["table"]
    torch.testing.assert_close(bias(3, 5, 2), fresh(3, 5, 2), rtol=0, atol=0)
    assert not torch.equal(bias(3, 5, 2), before)


@pytest.mark.parametrize(("module", "settings"), LEARNERS)
def test_a_module_survives_the_way_to_another_process(module, settings):
    bias = module(settings)
    bias(2, 3, 0)
    again = pickle.loads(pickle.dumps(bias))
    torch.testing.assert_close(again(4, 7, 3), bias(4, 7, 3), rtol=0, atol=0)


def test_a_line_is_seen_as_a_matrix_without_a_copy():
    line = _tables.line(torch.randn(5, 2), torch.arange(4).clamp(max=4))
    seen = line.unfold(-1, 2, 1)
    assert seen.data_ptr() == line.data_ptr() and seen.untyped_storage().nbytes() == line.untyped_storage().nbytes()


def test_bucket_starts_are_whole_numbers_however_large():
    starts = t5._starts(1024, 10**9)
    assert len(starts) == 1023 and list(starts) == sorted(starts) and starts[-1] < 10**9
    assert T5(1, 1024, 10**9, bidirectional=False).bucket(-starts[-1]) == 1023
    assert T5(1, 1024, 10**9, bidirectional=False).bucket(1 - starts[-1]) == 1022
