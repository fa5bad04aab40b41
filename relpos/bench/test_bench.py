"""Rounds of one variant in a row, on fresh inputs; run with `-p relpos.bench.plugin`."""

from typing import Any

import pytest

from relpos.perf.data import Data
from relpos.perf.plugging import Unsupported
from relpos.perf.point import Shape, Variant
from relpos.perf.workload import Workload

ROUNDS = 20


def test_variant(benchmark: Any, relpos_point: tuple[Variant, Shape]) -> None:
    """Time of a call."""
    variant, shape = relpos_point
    seeds = iter(range(ROUNDS * 10))
    try:
        work = Workload(variant, shape)
        work.call(Data(shape, next(seeds)))
    except Unsupported as error:
        pytest.skip(str(error))
    benchmark.extra_info |= {"variant": variant.label, "key_length": shape.key_length, "source": variant.source}
    fresh = lambda: ((work.call(Data(shape, next(seeds))),), {})  # noqa: E731
    benchmark.pedantic(lambda call: call(), setup=fresh, rounds=ROUNDS, warmup_rounds=2)
