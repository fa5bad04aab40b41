"""What the columns of a row must hold: checked when rows are read, so that nothing that was edited becomes a figure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

from relpos.perf.point import MODES

OK, OOM, TOO_SLOW, NOT_CERTIFIED, UNSUPPORTED, UNSTABLE, FAILED, SIZED = (
    "ok", "oom", "too-slow", "not-certified", "unsupported", "unstable", "failed", "sized",
)  # fmt: skip
STATUSES = (OK, OOM, TOO_SLOW, NOT_CERTIFIED, UNSUPPORTED, UNSTABLE, FAILED, SIZED)  # the last: memory, and no time
MEASURED = (OK, UNSTABLE)  # they have figures; only the first are ranked
REQUIRED = (
    "schema", "run", "machine", "scheme", "variant", "origin", "status", "mode", "causal", "dtype", "device", "batch", "heads",
    "head_dim", "query_length", "key_length",
)  # fmt: skip
# Where the limit has no figure there are no ratios at all.
TOGETHER = (("ratios", "median_of_ratios"), ("error_units", "error_allowed_units"))
SHOWN = 40  # letters of what came instead


@dataclass(frozen=True)
class Kind:
    """What a value must be, in words, and whether one is."""

    words: str
    holds: Callable[[Any], bool]


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _number(value: Any) -> bool:
    """JSON has neither NaN nor infinity; Python reads them all the same."""
    return (_whole(value) and abs(value) < 2**1000) or (isinstance(value, float) and isfinite(value))


def _positive(value: Any) -> bool:
    return _number(value) and value > 0


def _several(value: Any) -> bool:
    return isinstance(value, list) and len(value) > 0 and all(map(_positive, value))


TEXT = Kind("text", lambda value: isinstance(value, str))
TRUTH = Kind("true or false", lambda value: isinstance(value, bool))
WHOLE = Kind("a whole number", _whole)
SIZE = Kind("a whole number from 1", lambda value: _whole(value) and value > 0)
BYTES = Kind("a whole number from 0", lambda value: _whole(value) and value >= 0)
NUMBER = Kind("a number from 0", lambda value: _number(value) and value >= 0)
POSITIVE = Kind("a number above 0", _positive)
SEVERAL = Kind("a list of numbers above 0, one a round", _several)
NAMES = Kind("an object", lambda value: isinstance(value, dict))


def _one_of(*names: str) -> Kind:
    return Kind(f"one of {', '.join(names)}", lambda value: isinstance(value, str) and value in names)


def _named(kind: Kind, names: str) -> dict[str, Kind]:
    return dict.fromkeys(names.split(), kind)


KINDS: dict[str, Kind] = {
    **_named(
        TEXT, "schema run machine version date commit scheme variant origin source dtype device reason note claimed_memory"
    ),
    **_named(TRUTH, "causal dirty"),
    **_named(SIZE, "batch heads head_dim query_length key_length rounds"),
    **_named(BYTES, "peak_bytes extra_bytes largest_bytes output_bytes first_peak_bytes retained_bytes backward_bytes"),
    **_named(BYTES, "resident_bytes parameters seed"),
    **_named(NUMBER, "load prepared_s claimed_exponent error_units error_allowed_units"),
    **_named(POSITIVE, "latency_ms tokens_per_second median_of_ratios ratio_of_minima"),
    **_named(SEVERAL, "samples_ms ratios"),
    "exit_code": WHOLE,
    "settings": NAMES,
    "mode": _one_of(*MODES),
    "status": _one_of(*STATUSES),
}


def complaint(row: Mapping[str, Any]) -> str:
    """What of a row is not as it must be: field, what it must be, what came; empty: nothing."""
    if missing := [name for name in REQUIRED if name not in row]:
        return f"the row has no {', '.join(missing)}"
    for name, kind in KINDS.items():
        if name in row and not kind.holds(row[name]):
            return f"{name} must be {kind.words}; got {_shown(row[name])}"
    if row["status"] not in MEASURED:
        return ""
    for name in ("latency_ms", "samples_ms"):
        if name not in row:
            return f"{name} must be {KINDS[name].words} where status is {row['status']}; the row has none"
    for pair in TOGETHER:
        for gone, there in (pair, pair[::-1]):
            if there in row and gone not in row:
                return f"{gone} must be {KINDS[gone].words} where there is {there}; the row has none"
    return ""


def _shown(value: Any) -> str:
    said = repr(value)
    return said if len(said) <= SHOWN else said[: SHOWN - 1] + "…"
