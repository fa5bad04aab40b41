"""Content-dependent schemes: memory by segments, segments that add a term, and what is right under a causal softmax only."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from golden_files import load
from judging import failing, plugged
from modules_by_definition import expected, module, tokens
from relpos.conformance.laws import law
from relpos.conformance.plan import Plan
from relpos.conformance.profiles import profile
from relpos.conformance.runner import PASS, replay
from relpos.impls import music_transformer, transformer_xl
from relpos.impls._skew import aligned, skewed, spread, unskewed
from relpos.spec.attention import attention, logits
from relpos.spec.music_transformer import MusicTransformer
from relpos.spec.positions import Explicit, Range
from relpos.spec.transformer_xl import TransformerXL
from spec_examples import drawn_params, drawn_qkv

H, D, L = 6, 4, 9
SMOKE = profile("smoke")
VARIANTS = ("transformer_xl", "learned", "bidirectional", "xlnet")


def same(got, wanted) -> None:
    np.testing.assert_allclose(np.asarray(got), wanted, rtol=1e-9, atol=1e-11)


def xl(variant: str, **limits) -> TransformerXL:
    return TransformerXL(H, D, variant=variant, max_distance=3, **limits)


def drawn(settings, length: int = L):
    rng = np.random.default_rng(8)
    return drawn_params(settings, rng), *drawn_qkv(rng, Lq=length, Lk=length)


# ---- memory


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(("segment", "memory"), [(3, 4), (4, 0), (2, 7)])
def test_segments_with_memory_are_the_attention_over_the_visible_past(variant, segment, memory):
    whole = xl(variant, memory_length=memory, segment_length=segment)
    params, q, k, v = drawn(whole)
    everything = attention(whole, params, q, k, v, Range(0, L), Range(0, L), causal=True)
    for start in range(0, L, segment):
        first, stop = max(start - memory, 0), min(start + segment, L)
        at = Range(start, stop - start), Range(first, stop - first)
        given = q[:, :, start:stop], k[:, :, first:stop], v[:, :, first:stop]
        same(attention(xl(variant), params, *given, *at, causal=True), everything[:, :, start:stop])


@pytest.mark.parametrize("limits", [{"segment_length": 3}, {"same_length": True}, {}], ids=str)
@pytest.mark.parametrize("chunks", [(3, 3, 3), (1, 4, 2, 2)], ids=str)
def test_a_decoder_keeps_what_is_seen_and_no_more(limits, chunks):
    settings = xl("transformer_xl", memory_length=4, **limits)
    params, q, k, v = drawn(settings)
    tensors = {name: torch.from_numpy(value) for name, value in params.items()}
    decoder, found, start = transformer_xl.Decoder(settings, tensors), [], 0
    for n in chunks:
        found.append(decoder.step(*(torch.from_numpy(x[:, :, start : start + n]) for x in (q, k, v))))
        start += n
    same(torch.cat(found, dim=2), attention(settings, params, q, k, v, Range(0, L), Range(0, L), causal=True))
    kept = decoder._memory[0].shape[2] if limits else decoder._cache.length
    assert kept == {"segment_length": 4, "same_length": 3}.get(next(iter(limits), ""), L)


def test_every_query_of_same_length_sees_as_many_keys():
    settings = xl("transformer_xl", memory_length=4, same_length=True)
    seen = np.isfinite(logits(settings, *drawn(settings)[:3], Range(0, L), Range(0, L)))[0, 0] & np.tri(L, dtype=bool)
    assert seen.sum(-1).tolist() == [min(i + 1, 4) for i in range(L)]


def test_a_row_that_memory_and_mask_empty_together_is_zero():
    it, x = module((xl("transformer_xl", memory_length=2, same_length=True),)), tokens()
    keeps = torch.ones(len(x), 1, x.shape[1], x.shape[1], dtype=torch.bool)
    keeps[:, :, 3, 2:] = False  # what is left lies two tokens back
    out = it(x, mask=keeps, mask_sense="true_keeps")
    same(out.detach(), expected(it, x, keeps=keeps.expand(-1, H, -1, -1)).detach())
    same(out[:, 3].detach(), it.output(torch.zeros_like(x[:, 3])).detach())
    out.sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in it.parameters())


# ---- XLNet's segments


def test_segments_add_a_term_and_hide_nothing():
    settings, rows = xl("xlnet", clamp_len=2), [[0, 0, 1, 1, 1], [0, 1, 0, 1, 2]]
    params, q, k, v = drawn(settings, 5)
    at = Explicit([range(5), range(3, 8)], segments=rows)
    positions, segments = torch.from_numpy(at.array()), torch.tensor(rows)
    tensors, (tq, tk, tv) = {n: torch.from_numpy(x) for n, x in params.items()}, map(torch.from_numpy, (q, k, v))
    told = {"query_segments": segments, "key_segments": segments}
    score = logits(settings, params, q, k, at, at)
    same(transformer_xl.logits(settings, tensors, tq, tk, positions, positions, **told), score)
    out = attention(settings, params, q, k, v, at, at, causal=True)
    same(transformer_xl.attention(settings, tensors, tq, tk, tv, positions, positions, causal=True, **told), out)
    untold = logits(settings, params, q, k, Explicit(at.array()), Explicit(at.array()))
    other = np.array(rows)[:, None, :, None] != np.array(rows)[:, None, None, :]
    of = [np.einsum("bhid,hd->bhi", q + params["seg_bias"][:, None], e)[..., None] for e in params["seg_embed"]]
    same(score - untold, np.where(other, of[1], of[0]) / 2)  # scale 1/√4


def test_segments_hide_in_the_other_variants():
    at = Explicit(range(4), segments=[0, 0, 1, 1])
    settings = xl("bidirectional")
    params, q, k, v = drawn(settings, 4)
    moved = v.copy()
    moved[:, :, :2] += 1
    change = attention(settings, params, q, k, moved, at, at) - attention(settings, params, q, k, v, at, at)
    assert (change[:, :, :2] != 0).all() and not change[:, :, 2:].any()


# ---- the skew


@pytest.mark.parametrize(("n", "m"), [(1, 1), (1, 4), (3, 3), (3, 7)])
def test_skew_equals_the_aligned_products_up_to_the_diagonal(n, m):
    x = torch.arange(1.0, n * m + 1).view(n, m)
    wide = torch.cat((x, torch.full((n, n), -1.0)), dim=-1)
    visible = torch.ones(n, m).tril(m - n).bool()
    assert torch.equal(skewed(x)[visible], aligned(wide, m)[visible])
    if n < m or n == 1:
        return
    assert not torch.equal(skewed(x), aligned(wide, m))  # article B's "exactly the same": the upper triangle is not
    weights = x.tril()
    assert torch.equal(unskewed(weights), spread(weights)[:, :n])


def test_the_published_skew_looks_into_the_future_without_a_mask():
    x = torch.arange(1.0, 17.0).view(4, 4)
    assert skewed(x).tolist() == [[4, 0, 5, 6], [7, 8, 0, 9], [10, 11, 12, 0], [13, 14, 15, 16]]


# ---- what articles say


def test_the_position_term_of_transformer_xl_depends_on_the_query():
    """Not "a learned scalar per relative distance": one distance, four queries, four values."""
    golden = load("transformer_xl__q5_m0_H2_dh4_dm8_clamp-1_causal.npz")
    terms = [golden["bd_shifted"][0, 0, i, i - 1] for i in range(1, 5)]
    assert len({round(float(term), 3) for term in terms}) == 4


def test_parameters_of_transformer_xl_are_no_table():
    """d_model · H · D in each layer, and u, v: not (2k + 1) · H."""
    sizes = {name: int(np.prod(shape)) for name, shape in TransformerXL(12, 64).parameters().items()}
    assert sizes == {"w_pos": 589_824, "pos_bias_u": 768, "pos_bias_v": 768}


def test_far_keys_have_no_vector_where_shaw_repeats_one():
    settings = MusicTransformer(1, D, 4)
    term = settings.logits(drawn_params(settings, np.random.default_rng(1)), np.ones((1, 17, D)), np.ones((1, 17, D)),
                           Range(0, 17), Range(0, 17), scale=1.0)[0]  # fmt: skip
    assert not term[np.tri(17, k=-4, dtype=bool)].any() and term[np.tri(17, dtype=bool) & ~np.tri(17, k=-4, dtype=bool)].all()


def test_a_table_is_only_as_long_as_it_must_be():
    settings = MusicTransformer(H, D, 20)
    params, q, k, v = (torch.from_numpy(x) if isinstance(x, np.ndarray) else x for x in drawn(settings, 5))
    params = {name: torch.from_numpy(value) for name, value in params.items()}
    short = {"rel_k": params["rel_k"][:, -5:]}
    same(
        music_transformer.attention_skew(settings, params, q, k, v),
        music_transformer.attention_skew(replace(settings, max_distance=5), short, q, k, v),
    )


def angle_sums(q, k, query_positions, key_positions, pos_bias_u, pos_bias_v, w_pos, settings):
    """sin(i − j) as sin i cos j − cos i sin j, which leaves 10⁻¹⁸ where the definition has 0."""
    H, D = pos_bias_u.shape
    θ = 10000.0 ** (-torch.arange(0, settings.width(), 2, dtype=torch.float64) / settings.width())
    i, j = query_positions.double()[:, None] * θ, key_positions.double()[:, None] * θ
    sines, cosines = torch.einsum("bhid,hde->bhie", q + pos_bias_v[:, None], w_pos.view(H, D, -1)).double().chunk(2, dim=-1)
    asked = torch.cat((sines * i.sin() + cosines * i.cos(), cosines * i.sin() - sines * i.cos()), -1)
    term = (asked @ torch.cat((j.cos(), j.sin()), -1).T).to(q.dtype)
    return ((q + pos_bias_u[:, None]) @ k.transpose(-1, -2) + term) * D**-0.5


def test_waves_of_a_distance_may_come_of_waves_of_positions():
    plain = {
        "variant": "transformer_xl",
        "clamp_len": None,
        "memory_length": None,
        "segment_length": None,
        "same_length": False,
    }
    subject = plugged(angle_sums, "transformer_xl", given=plain, level="logits")
    one = {"num_heads": 1, "head_dim": 2, **plain}
    at = {"query_positions": (1, 4), "key_positions": (1, 3), "query_length": 2, "key_length": 2}
    for content in ("normal", "one_hot"):
        for seed in range(20):
            assert replay(law("L2"), subject, Plan(settings=one, content=content, seed=seed, **at)).verdict == PASS
    assert not failing(subject, "L1", "L2")
