"""Public reports of faults, by id: what went wrong, of which kind it is, and which laws must see it. The data: `cases.json`."""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

CONTROL = "negative-control"
DATA = Path(__file__).with_suffix(".json")


@dataclass(frozen=True)
class Case:
    """One public report.

    id        "B001" and so on
    kind      number of its kind: those that come most often, and do most harm, first
    verdict   what the maintainers made of it: "bug", "limitation", …; "negative-control": no fault at all
    laws      laws that its kind breaks
    size      B·H·Lq·Lk·D of its smallest input, axes it does not speak of counted as 1; None where it gives no size
    summary   what went wrong, in a few words
    differs   how the planted fault is not quite the report's; None: it is
    left_out  why nothing is planted; None: something is
    """

    id: str
    kind: int
    verdict: str
    laws: tuple[str, ...]
    size: int | None
    summary: str
    differs: str | None = None
    left_out: str | None = None

    @property
    def is_fault(self) -> bool:
        """Whether the report was right: something is wrong there."""
        return self.verdict != CONTROL


@cache
def cases() -> tuple[Case, ...]:
    """All reports, in the order of their ids."""
    found = json.loads(DATA.read_text(encoding="utf-8"))
    return tuple(Case(**{**one, "laws": tuple(one["laws"])}) for one in found)


def case(name: str) -> Case:
    """A report by its id; KeyError if there is none."""
    return {one.id: one for one in cases()}[name]
