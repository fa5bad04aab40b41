"""Peers give the definition's output before they are timed; what is measured is known by its source; benchmarks run."""

import json
import os
import subprocess
import sys
import warnings
from types import SimpleNamespace

import pytest

from relpos.bench.plugin import pytest_generate_tests
from relpos.perf.measuring import Options, measure
from relpos.perf.peers import peers
from relpos.perf.point import Shape
from relpos.perf.rows import MEASURED, UNSUPPORTED
from relpos.perf.variants import built_in, source_of, strangers

FOUND, MISSING = peers()


@pytest.mark.parametrize("causal", [False, True], ids=["bidirectional", "causal"])
def test_every_peer_gives_the_definition_s_output_or_says_why_not(causal):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of theirs
        found = measure(Shape(key_length=40, heads=2, causal=causal), FOUND, Options(rounds=1, threads=1, memory=False))
    had = {v.label for v, status, _ in found if status in MEASURED}
    assert not {(v.label, figures["reason"]) for v, s, figures in found if s not in (*MEASURED, UNSUPPORTED)}
    assert had - {"limit", "control"}, "at least flex, which needs no package"


def test_a_missing_package_costs_its_rows_alone(monkeypatch):
    monkeypatch.delitem(sys.modules, "relpos.perf.peers.x_transformers", raising=False)
    for name in ("x_transformers", "x_transformers.x_transformers"):
        monkeypatch.setitem(sys.modules, name, None)
    found, missing = peers("alibi")
    assert "x_transformers" in missing and "alibi/torch-flex" in {v.label for v in found}


def test_no_peer_has_the_name_of_an_implementation_of_ours():
    """Rows are told apart by it."""
    assert not {v.label for v in FOUND} & {v.label for v in built_in()}


def test_a_stranger_is_named_by_its_file_and_known_by_its_source(tmp_path):
    file = tmp_path / "kernels.py"
    file.write_text("def bias(): ...\n", encoding="utf-8")
    mine = strangers(f"{file}:bias", "alibi", {"level": "contribution"}, {"slope_rule": "press"})
    label = "alibi/kernels:bias[slope_rule=press, level=contribution]"
    assert (mine.label, mine.origin, mine.settings) == (label, "yours", (("slope_rule", "press"),))
    assert strangers(f"{file}:bias", "alibi", {}, {}).label == "alibi/kernels:bias"
    file.write_text("def bias(): pass\n", encoding="utf-8")
    assert source_of(f"{file}:bias") != mine.source != ""
    assert source_of("no_such_module:bias") == "" and source_of("relpos.impls.alibi:bias") != source_of("relpos.impls.t5:bias")


def bench(*words):
    asked = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "--pyargs", "relpos.bench", "-p", "relpos.bench.plugin", *words)
    # A worker of pytest-xdist says so to its children, and pytest-benchmark then measures nothing.
    alone = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST")}
    return subprocess.run([sys.executable, *asked], capture_output=True, text=True, timeout=200, check=False, env=alone)


def test_the_benchmark_of_one_variant_leaves_what_pytest_benchmark_compares(tmp_path):
    file = tmp_path / "bench.json"
    found = bench("--variant", "alibi/toeplitz", "--variant", "alibi/Decoder", "--lengths", "64", f"--benchmark-json={file}")
    assert found.returncode == 0 and "1 passed, 1 skipped" in found.stdout, found.stdout
    (one,) = json.loads(file.read_text(encoding="utf-8"))["benchmarks"]
    assert one["stats"]["rounds"] == len(one["stats"]["data"]) == 20 and one["stats"]["min"] > 0
    assert one["extra_info"]["variant"] == "alibi/toeplitz" and one["extra_info"]["source"]


class Asking:
    """What pytest hands to a plugin, of a test that wants a point, with these options."""

    fixturenames = ("relpos_point",)

    def __init__(self, **options):
        usual = {"--variant": [], "--lengths": [], "--mode": "forward", "--causal": False, "--dtype": "float32"}
        self.config = SimpleNamespace(getoption=lambda name: {**usual, **options}[name])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "relpos.bench needs --variant NAME"),
        ({"--variant": ["alibi/fast"]}, "there is no 'alibi/fast'; there are alibi/bias"),
        ({"--variant": ["alibi/bias"], "--lengths": ["long"]}, "--lengths takes whole numbers from 2"),
    ],
)
def test_a_benchmark_of_nothing_is_told_what_to_name(options, words):
    with pytest.raises(pytest.UsageError, match=words):
        pytest_generate_tests(Asking(**options))
