"""Rotations as implemented and as judged: decodes across a threshold, tables, modules, graphs, ports in float32."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from judging import failing, plugged
from modules_by_definition import LQ, D, E, H, expected, module, tokens
from relpos.conformance.faults.registry import faults
from relpos.conformance.laws import law
from relpos.conformance.planting import plant
from relpos.conformance.profiles import profile
from relpos.conformance.runner import run_law
from relpos.impls import rope, xpos
from relpos.spec.alibi import ALiBi
from relpos.spec.attention import attention
from relpos.spec.positions import Range
from relpos.spec.rope import RoPE
from relpos.spec.xpos import XPos
from test_rotations import DYNAMIC, RULES, dependent

RULED = ("L1", "L2", "L14", "L15", "L17")


@dependent
def test_a_decode_across_the_threshold_is_the_whole_at_every_length(settings):
    q, k, v = np.random.default_rng(0).standard_normal((3, 1, 2, 8, D))
    decoder, start = {RoPE: rope, XPos: xpos}[type(settings)].Decoder(settings), 0
    for n in (2, 3, 4, 8):
        got = decoder.step(*(torch.from_numpy(x[:, :, start:n]) for x in (q, k, v)))
        whole = attention(settings, {}, *(x[:, :, :n] for x in (q, k, v)), Range(0, n), Range(0, n), causal=True)
        np.testing.assert_allclose(got, whole[:, :, start:], rtol=1e-12, atol=1e-13)
        start = n


@pytest.mark.parametrize("settings", [*(RoPE(8, **rule) for rule in RULES.values()), XPos(8)], ids=str)
def test_one_graph_serves_every_length(settings):
    def attend(q, at):
        return impl.attention(settings, q, q, q, at, at, causal=True)

    impl = xpos if isinstance(settings, XPos) else rope
    compiled = torch.compile(attend, backend="eager", fullgraph=True, dynamic=True)
    for L in (5, 9):
        q, at = torch.randn(2, 3, L, 8, generator=torch.Generator().manual_seed(L)), torch.arange(L)
        torch.testing.assert_close(compiled(q, at), attend(q, at))


def test_a_table_belongs_to_one_length():
    settings, x = DYNAMIC, torch.ones(1, 2, D, dtype=torch.float64)
    kept = rope.Rotary(settings)
    for n in (9, 2, 40, 3, 9):
        assert torch.equal(kept(x, 0, sequence_length=n), rope.Rotary(settings)(x, 0, sequence_length=n))
        held = kept._table
        kept(x, 1, sequence_length=n)
        assert kept._table is held  # not begun anew for the same length


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("schemes", [(DYNAMIC,), (ALiBi(H), DYNAMIC), (ALiBi(H), XPos(D, scale_base=4.0))], ids=str)
def test_a_module_places_queries_and_keys_in_one_context(schemes, causal):
    it, x = module(schemes, causal=causal), tokens()
    torch.testing.assert_close(it(x), expected(it, x), rtol=1e-9, atol=1e-11)
    rows = torch.tensor([[3, 4, 5, 6, 7], [0, 2, 1, 1, 2]])
    torch.testing.assert_close(it(x, positions=rows), expected(it, x, positions=rows), rtol=1e-9, atol=1e-11)
    assert it.embed_dim == E and x.shape[1] == LQ > DYNAMIC.max_position


def test_steps_of_a_module_are_rows_of_the_whole_at_that_length():
    it, x = module((DYNAMIC,), causal=True), tokens()
    for i, j in ((0, 2), (2, 3), (3, 5)):
        torch.testing.assert_close(it.step(x[:, i:j]), it(x[:, :j])[:, i:j], rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_hugging_faces_llama_is_right_under_every_rule(layout):
    """A float32 port, frequencies in float32 too, is not accused; without the rule it is."""

    def rotate(x, positions, *, scaled):
        θ = torch.tensor(scaled.frequencies(), dtype=torch.float32)
        angles, μ = positions[:, None].float() * θ, float(scaled.gains(Range(0, 1), "query")[0, 0])
        c, s = angles.cos() * μ, angles.sin() * μ
        a, b = (x[..., 0::2], x[..., 1::2]) if layout == "interleaved" else x.chunk(2, dim=-1)
        turned = a * c - b * s, a * s + b * c
        return torch.cat(turned, -1) if layout == "half" else torch.stack(turned, -1).flatten(-2)

    for rule in (name for name in RULES if name != "dynamic"):
        given = {"head_dim": 16, "layout": layout, **RULES[rule]}
        settings = RoPE(**given)
        right = lambda x, positions, s=settings: rotate(x, positions, scaled=s)  # noqa: E731
        right.__relpos__ = {"scheme": "rope"}
        assert not failing(plugged(right, given=given, binds=()), *RULED, profile_name="smoke"), rule
        plain = replace(settings, layout=layout, factor=2 * settings.factor)
        wrong = lambda x, positions, s=plain: rotate(x, positions, scaled=s)  # noqa: E731
        wrong.__relpos__ = {"scheme": "rope"}
        assert "L17" in failing(plugged(wrong, given=given), "L17"), rule


# ---- what is said of a wrong magnitude

MAGNITUDES = {
    "magnitude-missing": "the magnitude 1.139 of scaling=yarn is not applied",
    "magnitude-squared": "the magnitude 1.139 of scaling=yarn is applied twice",
    "magnitude-on-queries": "the magnitude 1.139 of scaling=yarn is applied to queries alone",
    "final-magnitude-again": "the magnitude 0.9 of scaling=yarn is multiplied by 1.139 again",
    "final-magnitude-dropped": "the magnitude 0.9 of scaling=yarn is not used, 1.139 is",
    "ratio-as-single": "the magnitude 1 of scaling=yarn is not used, 1.369 is",
}


@pytest.mark.parametrize("level", ["contribution", "logits", "attention"])
@pytest.mark.parametrize("name", MAGNITUDES)
def test_a_wrong_magnitude_is_told_in_words(name, level):
    (fault,) = [fault for fault in faults("rope") if fault.name == name]
    found = run_law(law("L17"), plant("rope", level, fault), profile("smoke"), shrink=False)
    assert found.reason == MAGNITUDES[name]
