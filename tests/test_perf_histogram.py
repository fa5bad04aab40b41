"""What pytest-benchmark makes of our rows: its own `compare`, and the histogram that its extra draws."""

import os
import subprocess
import sys
import tomllib

from documents import HERE
from perf_rows import pretended
from relpos.perf.benchmark_json import dumps


def test_compare_reads_our_rows_and_draws_its_histogram(tmp_path):
    old, new = tmp_path / "0001_old.json", tmp_path / "0002_new.json"
    for path, seed in ((old, 0), (new, 1)):
        path.write_text(dumps(pretended(seed=seed, lengths=(512,))), encoding="utf-8")
    words = ("-m", "pytest_benchmark", "compare", str(old), str(new), "--histogram", "drawn")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    found = subprocess.run([sys.executable, *words], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert found.returncode == 0, found.stdout + found.stderr
    assert "alibi/toeplitz[forward-bidirectional-float32-512]" in found.stdout
    assert any(path.suffix == ".svg" for path in tmp_path.iterdir()), found.stdout + found.stderr


def test_the_extra_brings_what_the_histogram_takes():
    extra = tomllib.loads((HERE / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]["perf"]
    assert any(one.startswith("pytest-benchmark[histogram]") for one in extra)
