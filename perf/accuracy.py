"""Error of a variant at the very shape that is timed, in units of its bound, on sampled query rows against all keys."""

from typing import Any

import numpy as np
from torch import Tensor

from relpos.conformance.answers import definition
from relpos.conformance.expected import Expected, expected
from relpos.conformance.judge import compare
from relpos.conformance.plan import Inputs
from relpos.conformance.reading import to_numpy
from relpos.perf.data import Data
from relpos.perf.workload import Workload
from relpos.spec.positions import Explicit, Positions

LONG = 1024  # keys; beyond it one drawn query is compared, up to it the last one too: the definition is a loop over keys


Known = dict[Any, Any]


def error_units(work: Workload, data: Data, out: Tensor, *, seed: int, known: Known | None = None) -> tuple[float, float]:
    """Largest error on the sampled rows, in units of the bound, and how many units are allowed.

    known   answers of the definition on these data: it is asked once by all variants of a scheme
    """
    if work.subject.form == "embedding":
        return _of_embedding(work, data, seed)
    rows, heads = _sampled(out.shape[2], work.shape.key_length, seed), [0, out.shape[1] - 1]
    alike = not hasattr(work.given.settings, "num_heads")  # heads without parameters of their own are judged alone
    given = _given(work.given, data, rows, heads if alike else list(range(out.shape[1])))
    want = _asked(work, given, known if known is not None else {})
    want = want if alike else _part(want, heads)
    found = compare(to_numpy(out[:, heads][:, :, rows]), want, work.shape.dtype)
    return found.largest, found.allowed


def rows_compared(keys: int) -> int:
    """Query rows that are held against the definition, unless the one that is drawn is the last."""
    return 1 if keys > LONG else 2


def _asked(work: Workload, given: Inputs, known: Known) -> Expected:
    name = work.variant.scheme, repr(given.settings)
    if name not in known:
        known[name] = expected(given, "attention")["output"]
    return known[name]


def _of_embedding(work: Workload, data: Data, seed: int) -> tuple[float, float]:
    """What is added is compared, not the attention that it is added before."""
    got, rows = to_numpy(work.contribution(data)), _sampled(work.shape.key_length, work.shape.key_length, seed)
    x = to_numpy(data.q.transpose(1, 2).flatten(2))[:, None]
    given = work.given.but(q=x[:, :, rows], query_positions=_chosen(work.given.query_positions, rows))
    ((_, want),) = definition(work.subject, given).items()
    found = compare(got[..., rows, :], want, work.shape.dtype)
    return found.largest, found.allowed


def _sampled(queries: int, keys: int, seed: int) -> list[int]:
    drawn = int(np.random.default_rng(seed).integers(queries))
    return sorted({drawn, queries - 1}) if rows_compared(keys) > 1 else [drawn]


def _given(given: Inputs, data: Data, rows: list[int], heads: list[int]) -> Inputs:
    q, k, v = (to_numpy(x)[:, heads] for x in (data.q, data.k, data.v))
    queries = _chosen(given.query_positions, rows)
    return given.but(q=q[:, :, rows], k=k, v=v, query_positions=queries, plan=given.plan.but(query_length=len(rows)))


def _chosen(positions: Positions, rows: list[int]) -> Positions:
    at: Any = positions.array()
    return Explicit(at[..., rows] if positions.axes == 1 else at[rows], axes=positions.axes, context_length=len(positions))


def _part(want: Expected, heads: list[int]) -> Expected:
    size = want.size
    M, P = (np.broadcast_to(x, want.value.shape)[:, heads] for x in (size.M, size.P))
    return Expected(want.name, want.kind, want.value[:, heads], type(size)(M, P, size.n))
