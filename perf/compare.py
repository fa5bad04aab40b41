"""Two files of rows of one machine: paired ratios with intervals, and an exit code that says which of three things happened."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from relpos.perf.point import CONTROL, LIMIT
from relpos.perf.rows import MEASURED, latest

SLOWER, NOTHING, OTHER_MACHINE = 5, 6, 7  # exit codes
MATTERS = 1.03  # a ratio nearer to 1 than that is no finding, however sure
RESAMPLED = 1000


@dataclass(frozen=True)
class Change:
    """A point in both files: new time over old, each round by round over the limit of its own run, with a 95 % interval.

    The limit did not change, so what both runs differ by in its time is the machine's doing.
    """

    row: Mapping[str, Any]
    ratio: float
    low: float
    high: float

    @property
    def slower(self) -> bool:
        """Surely slower, by more than what matters."""
        return self.low > 1 and self.ratio > MATTERS

    @property
    def faster(self) -> bool:
        """Surely faster, by more than what matters."""
        return self.high < 1 and self.ratio < 1 / MATTERS


class OtherMachine(ValueError):
    """Rows of two machines are never compared."""


def changes(old: Iterable[Mapping[str, Any]], new: Iterable[Mapping[str, Any]], *, seed: int) -> list[Change]:
    """Points that both files have figures for. OtherMachine if they are of different machines."""
    before, now = latest(old), latest(new)
    machines = {one["machine"] for one in (*before.values(), *now.values())}
    if len(machines) > 1:
        raise OtherMachine(
            f"the rows are of machines {' and '.join(sorted(machines))}: times of two machines are not compared. "
            "Measure both versions on one machine."
        )
    shared = [name for name in now if name in before and _measured(now[name]) and _measured(before[name])]
    drawn = np.random.default_rng(seed)
    return [_change(before[name], now[name], drawn) for name in shared]


def lacking(old: Iterable[Mapping[str, Any]], new: Iterable[Mapping[str, Any]]) -> tuple[list[str], list[str]]:
    """Points measured in both files that lack ratios, "alibi/bias at 512": in the old, in the new."""
    before, now = latest(old), latest(new)
    both = [name for name in now if name in before and _has_figure(now[name]) and _has_figure(before[name])]
    of_old, of_new = ([one for name in both if not _measured(one := rows[name])] for rows in (before, now))
    return _points(of_old), _points(of_new)


def _points(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(f"{one['variant']} at {one['key_length']}" for one in rows))


def exit_code(found: list[Change]) -> int:
    """0, slower or nothing measured."""
    if not found:
        return NOTHING
    return SLOWER if any(one.slower for one in found) else 0


def _has_figure(row: Mapping[str, Any]) -> bool:
    return row["variant"] not in (LIMIT, CONTROL) and row["status"] in MEASURED


def _measured(row: Mapping[str, Any]) -> bool:
    return _has_figure(row) and len(row.get("ratios", ())) > 1


def _change(old: Mapping[str, Any], new: Mapping[str, Any], drawn: np.random.Generator) -> Change:
    a, b = np.array(old["ratios"]), np.array(new["ratios"])
    now, before = (np.median(drawn.choice(x, (RESAMPLED, len(x))), axis=1) for x in (b, a))
    ratios = now / before
    low, high = np.percentile(ratios, [2.5, 97.5])
    return Change(new, float(np.median(b) / np.median(a)), float(low), float(high))
