"""Which share of the seeds each law kills, by the kind of fault, as a small CSV: what the heat map is drawn from."""

import csv
from collections.abc import Iterable
from io import StringIO
from typing import Any

import relpos
from relpos.conformance.certificate import laws_hash
from relpos.conformance.faults.summary import Line, kinds
from relpos.conformance.laws import laws

COLUMNS: tuple[str, ...] = (
    "kind",
    "law",
    "title",
    "planted",
    "pinned",
    "missed",
    "seeds",
    "killed",
    "share",
    "version",
    "laws_hash",
)
DIGITS = 4


def shares(lines: Iterable[Line]) -> list[dict[str, Any]]:
    """One row per kind of fault and law that owes its kill, in the order of the kinds and of the laws."""
    found = []
    for group in kinds(lines):
        for law in laws():
            part = [line for line in group.lines if line.cell.law == law.name]
            if part:
                found.append({"kind": group.name, "law": law.name, "title": law.title, **_counts(part)})
    return found


def _counts(part: list[Line]) -> dict[str, Any]:
    seeds, killed = sum(len(line.attempts) for line in part), sum(line.killed for line in part)
    return {
        "planted": len(part),
        "pinned": sum(line.pinned for line in part),
        "missed": sum(line.missed for line in part),
        "seeds": seeds,
        "killed": killed,
        "share": int(killed / seeds * 10**DIGITS) / 10**DIGITS,  # never rounded up
        "version": relpos.__version__,
        "laws_hash": laws_hash(),
    }


def table(lines: Iterable[Line]) -> str:
    """The text of `reports/data/kills.csv`."""
    text = StringIO()
    written = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    written.writeheader()
    written.writerows(shares(lines))
    return text.getvalue()
