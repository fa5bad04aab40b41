"""What counts as measured before: the same variant with the same settings and claims, source, seed and number of rounds."""

import shutil

import pytest

from relpos.conformance import sources
from relpos.conformance.sources import with_shared
from relpos.perf.measuring import Options
from relpos.perf.point import Shape
from relpos.perf.rows import append, key, latest, read
from relpos.perf.sweep import Sweep, representatives, run, unmeasured
from relpos.perf.variants import strangers
from test_perf_sweep import FACTS, FAST, OTHER, SLOW, pretended

ONE = Sweep(lengths=(512,), directions=(False,))


def asked(path, variants, options):
    """Which variants of which shape a run measured, the file given."""
    found = []

    def measure(shape, racing, how):
        found.extend(v.label for v in racing)
        return [(v, s, f | {"samples_ms": [1.0] * how.rounds}) for v, s, f in pretended(shape, [], how)] + [
            (v, "ok", {"latency_ms": 1.0, "samples_ms": [1.0] * how.rounds}) for v in racing
        ]

    run(ONE, variants, options, path, FACTS, refused={}, measure=measure)
    return found


@pytest.mark.parametrize("other", [Options(rounds=7), Options(seed=1)], ids=["rounds", "seed"])
def test_other_rounds_or_another_seed_are_measured_and_the_same_are_not(tmp_path, other):
    path = tmp_path / "rows.jsonl"
    assert asked(path, [FAST], Options()) == asked(path, [FAST], other) == [FAST.label]
    assert asked(path, [FAST], other) == []
    rows = latest(read(path)).values()
    assert {(one["rounds"], one["seed"]) for one in rows} == {(other.rounds, other.seed)}, "the limit among them"


def test_rows_that_do_not_say_how_they_were_asked_for_have_as_many_rounds_as_samples(tmp_path):
    path = tmp_path / "rows.jsonl"
    asked(path, [FAST], Options(rounds=4))
    old = [{name: value for name, value in one.items() if name not in ("rounds", "seed")} for one in read(path)]
    path.unlink()
    append(path, old)
    assert asked(path, [FAST], Options(rounds=4)) == [] and asked(path, [FAST], Options(rounds=5)) == [FAST.label]


def test_other_settings_or_claims_of_yours_are_another_variant(tmp_path):
    path, file = tmp_path / "rows.jsonl", tmp_path / "kernels.py"
    file.write_text("def bias(): ...\n", encoding="utf-8")
    stated = [({}, {}), ({}, {"slope_rule": "press"}), ({}, {"slope_rule": "geometric"}), ({"binds": ("scale", "dtype")}, {})]
    mine = [strangers(f"{file}:bias", "alibi", claims, settings) for claims, settings in stated]
    assert len({one.label for one in mine}) == len(mine)
    for one in mine:
        assert asked(path, [one], Options()) == [one.label] and asked(path, [one], Options()) == []
    assert len({key(one) for one in read(path)}) == len(mine) + 2
    assert unmeasured(mine, Shape(), latest(read(path)), Options()) == []


def test_a_probe_has_the_threads_and_the_seed_that_were_asked_for():
    seen = []

    def measure(shape, variants, options):
        seen.append((options.threads, options.seed, options.rounds, options.memory))
        return pretended(shape, variants, options)

    representatives([FAST, SLOW, OTHER], measure=measure, options=Options(threads=7, seed=3))
    assert seen == [(7, 3, 3, False)] * 2


def test_a_change_of_what_a_variant_does_not_share_is_no_change_of_its_source(monkeypatch, tmp_path):
    """Of all shared files together the hash would have everything measured again for one."""
    impls = tmp_path / "impls"
    shutil.copytree(sources.IMPLS, impls, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(sources, "IMPLS", impls)

    def texts(name):
        return [path.read_bytes() for path in with_shared([impls / f"{name}.py"])]

    before = {name: texts(name) for name in ("swin_v2", "alibi", "kernels/t5")}
    with (impls / "_streamed.py").open("a") as file:  # alibi has it by way of the Toeplitz engine
        file.write("# changed\n")
    assert texts("swin_v2") == before["swin_v2"] and texts("alibi") != before["alibi"]
    assert len(before["kernels/t5"]) > 5  # those beside it, and those above
