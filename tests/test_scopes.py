"""Small scopes are walked through whole: as many inputs as the formula says, and one wrong point is found wherever it lies."""

from dataclasses import replace
from itertools import pairwise

import pytest

import strangers_scopes as s
from judging import plugged, tried
from relpos.conformance import rows
from relpos.conformance.console import _detail
from relpos.conformance.judge import LawFailure
from relpos.conformance.laws import law
from relpos.conformance.plan import Plan
from relpos.conformance.profiles import ALL, CLAIMED, FEW, PROFILES, Profile
from relpos.conformance.runner import FAIL, PASS, run_law
from relpos.conformance.scopes import chunkings, sizes
from relpos.conformance.subject import Subject
from relpos.impls import beit, clipped, deberta, rope, swin, t5
from relpos.spec.clipped import Clipped
from relpos.spec.deberta import DeBERTa
from relpos.spec.rope import RoPE
from relpos.spec.t5 import T5

OWN = {"heads": "own", "sign": "query_minus_key", "directions": "both", "beyond": "repeat"}
BOTH_WAYS = {"bidirectional": True, "sign": "key_minus_query", "cross_attention": False, "score_scale": "none"}


def walked(name: str, subject: Subject, scope=CLAIMED) -> list[Plan]:
    return law(name).exhausted(subject, scope)


def first_failure(name: str, subject: Subject, plans: list[Plan]) -> LawFailure | None:
    for plan in plans:
        try:
            law(name).check(subject, plan)
        except LawFailure as failure:
            return failure
    return None


# ---- how many there are


@pytest.mark.parametrize("most", range(1, 8))
def test_tokens_are_cut_in_every_way(most):
    found = chunkings(most)
    assert len(set(found)) == len(found) == sum(2 ** (n - 1) for n in range(1, most + 1))
    assert {sum(chunks) for chunks in found} == set(range(1, most + 1)) and min(map(min, found)) == 1


def test_every_size_comes_at_every_offset_both_causal_and_not():
    found = {(p.query_length, p.key_length, p.query_positions[0], p.causal) for p in sizes(plugged(t5.attention), CLAIMED)}
    assert found == {(q, k, o, c) for q in range(1, 7) for k in range(1, 7) for o in range(7) for c in (False, True)}


def test_what_is_told_an_offset_gets_all_that_end_within_the_keys():
    found = {(p.query_length, p.key_length, p.offset) for p in sizes(plugged(t5.CachedBias), CLAIMED)}
    assert found == {(q, k, o) for k in range(1, 7) for q in range(1, k + 1) for o in range(k - q + 1)}


def test_a_walk_goes_from_small_to_large():
    for name, subject in (("L1", plugged(t5.attention)), ("L3", plugged(t5.attention)), ("L13", plugged(swin.bias))):
        cells = [plan.query_length * plan.key_length for plan in walked(name, subject)]
        assert cells == sorted(cells)


def test_every_small_setting_has_its_turn():
    seen = {(name, value) for plan in walked("L1", plugged(rope.rotate)) for name, value in plan.settings.items()}
    assert {("scaling", group["scaling"]) for group in RoPE.bundles} <= seen and ("layout", "half") in seen
    assert {("num_buckets", n) for n in (8, 4, 16, 9)} <= {
        i for p in walked("L1", plugged(t5.Decoder)) for i in p.settings.items()
    }


@pytest.mark.parametrize("target", [swin.bias, swin.attention, beit.bias])
def test_all_49_windows_are_walked(target):
    found = [plan.settings["window_size"] for plan in walked("L13", plugged(target))]
    assert sorted(found) == [(h, w) for h in range(1, 8) for w in range(1, 8)]


@pytest.mark.parametrize(
    ("target", "claims", "scope", "each_side"),
    [(t5.bias, {"max_position": 2**17}, CLAIMED, 2**17), (t5.CachedBias, {}, ALL, 2**20), (t5.attention, {}, ALL, 2**20)],
)
def test_every_distance_that_is_claimed_is_walked(target, claims, scope, each_side):
    plans = walked("L12", plugged(target, **claims), scope)
    main = [p.extra for p in plans if p.settings == {"num_heads": 1, "bidirectional": True}]
    for side in ("before", "after"):
        spans = sorted((e["nearest"], e["farthest"]) for e in main if e["side"] == side)
        assert spans[0][0] == 0 and spans[-1][1] == each_side
        assert all(b[0] == a[1] + 1 for a, b in pairwise(spans))


def test_a_profile_walks_as_far_as_it_says():
    assert PROFILES["smoke"].scope is None and PROFILES["quick"].scope == FEW
    assert (PROFILES["default"].scope, PROFILES["thorough"].scope) == (CLAIMED, ALL)
    assert (CLAIMED.length, CLAIMED.window, CLAIMED.distance) == (6, 7, 2**17) and ALL.distance == 2**20


def test_what_was_walked_is_said_and_counted():
    subject = plugged(clipped.bias, given=OWN, max_position=2**14)
    profile = Profile("walk", 2, 3, "", scope=replace(CLAIMED, others=2**10))
    notes = []
    result = run_law(law("L12"), subject, profile, journal=lambda one, plan: notes.append(plan))
    assert result.verdict == PASS
    assert result.covered == "32,769 distances of 2 tables and 2,053 distances of 1 table"
    assert _detail(result, "contribution").startswith(f"{result.inputs} inputs, exact, all of {result.covered}")
    assert len(notes) == result.inputs >= len(walked("L12", subject, profile.scope))


# ---- one wrong point


@pytest.mark.parametrize("target", [s.one_distance, s.one_distance_by_offset, s.one_distance_weighed, s.hidden_key])
def test_one_wrong_distance_is_found(target):
    level = "attention" if target in (s.one_distance_weighed, s.hidden_key) else "contribution"
    subject = plugged(target, "t5", given=BOTH_WAYS, level=level)
    assert tried(subject, "L12")["L12"].verdict == PASS  # drawn inputs miss it
    result = tried(subject, "L12", profile_name="default")["L12"]
    reads = "nothing, as if the key were hidden," if target is s.hidden_key else "row 14"
    assert result.reason == f"at key − query = -77777 head 0 reads {reads} in place of row 15"
    assert dict(result.failure.plan.extra) == {"nearest": s.AT, "farthest": s.AT, "side": "before"}
    assert first_failure("L12", subject, [result.failure.plan]) is not None


def test_one_wrong_window_is_found():
    subject = plugged(s.one_window, "swin")
    plans = walked("L13", subject, replace(CLAIMED, window=7))
    failure = first_failure("L13", subject, plans)
    assert failure is not None and failure.plan.settings["window_size"] == (5, 7)
    assert first_failure("L13", subject, [p for p in plans if p.settings["window_size"] != (5, 7)]) is None


def test_one_wrong_size_is_found():
    failure = first_failure("L1", plugged(s.one_size, "clipped"), walked("L1", plugged(s.one_size, "clipped")))
    assert failure is not None and (failure.plan.query_length, failure.plan.key_length) == (5, 6)
    assert failure.plan.query_positions == (1, 2, 3, 4, 5)


def test_one_wrong_chunk_is_found_in_its_smallest_chunking():
    subject = plugged(s.one_chunking, "clipped", given=OWN, level="attention", softmax="causal")
    failure = first_failure("L3", subject, walked("L3", subject))
    assert failure is not None and failure.plan.extra["chunks"] in ((1, 1, 1, 2), (1, 2, 2), (2, 1, 2), (3, 2))


def test_the_first_failure_of_a_walk_is_the_verdict():
    result = run_law(law("L13"), plugged(s.one_window, "swin"), Profile("walk", 2, 3, "", scope=CLAIMED))
    assert result.verdict == FAIL and result.failure.plan.settings["window_size"] == (5, 7)


# ---- the definition's steps

STEPPED = [
    T5(num_heads=1), T5(num_heads=1, bidirectional=False), T5(num_heads=1, num_buckets=33),
    Clipped(num_heads=1, max_distance=4), Clipped(num_heads=1, max_distance=3, directions="past", beyond="zero"),
    Clipped(num_heads=1, max_distance=0), DeBERTa(1, 1, max_distance=20, version="v2", num_buckets=7),
    DeBERTa(1, 1, max_distance=32, version="v2", clamp=True),
]  # fmt: skip


@pytest.mark.parametrize("settings", STEPPED, ids=str)
@pytest.mark.parametrize("side", ["before", "after"])
def test_rows_by_steps_are_rows_one_by_one(settings, side):
    for name, (_, row) in rows.tables(settings).items():
        starts, read = rows.steps(settings, name, side, 2**17)
        stepped = {int(d): int(r) for d, r in zip(starts, read, strict=True)}
        now = None
        for d in range(2000):
            now = stepped.get(d, now)
            found = row(d, 0) if side == "before" else row(0, d)
            assert now == (rows.NOTHING if found is None else found)


@pytest.mark.exhaustive
@pytest.mark.parametrize("settings", [T5(num_heads=1, **said) for said in T5.published], ids=str)
def test_rows_by_steps_are_rows_one_by_one_up_to_2_17(settings):
    starts, read = rows.steps(settings, "table", "before", 2**17)
    for n, start in enumerate(starts):
        last = starts[n + 1] - 1 if n + 1 < len(starts) else 2**17
        assert all(settings.row(d, 0) == read[n] for d in range(start, last + 1))


@pytest.mark.parametrize("target", [deberta.attention, clipped.attention])
def test_right_attention_reads_every_row_near_an_edge(target):
    given = {"max_distance": 20, "version": "v2", "num_buckets": 7} if target is deberta.attention else {"max_distance": 4}
    subject = plugged(target, given=given)
    plans = walked("L12", subject, replace(CLAIMED, distance=2000, others=2000, edges=2000))
    assert plans and first_failure("L12", subject, plans) is None
