"""Figures as words: medians with intervals, sizes, and notes that say why one is missing."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from relpos.perf.growth import SAMPLED
from relpos.perf.rows import MEASURED, UNSTABLE

NOTHING, HOLLOW = "—", "○"
MIB = 2**20
SEED, RESAMPLED = 0, 1000
LOW, HIGH = 2.5, 97.5  # percent: the 95 % interval
DIGITS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")

Row = Mapping[str, Any]


class Notes:
    """Reasons of one table, each numbered once."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def missing(self, reason: str) -> str:
        """The cell of a figure that is not there."""
        reason = escaped(reason)
        if reason not in self.reasons:
            self.reasons.append(reason)
        return NOTHING + str(self.reasons.index(reason) + 1).translate(DIGITS)

    @property
    def lines(self) -> list[str]:
        """What stands below the table."""
        return [f"{str(n).translate(DIGITS)} {reason}" for n, reason in enumerate(self.reasons, 1)]


def interval(samples: Sequence[float], over: Sequence[float] = (1.0,)) -> tuple[float, float, float]:
    """Median of samples over that of others, with its 95 % interval from resampling either; the same in every run."""
    drawn = np.random.default_rng(SEED)
    above, below = (np.median(drawn.choice(x, (RESAMPLED, len(x))), axis=1) for x in map(np.asarray, (samples, over)))
    low, high = np.percentile(above / below, [LOW, HIGH])
    return float(np.median(samples) / np.median(over)), float(low), float(high)


def ranked(row: Row | None) -> bool:
    """Whether a row has a figure that may be compared with others."""
    return row is not None and row["status"] in MEASURED and row["status"] != UNSTABLE and bool(row.get("ratios"))


def hollow(row: Row) -> str:
    """The mark of a figure that is shown and never ranked."""
    return f"{HOLLOW} " if row["status"] == UNSTABLE else ""


def ratio_cell(row: Row | None, notes: Notes) -> str:
    """Time over that of no positions, with its interval."""
    if row is None or row["status"] not in MEASURED or not row.get("ratios"):
        return notes.missing(why(row))
    return hollow(row) + spanned(*interval(row["ratios"]))


def cell(row: Row | None, name: str, words: Any, notes: Notes) -> str:
    """Any other column of a row."""
    if row is None or row["status"] not in MEASURED:
        return notes.missing(why(row))
    return words(row[name]) if row.get(name) is not None else notes.missing(f"{name.replace('_', ' ')} was not measured")


def why(row: Row | None) -> str:
    """Why there is no figure."""
    if row is None:
        return "not part of this run"
    if row["status"] in MEASURED:
        return "the limit has no figure at this shape"
    return f"{row['status']}: {row['reason']}" if row.get("reason") else str(row["status"])


def escaped(text: str) -> str:
    """Words from elsewhere as Markdown shows them: what an error says may hold any sign."""
    return re.sub(r"([\\`*_<>|\[\]])", r"\\\1", " ".join(text.split()))


def spanned(value: float, low: float, high: float) -> str:
    """A figure with its interval."""
    return f"{short(value)} [{short(low)}, {short(high)}]"


def short(value: float) -> str:
    """Two decimals, one from ten on, none from a hundred on."""
    return f"{value:.{2 if value < 9.995 else 1 if value < 99.95 else 0}f}"


def mib(size: float) -> str:
    """Bytes in MiB."""
    return short(size / MIB)


def whole(value: float) -> str:
    """Three figures of a large number, and all of a smaller one."""
    return f"{float(f'{value:.3g}') if value >= 1000 else round(value):,.0f}"


def exponent(fit: Mapping[str, Any]) -> str:
    """A power of L, with its interval where what it was fitted to was sampled and not counted."""
    return f"{fit['p']:.2f} [{fit['p_low']:.2f}, {fit['p_high']:.2f}]" if fit["metric"] in SAMPLED else f"{fit['p']:.2f}"


def length(value: int) -> str:
    """1024 is 1k."""
    return f"{value // 1024}k" if value % 1024 == 0 else str(value)


def listed(words: Iterable[str]) -> str:
    """a, b and c."""
    found = list(words)
    return " and ".join([", ".join(found[:-1]), found[-1]] if len(found) > 1 else found)


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, left: int = 1) -> str:
    """A Markdown table; all but the first columns are set to the right."""
    marks = ["---" if n < left else "---:" for n in range(len(head))]
    return "\n".join("| " + " | ".join(x.replace("|", "\\|") for x in line) + " |" for line in (head, marks, *rows))
