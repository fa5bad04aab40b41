"""What earlier rows say of a point before it is measured: that it need not be tried, and why. Each is a row of its own."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from relpos.perf.measuring import Found, Options
from relpos.perf.point import THE_LIMIT, Shape, Variant, shape_fields
from relpos.perf.rows import MEASURED, NOT_CERTIFIED, OK, OOM, TOO_SLOW, key, row

Before = Mapping[tuple[Any, ...], Mapping[str, Any]]
GROWTH = 4.0  # at most, from one length to twice that: of a call, and of building a variant and filling its cache
OURS = "relpos"


def settled_ahead(
    missing: Iterable[Variant],
    shape: Shape,
    before: Before,
    options: Options,
    *,
    refused: Mapping[str, str],
    last: Shape | None = None,
) -> Iterator[Found]:
    """Rows that need no measuring: not certified, no memory or too slow judging by half the length, left behind at `last`."""
    limit = _too_slow(THE_LIMIT, shape, before, options)
    narrowed = _narrowed(before, last)
    for v in missing:
        if v.label in refused:
            yield v, NOT_CERTIFIED, {"reason": refused[v.label]}
        elif v.label in narrowed:
            yield v, TOO_SLOW, {"reason": narrowed[v.label]}
        elif _half(v, shape, before).get("status") == OOM:
            yield v, OOM, {"reason": "no memory at half the length already"}
        elif reason := _too_slow(v, shape, before, options) or (limit and f"attention without positions: {limit}"):
            yield v, TOO_SLOW, {"reason": reason}


def _row(variant: Variant, shape: Shape, before: Before) -> Mapping[str, Any]:
    return before.get(key(row({}, variant, shape, OK)), {})


def _half(variant: Variant, shape: Shape, before: Before) -> Mapping[str, Any]:
    return _row(variant, shape.but(key_length=shape.key_length // 2), before)


def _too_slow(variant: Variant, shape: Shape, before: Before, options: Options) -> str:
    """Why a call will take longer than the most; empty: it may be tried."""
    half = _half(variant, shape, before)
    if half.get("status") == TOO_SLOW:
        return "too slow at half the length already"
    # Compiling takes as long at every length: only what has been seen to grow is taken to grow on.
    prepared_s = half.get("prepared_s", 0.0) * _growth("prepared_s", variant, shape, before, unknown=1.0)
    if prepared_s > options.most_s:
        said = f"{half['prepared_s']:.0f} s to build it and to fill its cache at half the length"
        return f"{said}, {prepared_s:.0f} expected here, more than {options.most_s:.0f}"
    took_ms = half.get("latency_ms")
    if took_ms is None:
        return ""
    expected_ms = took_ms * _growth("latency_ms", variant, shape, before, unknown=GROWTH)
    if expected_ms <= options.most_ms:
        return ""
    return f"{took_ms:.0f} ms at half the length, {expected_ms:.0f} expected here, more than {options.most_ms:.0f}"


def _growth(figure: str, variant: Variant, shape: Shape, before: Before, *, unknown: float) -> float:
    """As from a quarter of the length to half of it, where that is known."""
    quarter = _row(variant, shape.but(key_length=shape.key_length // 4), before).get(figure)
    half = _half(variant, shape, before).get(figure)
    return min(GROWTH, half / quarter) if half and quarter else unknown


def _narrowed(before: Before, last: Shape | None) -> dict[str, str]:
    """Of our variants measured at the last length that all came to, all but the fastest and the most frugal of a scheme."""
    if last is None:
        return {}
    there = [one for name, one in before.items() if one.get("origin") == OURS and name == key({**one, **shape_fields(last)})]
    schemes: dict[str, list[Mapping[str, Any]]] = {}
    for one in there:
        if one["status"] in MEASURED:
            schemes.setdefault(one["scheme"], []).append(one)
    found = {}
    for rows in schemes.values():
        fastest = min(rows, key=lambda one: one["latency_ms"])
        frugal = min(rows, key=lambda one: (one.get("peak_bytes", 0), one["latency_ms"]))
        said = f"at L = {last.key_length} {fastest['variant']} was faster and {frugal['variant']} took no more memory"
        found |= {one["variant"]: said for one in rows if one not in (fastest, frugal)}
    return found
