"""DeBERTa: other people's code conforms or is told what it does; buckets are exact; shared projections are the attention's."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import strangers_deberta as s
from golden_deberta import settings_of
from golden_files import Match, assert_same, load, names
from judging import complaint, failing, plugged, tried
from modules_by_definition import LQ, B, D, E, H, module, tokens
from relpos.conformance.gradients import prescribed
from relpos.conformance.plan import Plan, inputs
from relpos.conformance.profiles import PROFILES
from relpos.conformance.verdict import judge
from relpos.impls import _deberta_rows as rows
from relpos.impls.modules import MultiHeadAttention
from relpos.spec import attention as spec
from relpos.spec.deberta import DeBERTa
from relpos.spec.positions import Range

SMOKE = PROFILES["smoke"]
NAMES = [one.name for one in SMOKE.laws()]
V1 = {"version": "v1", "terms": "both", "indices": "code", "share_att_key": False}
V2 = {**V1, "version": "v2", "max_distance": 16, "num_buckets": 8, "clamp": False}
RELEASED = {**V2, "max_distance": 512, "num_buckets": 256}


# ---- other people's


@pytest.mark.parametrize("given", [V1, {**V1, "terms": "c2p"}, {**V1, "terms": "p2c"}, V2], ids=str)
def test_hugging_faces_terms_conform_as_published(given):
    assert not failing(plugged(s.hugging_face, "deberta", level="logits", given=given), *NAMES, profile_name="smoke")


def test_hugging_faces_float32_logarithm_conforms_at_the_released_sizes():
    assert not failing(plugged(s.hugging_face, "deberta", level="logits", given=RELEASED), "L1", "L2", "L12")


def test_the_articles_formula_is_told_both_of_its_mistakes():
    verdict = judge(plugged(s.article, "deberta", level="logits", given=V1), SMOKE)
    assert verdict.diagnosis is not None
    assert verdict.diagnosis.like == (
        "K^r at δ(j, i) and Q^r at δ(i, j), as an article has it, and with 1/√(2D) with both terms, as articles have it",
    )


def test_the_articles_divisor_is_told_apart():
    result = tried(plugged(s.two_terms, "deberta", level="logits", given=V1), "L29")["L29"]
    assert result.reason == "1/√(2D) is applied, which this scheme does not have here"


def test_the_articles_matrices_do_not_add_up():
    assert "could not be called on ordinary inputs" in complaint(
        lambda: plugged(s.ungathered, "deberta", level="logits", given=V1)
    )


def test_the_papers_indices_are_right_by_name():
    given = {**V1, "indices": "paper"}
    assert not failing(plugged(s.paper, "deberta", level="logits", given=given), *NAMES, profile_name="smoke")
    verdict = judge(plugged(s.paper, "deberta", level="logits", given={n: V1[n] for n in V1 if n != "indices"}), SMOKE)
    assert verdict.diagnosis is not None and verdict.diagnosis.settings == ("indices=paper",)


# ---- buckets


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(("N", "M"), [(256, 512), (128, 512), (6, 16), (7, 20), (20, 64), (24, 100), (64, 1024), (5, 9)])
def test_a_rounded_logarithm_is_off_by_one_bucket_at_the_end_of_one_if_at_all(N, M, dtype):
    """Where it is off depends on the processor's logarithm, so nothing more is said; at the released sizes it never is."""
    settings, r = DeBERTa(1, 1, M, version="v2", num_buckets=N), torch.arange(M)
    exact = torch.tensor([settings.bucket(int(n)) for n in r])
    found = s.log_bucket(r, N, M, dtype)
    ends = torch.tensor(rows.bucket_ends(N, M))
    assert ((found - exact) * (found - exact - 1) == 0).all() and torch.isin(r[found != exact], ends).all()
    assert (N, M) != (256, 512) or torch.equal(found, exact)


def test_a_bucket_does_not_depend_on_the_length():
    """B057."""
    settings = DeBERTa(1, 1, 16, version="v2", num_buckets=8)
    assert settings.bucket(6) == 5
    assert replace(settings, max_distance=8).bucket(6) == 7


@pytest.mark.parametrize("clamp", [False, True])
@pytest.mark.parametrize(("N", "M"), [(256, 512), (6, 16), (7, 20), (2, 3), (3, 9), (4, 4), (130, 67)])
def test_the_fast_rows_are_the_definitions(N, M, clamp):
    settings = DeBERTa(1, 1, M, version="v2", num_buckets=N, clamp=clamp)
    r = [*range(-2 * M, 2 * M + 1), 10**5, -(10**5), 2**40, -(2**40)]
    assert rows.rows(settings, torch.tensor(r)).tolist() == [settings.row(d, 0) for d in r]


def test_row_0_is_read_from_m_on_unless_distances_are_clamped():
    released = DeBERTa(1, 1, 16, version="v2")
    assert [released.row(0, j) for j in (14, 15, 16, 99)] == [1, 1, 0, 0]
    assert [replace(released, clamp=True).row(0, j) for j in (15, 16, 99)] == [1, 1, 1]


def test_rows_of_fewer_queries_are_slices_of_the_square():
    """B054, with the positions the authors' code has."""
    settings = DeBERTa(1, 1, 2)
    assert np.array_equal(settings.rows(Range(0, 3), Range(0, 2)), settings.rows(Range(0, 3), Range(0, 3))[:, :2])


# ---- shared projections

SHARED = DeBERTa(H, D, 2, share_att_key=True)
PROJECTED = [n for n in names() if n.startswith("deberta_v2") and "rel_emb" in load(n).arrays]


@pytest.mark.parametrize("name", PROJECTED)
def test_the_authors_tables_are_their_embeddings_projected_with_a_bias(name):
    golden, found = load(name), {}
    P = golden["rel_emb"]
    with_one = np.concatenate([P, np.ones((len(P), 1))], axis=1)
    for side in ("key", "query"):
        table = golden[f"pos_{side}"].transpose(1, 0, 2).reshape(len(P), -1)
        solved = np.linalg.lstsq(with_one, table, rcond=None)[0]
        found |= {f"w_{side}": solved[:-1].T, f"b_{side}": solved[-1]}
    settings = replace(settings_of(golden), share_att_key=True)
    at = Range(0, golden["q"].shape[2]), Range(0, golden["k"].shape[2])
    score = spec.logits(settings, {"rel_embeddings": P, **found}, golden["q"], golden["k"], *at)
    # A solution of least squares is as good as its matrix is conditioned: ten times what a logit is allowed.
    assert_same(Match(settings, score, magnitude=10 * np.abs(golden["logits"]).max()), golden["logits"], name)


@pytest.mark.parametrize("terms", ["both", "c2p", "p2c"])
def test_a_module_projects_its_tables_as_queries_and_keys(terms):
    it, x = module(replace(SHARED, terms=terms)), tokens()
    part = it.schemes["deberta"]
    assert [n for n, _ in part.named_parameters()] == ["rel_embeddings"]
    table = part.rel_embeddings
    split = lambda y: y.unflatten(-1, (H, D)).transpose(-2, -3).detach().numpy()  # noqa: E731
    params = {"pos_key": split(it.key(table)), "pos_query": split(it.query(table))}
    plain = replace(SHARED, terms=terms, share_att_key=False)
    q, k, v = (split(linear(x)) for linear in (it.query, it.key, it.value))
    at = (Range(0, LQ), Range(0, LQ))
    wanted = spec.attention(plain, {n: params[n] for n in plain.parameters()}, q, k, v, *at)
    wanted = it.output(torch.from_numpy(wanted).transpose(1, 2).flatten(2))
    torch.testing.assert_close(it(x), wanted, rtol=1e-9, atol=1e-11)


def test_a_shared_projection_learns_from_tokens_and_from_positions():
    it, x = module(SHARED), tokens()
    it(x).square().sum().backward()
    together = it.key.weight.grad.clone()
    with torch.no_grad():
        table = it.schemes["deberta"].rel_embeddings
        assert table.grad is not None and table.grad.any()
        table.zero_()
    it.zero_grad()
    it(x).square().sum().backward()
    assert not torch.equal(together, it.key.weight.grad)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"num_kv_heads": 3}, "`num_kv_heads` must be num_heads = 6 with tables of deberta"),
        ({"bias": False}, "`bias` must be True with tables of deberta"),
    ],
    ids=["groups", "no bias"],
)
def test_projections_that_do_not_fit_are_refused(options, says):
    with pytest.raises(ValueError, match=says):
        MultiHeadAttention(E, SHARED, num_heads=H, **options)


def test_steps_of_a_shared_projection_are_rows_of_the_whole():
    it, x = module(SHARED, causal=True), tokens()
    torch.testing.assert_close(torch.cat([it.step(part) for part in x.split(2, dim=1)], dim=1), it(x))


def test_prescribed_gradients_of_projected_tables_are_finite_differences():
    """They enter in products: the others are held at their values."""
    plan = Plan(
        settings={"num_heads": 2, "head_dim": 2, "max_distance": 2, "share_att_key": True}, seed=4, dtype="float64"
    ).but(batch=B, heads=2, head_dim=2, query_length=3, key_length=4, offset=1)
    given = inputs(plan, "deberta")
    g = np.random.default_rng(1).standard_normal((B, 2, 3, 4))

    def total(params):
        score = spec.logits(given.settings, params, given.q, given.k, given.query_positions, given.key_positions)
        return float((score * g).sum())

    for name, table in given.params.items():
        want = prescribed(given, "logits", (name,), {"logits": g})[name].value
        for cell in ((0,) * table.ndim, tuple(n - 1 for n in table.shape)):
            step = np.zeros_like(table)
            step[cell] = 2.0**-10
            ahead, behind = (total({**given.params, name: table + sign * step}) for sign in (1, -1))
            # bilinear: a central difference is exact up to rounding of 2⁻⁵² / step of totals of some tens
            assert abs((ahead - behind) / 2.0**-9 - want[cell]) < 2.0**-34
