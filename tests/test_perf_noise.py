"""What is unstable: a latency that spreads, and a ratio to the limit that does, though the latency may not."""

import pytest

from relpos.perf import measuring
from relpos.perf.measuring import Options, measure
from relpos.perf.point import CONTROL, LIMIT, Shape
from relpos.perf.rows import OK, UNSTABLE
from relpos.perf.sweep import Sweep, run
from relpos.perf.timing import Timed, spread, uneven
from relpos.perf.variants import built_in
from test_perf_sweep import FACTS, FAST, pretended

STEADY = [10.0, 10.1, 10.0, 9.9, 10.0]


@pytest.mark.parametrize(
    ("limits", "status"),
    [([1.0, 1.01, 1.0, 0.99, 1.0], OK), ([1.0, 1.6, 0.7, 1.3, 1.0], UNSTABLE), ([1.0, 1.0, 9.0, 1.0, 1.0], OK)],
)
def test_a_steady_latency_whose_ratios_spread_is_unstable_and_one_bad_round_changes_nothing(monkeypatch, limits, status):
    def timed(calls, **how):
        return {label: Timed(1.0, limits if label in (LIMIT, CONTROL) else STEADY) for label in calls}

    monkeypatch.setattr(measuring, "interleaved", timed)
    monkeypatch.setattr(measuring, "check_rounds", lambda seen, first, again: None)
    shape = Shape(key_length=24, heads=2, head_dim=8)
    (*_, (_, found, figures)) = measure(shape, built_in("alibi", ("toeplitz",)), Options(threads=1, memory=False))
    assert found == status, figures
    assert status == OK or figures["reason"].startswith("ratios to the limit: median absolute deviation")


def test_the_rule_for_ratios_is_that_for_samples():
    for samples in ([1.0, 1.5, 0.7], [2.0, 2.01, 2.0]):
        shaky = any("median absolute deviation" in reason for reason in Timed(1.0, samples).reasons)
        assert shaky is bool(uneven(samples)) and uneven([]) == []
    assert spread([1.0, 1.0, 100.0]) == 0.0


def test_a_leak_and_a_disagreement_of_memory_are_both_noted(tmp_path):
    def measure(shape, variants, options):
        found = pretended(shape, variants, options)
        return [(v, s, f | {"peak_bytes": 1, **({"note": "leaks: 4 bytes"} if v is FAST else {})}) for v, s, f in found]

    rows = []

    def kept(path, found):
        rows.extend(found)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("relpos.perf.sweep.append", kept)
        sweep = Sweep(lengths=(64,), directions=(False,))
        run(sweep, [FAST], Options(), tmp_path / "rows", FACTS, refused={}, measure=measure, resident=lambda *_: 2**30)
    (note,) = (one["note"] for one in rows if one["variant"] == FAST.label)
    assert note.startswith("leaks: 4 bytes; allocations add up to")
