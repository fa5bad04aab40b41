"""Faults of the judge itself: each mutant is a judge that has gone blind, lenient or harsh, and a watch that notices it.

A watch is a verdict that must come out in one way. It does with the judge as it is, and does not with the mutant.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import torch

import culprits
import strangers
import strangers_attention
from judging import plugged, tried
from relpos.conformance import judge as judging_module
from relpos.conformance import precision, runner, searching, tolerance, verdict
from relpos.conformance.expected import Expected
from relpos.conformance.laws import laws
from relpos.conformance.profiles import PROFILES, Profile
from relpos.conformance.runner import FAIL, PASS, REFUSED, LawResult
from relpos.conformance.verdict import Verdict, judge
from relpos.impls.card import implements

SMOKE = PROFILES["smoke"]
Patch = Callable[[pytest.MonkeyPatch], None]
Watch = Callable[[], bool]


# ---- implementations that are wrong by little, wrong in one place, or right in an unusual way


def penalty_times(factor):
    @implements("alibi")
    def bias(num_heads, query_positions, key_positions):
        return strangers.penalty(num_heads, query_positions, key_positions) * factor

    return bias


@implements("alibi")
def nan_far_away(num_heads, query_positions, key_positions):
    found = strangers.penalty(num_heads, query_positions, key_positions)
    return torch.where((query_positions[:, None] - key_positions).abs() == 3, torch.nan, found)


@implements("alibi")
def wrong_but_for_the_first_head(num_heads, query_positions, key_positions):
    found = strangers.penalty(num_heads, query_positions, key_positions).clone()
    found[1:] *= 1.5
    return found


@implements("alibi")
def wrong_far_out(num_heads, query_positions, key_positions):
    distance = (query_positions[:, None] - key_positions).abs()
    return -torch.tensor(strangers.slopes(num_heads)).view(-1, 1, 1) * distance.clamp(max=250)


@implements("alibi")
def raises_at_one_head(num_heads, query_positions, key_positions):
    if num_heads == 1:
        raise IndexError("one")
    return strangers.penalty(num_heads, query_positions, key_positions)


def sinusoids(embed_dim, positions):
    angles = positions[:, None] * 10000.0 ** (-torch.arange(0, embed_dim, 2, dtype=torch.float64) / embed_dim)
    return torch.cat([angles.sin(), angles.cos()], -1)[:, :embed_dim].float()


@implements("sinusoidal", settings={"layout": "halves"}, dtypes=("float64",))
def single_where_double_is_claimed(embed_dim, positions):
    return sinusoids(embed_dim, positions).double()


@implements("sinusoidal", settings={"layout": "halves"})
def a_little_loud(embed_dim, positions):
    return sinusoids(embed_dim, positions) * (1 + 2.0**-12)


def declines_all_but_the_first():
    calls = []

    def bias(num_heads, query_positions, key_positions):
        calls.append(num_heads)
        if len(calls) > 1:
            raise ValueError(f"num_heads = {num_heads} is not to its liking")
        return strangers.penalty(num_heads, query_positions, key_positions)

    return bias


# ---- watches


def sees(target) -> Watch:
    return lambda: tried(plugged(target), "L1", profile_name="smoke")["L1"].verdict == FAIL


def quiet(target) -> Watch:
    return lambda: tried(plugged(target), "L1", profile_name="smoke")["L1"].verdict == PASS


def every_law_is_asked() -> bool:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verdict, "run_law", lambda law, *given, **more: LawResult(law, PASS))
        found = judge(plugged(RIGHT), SMOKE, explain=False)
    return {r.law.name for r in found.results} == {one.name for one in laws() if not one.heavy}


def a_failing_law_is_no_pass() -> bool:
    return judge(plugged(penalty_times(1.5)), SMOKE, explain=False).exit_code == 1


def what_is_refused_is_no_pass() -> bool:
    return tried(plugged(declines_all_but_the_first(), "alibi"), "L1", profile_name="smoke")["L1"].verdict == REFUSED


# ---- mutants


def everywhere(patch: pytest.MonkeyPatch, original: object, mutant: object) -> None:
    """Replace a function in every module of the judge that has imported it."""
    for name, module in list(sys.modules.items()):
        if name.startswith("relpos.conformance"):
            for attribute, value in list(vars(module).items()):
                if value is original:
                    patch.setattr(module, attribute, mutant)


def bounded_by(bound: Callable[[Expected], float]) -> Patch:
    return lambda patch: everywhere(patch, judging_module.bound_of, lambda want, dtype: np.full(want.value.shape, bound(want)))


def compares(change: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Patch:
    """A comparison that is given something else than what came."""
    original = judging_module.compare_within

    def mutant(got, value, bound, **more):
        return original(change(np.asarray(got, dtype=np.float64), value), value, bound, **more)

    return lambda patch: everywhere(patch, original, mutant)


def in_all(constant: float) -> Patch:
    def mutate(patch: pytest.MonkeyPatch) -> None:
        for kind in tolerance.C:
            patch.setitem(tolerance.C, kind, constant)

    return mutate


def numbers_only(got: np.ndarray, value: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(got), value, got)


def first_only(got: np.ndarray, value: np.ndarray) -> np.ndarray:
    found = np.array(np.broadcast_to(value, got.shape))
    found[:1] = got[:1]
    return found


def skips(attribute: str) -> Patch:
    return lambda patch: patch.setattr(runner, attribute, lambda *given, **more: None)


def without_law(name: str) -> Patch:
    kept = Profile.laws
    return lambda patch: patch.setattr(Profile, "laws", lambda self: tuple(one for one in kept(self) if one.name != name))


def forgives(error: type[Exception]) -> Patch:
    original = searching.attempt

    def mutant(*given):
        try:
            return original(*given)
        except error:
            return 0.0

    return lambda patch: everywhere(patch, original, mutant)


def demands_nothing(patch: pytest.MonkeyPatch) -> None:
    everywhere(patch, judging_module.demand, lambda comparison, says, plan, **facts: comparison.largest)


def takes_refusals(patch: pytest.MonkeyPatch) -> None:
    everywhere(patch, runner.REFUSED, PASS)


def no_failures(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Verdict, "failures", property(lambda self: ()))


@dataclass(frozen=True)
class Mutant:
    """A judge gone wrong, and the watch that notices."""

    says: str
    mutate: Patch
    watch: Watch


RIGHT = implements("alibi")(strangers.by_positions)
ATTENTION = implements("none")(strangers_attention.plain)
TINY_ERROR = penalty_times(1 + 2.0**-16)  # hundreds of roundings
MUTANTS = [
    Mutant("compares nothing", compares(lambda got, value: value), sees(culprits.clipped)),
    Mutant("demands nothing", demands_nothing, sees(culprits.clipped)),
    Mutant("has an absolute tolerance that forgives", bounded_by(lambda want: 1e-3), sees(a_little_loud)),
    Mutant("has an absolute tolerance that accuses", bounded_by(lambda want: 1e-9), quiet(ATTENTION)),
    Mutant("measures by the largest value", bounded_by(lambda want: 1e-5 * np.abs(want.value).max()), sees(TINY_ERROR)),
    Mutant("measures float64 as float32", lambda patch: everywhere(patch, precision.unit_roundoff, lambda dtype: 2.0**-24),
           sees(single_where_double_is_claimed)),
    Mutant("allows a hundred times more", in_all(1600.0), sees(TINY_ERROR)),
    Mutant("allows nothing", in_all(0.0), quiet(ATTENTION)),
    Mutant("takes NaN for a number", compares(numbers_only), sees(nan_far_away)),
    Mutant("looks at the first head only", compares(first_only), sees(wrong_but_for_the_first_head)),
    Mutant("takes a refusal for a pass", takes_refusals, what_is_refused_is_no_pass),
    Mutant("leaves out pinned inputs", skips("_pinned"), sees(wrong_far_out)),
    Mutant("leaves out drawn inputs", skips("drawn"), sees(raises_at_one_head)),
    Mutant("forgives a law", forgives(judging_module.LawFailure), sees(culprits.clipped)),
    Mutant("reports no failure", no_failures, a_failing_law_is_no_pass),
    *(Mutant(f"skips {one.name}", without_law(one.name), every_law_is_asked) for one in laws() if not one.heavy),
]  # fmt: skip
every_mutant = pytest.mark.parametrize("mutant", MUTANTS, ids=[m.says.replace(" ", "-") for m in MUTANTS])


@every_mutant
def test_a_judge_gone_wrong_is_noticed(mutant, monkeypatch):
    mutant.mutate(monkeypatch)
    assert not mutant.watch(), f"nobody notices a judge that {mutant.says}"


@pytest.mark.parametrize("watch", {id(m.watch): m.watch for m in MUTANTS}.values())
def test_the_judge_as_it_is_passes_every_watch(watch):
    assert watch()


def test_every_law_of_the_design_is_there():
    assert [one.number for one in laws()] == list(range(1, 32))
