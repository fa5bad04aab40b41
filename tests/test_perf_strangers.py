"""What somebody plugs in gets its own figure or none, says why in words, and never touches the figures of others."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from relpos.perf.checking import Wrong, check_rounds, sampled
from relpos.perf.data import Data
from relpos.perf.guarded import Guarded
from relpos.perf.isolated import measure_isolated
from relpos.perf.measuring import Options, measure
from relpos.perf.point import Shape, Variant
from relpos.perf.rows import FAILED, MEASURED
from relpos.perf.variants import built_in
from relpos.perf.workload import Workload

SMALL = Shape(key_length=40, heads=2, head_dim=8)
ROUNDS = Options(rounds=3, threads=1, memory=False)
FILE = Path(__file__).with_name("strangers_timed.py")


def theirs(name):
    return Variant(label=f"none/{name}", spec=f"{FILE}:{name}", scheme="none", origin="yours")


def found(*names, shape=SMALL, options=ROUNDS):
    return {v.label.partition("/")[2]: (s, f) for v, s, f in measure(shape, [theirs(name) for name in names], options)}


WRITERS = {
    "writes_into_q": "q", "turns_k_and_v_round": "k, v", "writes_into_q_at_its_fourth_call": "q",
    "writes_into_q_at_its_ninth_call": "q",
}  # fmt: skip


@pytest.mark.parametrize("name", WRITERS)
def test_who_writes_into_its_inputs_fails_alone_and_is_told_which(name):
    rows = found(name, "plain", options=replace(ROUNDS, memory=True, rounds=4))
    assert rows[name] == (FAILED, {"reason": f"it writes into its input {WRITERS[name]}"})
    assert rows["plain"][0] in MEASURED and rows["plain"][1]["error_units"] <= rows["plain"][1]["error_allowed_units"]


def test_inputs_are_put_right_before_anybody_else_uses_them():
    inputs, asked = Guarded(SMALL, 3), Data(SMALL, 3)
    inputs.data.q.data.mul_(-1.0)
    inputs.data.cotangent.data[0, 0, 0, 0] = -0.0
    assert inputs.written() == ["q", "the gradient of its output"] and inputs.written() == []
    assert all(torch.equal(x, asked.tensors[name]) for name, x in inputs.data.tensors.items())


def test_no_two_rounds_have_the_same_numbers_and_all_have_them_in_the_same_places(monkeypatch):
    seen, honest = [], Workload.call

    def noted(self, data):
        seen.append((data.q.data_ptr(), float(data.q.sum())))
        return honest(self, data)

    monkeypatch.setattr(Workload, "call", noted)
    assert found("plain", options=replace(ROUNDS, rounds=4))["plain"][0] in MEASURED
    first, warm, again, *rounds = seen[:7]
    assert len({numbers for _, numbers in (first, warm, *rounds)}) == 6 and warm == again
    assert len({place for place, _ in (first, warm, *rounds)}) == 1


@pytest.mark.parametrize("name", ["keeps_by_address", "keeps_by_shape", "keeps_by_identity", "keeps_weights_by_address"])
@pytest.mark.parametrize("accuracy", [True, False], ids=["compared", "in the probe"])
def test_what_keeps_its_output_has_no_figure(name, accuracy):
    status, figures = found(name, options=replace(ROUNDS, accuracy=accuracy))[name]
    assert status == FAILED and "latency_ms" not in figures
    said = ("it keeps outputs", "hangs on where its inputs lie", "after the timed loop the same inputs give another output")
    assert any(words in figures["reason"] for words in said), figures["reason"]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_what_keeps_a_part_by_address_has_no_figure_at_any_dtype(dtype):
    rows = found("keeps_weights_by_address", "plain", shape=SMALL.but(dtype=dtype))
    assert rows["keeps_weights_by_address"][0] == FAILED and rows["plain"][0] in MEASURED


def test_outputs_near_each_other_in_16_bits_are_not_taken_for_kept_ones():
    torch.manual_seed(0)
    first, other, last = ((1 + torch.randn(1, 1, 1, 64) / 64).bfloat16() for _ in range(3))
    check_rounds([sampled(other), sampled(last)], first, last)
    with pytest.raises(Wrong, match="it keeps outputs"):
        check_rounds([sampled(other), sampled(other)], first, other)


def test_what_writes_every_output_into_one_buffer_is_right():
    status, figures = found("reuses_its_output")["reuses_its_output"]
    assert status in MEASURED, figures


def test_every_built_in_of_a_scheme_is_measured_as_before_in_every_mode():
    for mode in ("forward", "forward_backward", "decode"):
        options = replace(ROUNDS, memory=True, rounds=1)
        for v, status, figures in measure(SMALL.but(mode=mode, causal=mode == "decode"), built_in("rope"), options):
            assert status in (*MEASURED, "unsupported"), (v.label, figures)
            assert "note" not in figures, (v.label, figures["note"])


REASONS = {
    "gives_nan": "its output has NaN in 3 of 640 numbers",
    "gives_nothing": "it returned None, not a tensor",
    "gives_two": "it returned tuple, not a tensor",
    "gives_a_part": "its output has shape [1, 2, 5, 8], expected [1, 2, 40, 8]",
    "interrupts": "KeyboardInterrupt: KeyboardInterrupt",
    "interrupts_at_its_fourth_call": "KeyboardInterrupt: KeyboardInterrupt",
}


@pytest.mark.parametrize("name", REASONS)
def test_what_is_no_output_is_told_in_words(name):
    rows = found(name, "plain")
    assert rows[name] == (FAILED, {"reason": REASONS[name]}) and rows["plain"][0] in MEASURED


def test_an_interrupt_of_a_variant_s_own_leaves_no_traceback(capfd):
    rows = {v.label: (s, f) for v, s, f in measure_isolated(SMALL, [theirs("interrupts")], ROUNDS)}
    assert rows["none/interrupts"] == (FAILED, {"reason": REASONS["interrupts"]})
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize("mode", ["forward", "forward_backward"])
def test_memory_that_grows_from_call_to_call_is_said(mode):
    rows = found("leaks", "plain", shape=SMALL.but(mode=mode), options=replace(ROUNDS, memory=True))
    said = rows["leaks"][1]["note"]
    assert said.startswith("leaks: 4") and said.endswith(" bytes more stay alive after every call")
    assert "note" not in rows["plain"][1]
