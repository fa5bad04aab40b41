"""Faults of disentangled attention: rows and buckets, which of the terms and of the tables, the scale; articles among them."""

from collections.abc import Callable
from dataclasses import replace
from math import floor, log, sqrt
from typing import Any

import numpy as np

from relpos.conformance.expected import scale_of
from relpos.conformance.faults.api import Fault, Planted, Wrong
from relpos.conformance.faults.deberta_planted import PLANTED
from relpos.conformance.plan import Inputs
from relpos.spec.deberta import DeBERTa

PROJECTED = {"share_att_key": False}
CODE = {**PROJECTED, "terms": "both", "indices": "code"}
V1, V2 = {**CODE, "version": "v1"}, {**CODE, "version": "v2"}
SHARED = {"share_att_key": True, "terms": "both"}


def _looking(s: DeBERTa, **replaced: Any) -> Wrong:
    """Settings that look up other rows, and logits that do."""
    looking: Any = Wrong(s, **replaced)
    return Wrong(looking, logits=lambda *given, **scale: DeBERTa.logits(looking, *given, **scale))


def _rows(row: Callable[[DeBERTa, int, int], int]) -> Callable[[DeBERTa], Wrong]:
    """Another row of both tables for the query at i and the key at j."""

    def wrong(s: DeBERTa) -> Wrong:
        found = lambda i, j: min(max(row(s, i, j), 0), 2 * s.span() - 1)  # noqa: E731
        return _looking(s, row=found, row_of_query=found)

    return wrong


def _bucketed(bucket: Callable[[DeBERTa, int], int]) -> Callable[[DeBERTa], Wrong]:
    """Another bucket for r, query minus key."""
    return _rows(lambda s, i, j: bucket(s, i - j) + s.span())


def _logarithmic(t: Callable[[DeBERTa, int, int], int]) -> Callable[[DeBERTa], Wrong]:
    """Another rule beyond m: t(settings, distance, m) buckets past it."""

    def bucket(s: DeBERTa, r: int) -> int:
        m = s.span() // 2
        return r if abs(r) <= m else (m + t(s, abs(r), m)) * (1 if r > 0 else -1)

    return _bucketed(bucket)


def _rounded_down(s: DeBERTa, n: int, m: int) -> int:
    return floor(log(n / m) / log((s.max_distance - 1) / m) * (m - 1))


def _up_to_m(s: DeBERTa, n: int, m: int) -> int:
    """M in place of M − 1."""
    return min((t for t in range(s.span() - m) if s.max_distance**t * m ** (m - 1) >= n ** (m - 1) * m**t), default=s.span())


def _per_length(s: DeBERTa) -> Wrong:
    """M is the greater of the two lengths."""

    def logits(params, q, k, queries, keys, *, scale):
        longest = max(len(queries), len(keys), s.span() // 2 + 2)
        other = replace(s, max_distance=longest, num_buckets=s.span())
        return other.logits(params, q, k, queries, keys, scale=scale)

    return Wrong(s, logits=logits)


def _exchanged(s: DeBERTa) -> Wrong:
    """K^r at δ(j, i) and Q^r at δ(i, j), as a popular article has it."""
    return _looking(s, row=lambda i, j: s.row(j, i), row_of_query=s.row)


def _terms(change: Callable[..., np.ndarray]) -> Callable[[DeBERTa], Wrong]:
    """change(settings, params, q, k, query positions, key positions, scale) in place of the position terms."""
    return lambda s: Wrong(s, logits=lambda params, q, k, i, j, *, scale: change(s, params, q, k, i, j, scale))


def _only(terms: str) -> Callable[[DeBERTa], Wrong]:
    def one(s: DeBERTa, params, q, k, i, j, scale) -> np.ndarray:
        alone = replace(s, terms=terms)
        return alone.logits({name: params[name] for name in alone.parameters()}, q, k, i, j, scale=scale)

    return _terms(one)


def _queries_asked(s: DeBERTa, params: dict, q: np.ndarray, k: np.ndarray, queries, keys, scale: float) -> np.ndarray:
    """Q^r meets the query, not the key: gathered along the wrong axis."""
    term = replace(s, terms="c2p").logits({"pos_key": params["pos_key"]}, q, k, queries, keys, scale=scale)
    for a, i in enumerate(queries):
        for b, j in enumerate(keys):
            term[:, a, b] += scale * np.einsum("hd,hd->h", q[:, a], params["pos_query"][:, s.row_of_query(i, j)])
    return term


def _added_as_they_are(s: DeBERTa, params: dict, q: np.ndarray, k: np.ndarray, queries, keys, scale: float) -> np.ndarray:
    """K^r · Q^r, position to position, in place of content."""
    term = np.zeros((len(q), len(queries), len(keys)))
    for a, i in enumerate(queries):
        for b, j in enumerate(keys):
            rows = params["pos_key"][:, s.row(i, j)], params["pos_query"][:, s.row_of_query(i, j)]
            term[:, a, b] = scale * np.einsum("hd,hd->h", *rows)
    return term


def _scaled(power: int) -> Callable[[DeBERTa], Wrong]:
    return _terms(lambda s, params, q, k, i, j, scale: s.logits(params, q, k, i, j, scale=scale**power))


def _two_terms(i: Inputs) -> Inputs:
    """√(2D) with both terms, as popular articles print it."""
    return i if i.scale is not None and i.scale != i.settings.scale(i.q.shape[-1]) else i.but(scale=scale_of(i) * sqrt(1.5))


def _params(**swap: str) -> Callable[[Inputs], Inputs]:
    """Parameters under each other's names."""
    return lambda i: i.but(params={name: i.params[swap.get(name, name)] for name in i.params})


def _changed(change: Callable[[np.ndarray], np.ndarray], *names: str) -> Callable[[Inputs], Inputs]:
    return lambda i: i.but(params={n: change(value) if n in names else value for n, value in i.params.items()})


TABLES = ("pos_key", "pos_query")
# fmt: off
FAULTS: tuple[Fault | Planted, ...] = (
    Fault("row-late", "rows one too far", "L12", _rows(lambda s, i, j: s.row(i, j) + 1), settings=CODE),
    Fault("clip-symmetric", "distance −K without its own row", "L12", _rows(lambda s, i, j: max(s.row(i, j), 1)), settings=V1),
    Fault("clip-wraps", "rows counted from the end where a distance is beyond the clip", "L12",
        _rows(lambda s, i, j: (i - j + s.span()) % (2 * s.span())), settings=V1),
    Fault("row-absolute", "before and after not told apart", "L11", _rows(lambda s, i, j: s.row(i, i - abs(i - j))),
        settings=CODE),
    Fault("row-past-only", "the future taken as the own position", "L11", _rows(lambda s, i, j: s.row(i, min(i, j))),
        settings=CODE),
    Fault("row-of-key", "rows of the key's position, not of the distance", "L2", _rows(lambda s, i, j: j), settings=CODE),
    Fault("row-reversed", "key minus query", "L11", _rows(lambda s, i, j: s.row(j, i)), settings=CODE),
    Fault("article-indices", "K^r at δ(j, i) and Q^r at δ(i, j), as an article has it", "L11", _exchanged, settings=CODE),
    Fault("clipped-buckets", "clipped distances in place of buckets", "L12", _bucketed(lambda s, r: r), settings=V2),
    Fault("buckets-per-length", "buckets that end at the number of keys", "L12", _per_length, cases=("B057",), settings=V2),
    Fault("buckets-rounded-down", "logarithms rounded down", "L12", _logarithmic(_rounded_down), settings=V2),
    Fault("buckets-up-to-m", "a last bucket that ends at M, not M − 1", "L12", _logarithmic(_up_to_m), settings=V2),
    Fault("buckets-unsigned", "buckets of |i − j|", "L11", _bucketed(lambda s, r: s.bucket(abs(r))), settings=V2),
    Fault("buckets-fixed", "256 buckets of 512 whatever is set", "L12",
        _bucketed(lambda s, r: DeBERTa(1, 1, 512, version="v2").bucket(r)), settings={**V2, "max_distance": 32}),
    Fault("clamp-ignored", "distances of M and more left as they are", "L12", lambda s: replace(s, clamp=False),
        settings={**V2, "max_distance": 32, "clamp": True}),
    Fault("no-position-term", "no position term, the scale of both", "L11", _terms(
        lambda s, params, q, k, i, j, scale: np.zeros((len(q), len(i), len(j)))), settings=CODE),
    Fault("c2p-alone", "c2p alone, under the scale of both", "L1", _only("c2p"), settings=CODE),
    Fault("p2c-alone", "p2c alone, under the scale of both", "L1", _only("p2c"), settings=CODE),
    Fault("queries-asked", "Q^r met by the query, not by the key", "L1", _terms(_queries_asked), settings=CODE),
    Fault("position-to-position", "K^r · Q^r in place of both terms", "L1", _terms(_added_as_they_are), settings=CODE),
    Fault("article-scale", "1/√(2D) with both terms, as articles have it", "L29", given=_two_terms, settings=CODE),
    Fault("position-unscaled", "the position terms without scale", "L29", _scaled(0), settings=PROJECTED),
    Fault("position-scaled-twice", "the position terms scaled twice", "L1", _scaled(2), settings=PROJECTED),
    Fault("tables-swapped", "each term with the other's table", "L1", given=_params(pos_key="pos_query", pos_query="pos_key"),
        settings=CODE),
    Fault("tables-reversed", "tables read backwards", "L12", given=_changed(lambda t: t[:, ::-1], *TABLES), settings=CODE),
    Fault("first-head", "the first head's tables for all", "L1", settings=CODE,
        given=_changed(lambda t: np.repeat(t[:1], len(t), axis=0), *TABLES)),
    Fault("heads-shifted", "every head with its neighbour's tables", "L1", settings=CODE,
        given=_changed(lambda t: np.roll(t, 1, axis=0), *TABLES)),
    Fault("biases-left-out", "tables projected without the biases of keys and queries", "L1", settings=SHARED,
        given=_changed(np.zeros_like, "b_key", "b_query")),
    Fault("projections-swapped", "tables projected by each other's weights", "L1", settings=SHARED,
        given=_params(w_key="w_query", w_query="w_key", b_key="b_query", b_query="b_key")),
    Fault("one-projection", "the keys' projection for both tables", "L1", settings=SHARED,
        given=_params(w_query="w_key", b_query="b_key")),
    *PLANTED,
)
# fmt: on
