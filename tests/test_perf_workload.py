"""What is timed is attention: a variant, completed by its form, gives the definition's output, or says why it cannot be had."""

import pytest
import torch

from relpos.conformance.builtins import builtins
from relpos.perf.data import Data, limit
from relpos.perf.measuring import Options, measure
from relpos.perf.memory import footprint, kept_for_backward
from relpos.perf.plugging import Unsupported
from relpos.perf.point import Shape, Variant
from relpos.perf.rows import MEASURED, UNSUPPORTED
from relpos.perf.settings import measured_settings, window
from relpos.perf.workload import Workload

SMALL = Shape(key_length=36, heads=4, head_dim=8)
ONCE = Options(rounds=1, threads=1)
# One of each way of being completed, and one of each scheme that is peculiar.
SPECIMENS = (
    "alibi/toeplitz", "alibi/bias", "t5/bias", "swin/WindowBias", "beit/attention", "rope/rotate", "sinusoidal/encode",
    "learned/added", "deberta/logits", "transformer_xl/Attention", "swin_v2/attention", "none/Attention",
)  # fmt: skip


def variant(label):
    return Variant(label=label, spec=builtins(label.split("/")[0])[label], scheme=label.split("/")[0])


@pytest.mark.parametrize("causal", [False, True], ids=["bidirectional", "causal"])
def test_every_way_of_completing_gives_the_definition_s_output(causal):
    found = measure(SMALL.but(causal=causal), [variant(label) for label in SPECIMENS], ONCE)
    for one, status, figures in found:
        assert status in (*MEASURED, UNSUPPORTED), (one.label, figures)
        if status != UNSUPPORTED and one.scheme != "none":
            assert figures["error_units"] <= figures["error_allowed_units"]
    had = {one.label for one, status, _ in found if status in MEASURED}
    assert {"alibi/toeplitz", "alibi/bias", "t5/bias", "rope/rotate", "sinusoidal/encode", "deberta/logits"} <= had


def test_a_wrong_output_is_never_a_figure(monkeypatch):
    monkeypatch.setattr("relpos.perf.workload.default_scale", lambda settings, width: 0.123)
    (*_, (_, status, figures)) = measure(SMALL, [variant("t5/bias")], ONCE)
    assert status == "failed" and "off by" in figures["reason"]


def test_an_output_that_changes_while_it_is_timed_is_never_a_figure(monkeypatch):
    calls = []
    honest = Workload.call

    def drifting(self, data):
        call = honest(self, data)
        calls.append(1)
        return lambda: call() + (0.0 if len(calls) < 3 else 1.0)

    monkeypatch.setattr(Workload, "call", drifting)
    (*_, (_, status, figures)) = measure(SMALL, [variant("alibi/attention")], ONCE)
    assert status == "failed" and "after the timed loop" in figures["reason"]


@pytest.mark.parametrize(
    ("label", "shape", "words"),
    [
        ("alibi/Decoder", SMALL, "single steps"),
        ("swin/bias", SMALL.but(causal=True), "several axes"),
        ("swin/WindowBias", SMALL.but(mode="decode"), "where a lone query lies"),
        ("alibi/Bias", SMALL.but(dtype="bfloat16"), "bfloat16 is not claimed"),
        ("shaw/logits", SMALL, "adds to the values"),
        ("swin_v2/bias", SMALL, "content term of its own"),
        ("music_transformer/attention_skew", SMALL, "causal softmax only"),
        ("sinusoidal/encode", SMALL.but(mode="decode"), "added once"),
        ("swin/resize", SMALL, "resizes tables"),
    ],
)
def test_what_cannot_be_had_says_why(label, shape, words):
    with pytest.raises(Unsupported, match=words):
        Workload(variant(label), shape).call(Data(shape, 0))


@pytest.mark.parametrize("pairs", [2**20, 10 * 35], ids=["in one step", "ten tokens a step"])
def test_a_decoder_holds_all_but_the_last_token_and_starts_anew_every_round(pairs, monkeypatch):
    monkeypatch.setattr("relpos.perf.workload.FILLED_PAIRS", pairs)
    shape = SMALL.but(mode="decode")
    work, data = Workload(variant("alibi/Decoder"), shape), Data(shape, 0)
    at_once = Workload(variant("alibi/attention"), shape).call(data)()
    torch.testing.assert_close(work.call(data)(), at_once)
    torch.testing.assert_close(work.call(data)(), at_once)


def test_gradients_of_all_inputs_and_tables_are_part_of_a_training_call():
    shape = SMALL.but(mode="forward_backward")
    work = Workload(variant("t5/bias"), shape)
    call, leaves = work._prepared(Data(shape, 0))
    call().sum().backward()
    assert {name for name, leaf in leaves.items() if leaf.grad is not None} == {"q", "k", "v", "table"}


def test_memory_of_a_bias_that_is_formed_is_that_of_a_matrix():
    shape = SMALL.but(key_length=128)
    data = Data(shape, 0)
    formed, limits = (footprint(make, shape, data.q.nbytes) for make in (
        lambda: Workload(variant("alibi/bias"), shape).call(data), lambda: limit(shape, data)))  # fmt: skip
    matrix = 4 * shape.heads * 128 * 128
    assert formed.peak_bytes >= matrix and formed.largest_bytes >= matrix > limits.peak_bytes
    assert formed.extra_bytes == formed.peak_bytes - data.q.nbytes


def test_what_a_forward_keeps_for_its_backward_is_counted():
    x = torch.ones(1000, requires_grad=True)
    assert kept_for_backward(lambda: x.exp().exp()) == pytest.approx(2 * 4000, abs=200)


@pytest.mark.parametrize(("length", "grid"), [(512, (16, 32)), (64, (8, 8)), (36, (6, 6)), (7, (1, 7))])
def test_a_window_is_the_squarest_grid(length, grid):
    assert window(length) == grid


def test_settings_follow_the_shape_the_direction_and_what_was_published():
    shape = Shape(key_length=512)
    assert measured_settings("t5", shape.but(causal=True), {})["bidirectional"] is False
    assert measured_settings("deberta", shape, {})["max_distance"] == 512
    assert measured_settings("shaw", shape, {})["max_distance"] == 64, "clipped: 64 rows each way"
    music = measured_settings("music_transformer", shape, {})
    assert (music["max_distance"], music["variant"]) == (512, "unmasked"), "beyond its table there is none: a row for all"
    assert measured_settings("sinusoidal", shape, {})["embed_dim"] == 512
