"""What is made of samples: ratios round by round, stability, growth with its interval, changes between two runs."""

import numpy as np
import pytest

from perf_rows import GROWTHS, pretended
from relpos.perf import timing
from relpos.perf.compare import NOTHING, SLOWER, OtherMachine, changes, exit_code
from relpos.perf.growth import growth_lines, growths
from relpos.perf.point import CONTROL, LIMIT, Shape, Variant
from relpos.perf.rows import OK, OOM, row
from relpos.perf.scaling import against_claim, claimed_exponent, fit
from relpos.perf.timing import Timed, floor, interleaved, ratio

LENGTHS = (512, 1024, 2048, 4096)


# ---- timing


@pytest.fixture
def clock(monkeypatch):
    """A clock that only a call moves: each takes as many ms as it says, times the round's own slowness."""
    now = [0.0]
    monkeypatch.setattr(timing, "TIMER", lambda: now[0])
    monkeypatch.setattr(timing, "resolution_ns", lambda: 1.0)

    def taking(ms, slowness=lambda number: 1.0):
        def fresh(number):
            def call():
                now[0] += ms * slowness(number) * 1e6

            return call

        return fresh

    return taking


def test_every_round_has_every_variant_once_in_changing_order(clock):
    order = []

    def noted(label):
        def fresh(number):
            order.append((number, label))
            return clock(1.0)(number)

        return fresh

    interleaved({label: noted(label) for label in "abcd"}, rounds=6, seed=1)
    rounds = [[label for number, label in order[8:]][n * 4 : n * 4 + 4] for n in range(6)]
    assert all(sorted(one) == list("abcd") for one in rounds)
    assert len({tuple(one) for one in rounds}) > 1
    assert [label for _, label in order[:8]] == list("aabbccdd"), "every variant is warmed before any is timed"


def test_a_drift_of_the_machine_cancels_in_the_ratio(clock):
    drifting = lambda number: 1.0 + number  # noqa: E731
    calls = {LIMIT: clock(2.0, drifting), CONTROL: clock(2.0, drifting), "x": clock(3.0, drifting)}
    timed = interleaved(calls, rounds=14, seed=0)
    assert ratio(timed, "x") == pytest.approx((1.5, 1.5)) and floor(timed) == pytest.approx((1.0, 1.0))
    assert any("halves" in reason for reason in timed["x"].reasons)


def test_what_is_too_slow_gets_no_rounds(clock):
    timed = interleaved({LIMIT: clock(1.0), "slow": clock(50.0)}, rounds=3, seed=0, most_ms=10.0)
    assert timed["slow"].samples_ms == [] and timed["slow"].warm_ms == 50.0 and len(timed[LIMIT].samples_ms) == 3


@pytest.mark.parametrize(
    ("samples", "word"),
    [([1.0] * 8, None), ([1.0, 2.0] * 4, "deviation"), ([1.0] * 6 + [2.0] * 6, "halves"), ([1e-5] * 8, "ticks")],
)
def test_samples_that_are_no_figure_say_why(samples, word, monkeypatch):
    monkeypatch.setattr(timing, "resolution_ns", lambda: 1.0)
    jitter = 1 + 1e-3 * np.random.default_rng(0).random(len(samples))
    found = Timed(1.0, list(np.array(samples) * jitter)).reasons
    assert (found == []) if word is None else any(word in reason for reason in found)


# ---- growth


@pytest.mark.parametrize(("exponent", "word"), [(0.0, "constant"), (1.0, "linear"), (2.0, "quadratic")])
def test_growth_is_found_with_its_name(exponent, word):
    noise = np.random.default_rng(0)
    samples = [5.0 * (exponent == 0) + L**exponent * (1 + 0.01 * noise.standard_normal(9)) for L in LENGTHS]
    found = fit(LENGTHS, samples, seed=0)
    assert found.word == word and found.low - 0.05 <= exponent <= found.high + 0.05


def test_an_intercept_does_not_bend_the_exponent():
    found = fit(LENGTHS, [[1e6 + 3.0 * L**2] for L in LENGTHS], seed=0)
    assert found.p == pytest.approx(2.0, abs=0.02) and found.a == pytest.approx(1e6, rel=0.02)


def test_noise_names_nothing():
    noise = np.random.default_rng(0)
    samples = [L**1.5 * (1 + 2.0 * noise.random(5)) for L in LENGTHS]
    assert fit(LENGTHS, samples, seed=0).word == ""


def test_three_lengths_are_too_few():
    assert fit(LENGTHS[:3], [[1.0], [2.0], [3.0]], seed=0) is None


@pytest.mark.parametrize(("claim", "exponent"), [("B*H*Lq*Lk + B*H*Lq*D", 2), ("H*Lq + H*Lk", 1), ("H*D", 0), ("L*D", 1)])
def test_a_claim_of_memory_has_an_exponent(claim, exponent):
    assert claimed_exponent(claim) == exponent


def test_memory_that_outgrows_its_claim_is_said():
    square = fit(LENGTHS, [[4.0 * L * L] for L in LENGTHS], seed=0)
    assert "L^2.00, the card claims H*Lq" in against_claim(square, "H*Lq")
    assert against_claim(square, "B*H*Lq*Lk") == ""


# ---- two runs


def measured(samples, status=OK, machine="m1", length=512):
    variant = Variant(label="alibi/toeplitz", spec="", scheme="alibi")
    return row({"run": "r", "machine": machine}, variant, Shape(key_length=length), status, ratios=list(samples))


def spread(middle, seed=0):
    return middle * (1 + 0.01 * np.random.default_rng(seed).standard_normal(15))


def test_a_slower_run_exits_with_five():
    (found,) = changes([measured(spread(1.0))], [measured(spread(1.3, 1))], seed=0)
    assert found.slower and not found.faster and found.ratio == pytest.approx(1.3, rel=0.02)
    assert exit_code([found]) == SLOWER == 5


def test_the_same_times_are_no_change_and_faster_is_no_failure():
    same = changes([measured(spread(1.0))], [measured(spread(1.0, 1))], seed=0)
    faster = changes([measured(spread(1.0))], [measured(spread(0.5, 1))], seed=0)
    assert exit_code(same) == exit_code(faster) == 0 and faster[0].faster and not same[0].slower


def test_nothing_measured_in_both_exits_with_six():
    assert exit_code(changes([measured(spread(1.0))], [measured((), OOM)], seed=0)) == NOTHING == 6
    assert exit_code(changes([measured(spread(1.0), length=64)], [measured(spread(1.0))], seed=0)) == 6


def test_two_machines_are_never_compared():
    with pytest.raises(OtherMachine, match="machines m1 and m2"):
        changes([measured(spread(1.0))], [measured(spread(1.0), machine="m2")], seed=0)


def test_who_raises_in_a_round_drops_out_alone(clock):
    def fresh(number):
        if number == 2:
            raise RuntimeError("can't allocate memory")
        return clock(1.0)(number)

    timed = interleaved({LIMIT: clock(1.0), "frail": fresh}, rounds=4, seed=0)
    assert len(timed[LIMIT].samples_ms) == 4 and "allocate" in str(timed["frail"].error)


def test_growth_of_every_variant_is_a_row_and_a_line():
    rows = [*pretended(), measured(spread(1.0), length=64, machine="a1b2c3d4")]
    found = growths(rows)
    assert len(found) == 2 * 2 * (len(GROWTHS) - 1) - 2, "deberta has three lengths where causal"
    (bias,) = [g for g in found if (g["variant"], g["metric"], g["causal"]) == ("alibi/bias", "peak_bytes", True)]
    assert bias["growth"] == "quadratic" and 1.9 < bias["p"] < 2.1
    lines = list(growth_lines(found))
    assert any(line.startswith("alibi/toeplitz (forward, causal, float32) peak memory: p = 1.00") for line in lines)


def test_memory_that_outgrows_its_card_is_said_in_its_row():
    rows = [one | {"claimed_memory": "H*Lq"} if one["variant"] == "alibi/bias" else one for one in pretended()]
    said = {g["note"] for g in growths(rows) if g["variant"] == "alibi/bias" and g["metric"] == "peak_bytes"}
    assert len(said) == 1 and "the card claims H*Lq" in said.pop()
