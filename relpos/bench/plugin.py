"""Pytest options for the benchmarks: `pytest --pyargs relpos.bench -p relpos.bench.plugin --variant alibi/toeplitz`.

Nothing registers this plugin by itself: who merely has relpos installed never loads it.
"""

from typing import Any

import pytest

from relpos.conformance.errors import UsageError
from relpos.perf.point import MODES, Shape
from relpos.perf.sweep import chosen_lengths
from relpos.perf.variants import built_in

LENGTHS = ("512,1024",)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Which variants, at which shapes."""
    group = parser.getgroup("relpos.bench")
    group.addoption("--variant", action="append", default=[], metavar="NAME", help="alibi/toeplitz; may be repeated")
    group.addoption("--lengths", action="append", default=[], metavar="512,1024", help="lengths")
    group.addoption("--mode", choices=MODES, default="forward", help="what is timed")
    group.addoption("--dtype", default="float32", help="of q, k and v")
    group.addoption("--causal", action="store_true", help="causal in place of bidirectional")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One benchmark per variant and length."""
    if "relpos_point" not in metafunc.fixturenames:
        return
    option: Any = metafunc.config.getoption
    if not option("--variant"):
        raise pytest.UsageError("relpos.bench needs --variant NAME, as in --variant alibi/toeplitz")
    try:
        variants, lengths = built_in(None, tuple(option("--variant"))), chosen_lengths(option("--lengths") or LENGTHS)
    except (UsageError, ValueError) as error:
        raise pytest.UsageError(str(error)) from error
    base = Shape(mode=option("--mode"), causal=option("--causal"), dtype=option("--dtype"))
    points = [(variant, base.but(key_length=length)) for variant in variants for length in lengths]
    metafunc.parametrize("relpos_point", points, ids=[f"{v.label}-{shape.key_length}" for v, shape in points])
