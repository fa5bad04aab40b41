"""What every run of measurements begins with: the machine's record beside the rows, and what the rows hold already."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from relpos.conformance import console
from relpos.conformance.errors import UsageError
from relpos.perf import show
from relpos.perf.ahead import Before
from relpos.perf.machine import machine, machine_id, run_facts
from relpos.perf.rows import cut_lines, done, text_of


@dataclass(frozen=True, kw_only=True)
class Begun:
    """facts: columns that all rows of the run share; before: rows that are there already; fresh: a record written just now."""

    facts: dict[str, Any]
    before: Before
    fresh: Path | None

    def undo(self, out: Path) -> None:
        """Leave nothing behind of a run that measured nothing."""
        if self.fresh is not None and not out.exists():
            self.fresh.unlink(missing_ok=True)


def begun(out: Path, *, device: str, threads: int) -> Begun:
    """Say which machine this is and write its record. RowsError: the rows cannot be read, or are another machine's."""
    record = machine(device)
    facts = {"run": uuid4().hex[:8], "machine": machine_id(record), **run_facts()}
    before = done(out, facts["machine"])
    path = out.with_name(f"{out.stem}.machine-{machine_id(record)}.json")
    fresh = None if path.exists() else path
    write(path, json.dumps(record, indent=1) + "\n", "--out")
    console.show_lines([show.machine_line(record, facts, threads), *_cut(out)])
    return Begun(facts=facts, before=before, fresh=fresh)


def write(path: Path, text: str, option: str) -> None:
    """Write a file that an option names; UsageError where that cannot be done."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{option}: {path} could not be written ({error.strerror}).") from None


def _cut(path: Path) -> list[str]:
    """What to say of rows that were cut off; nothing: there are none."""
    number = len(cut_lines(text_of(path))) if path.exists() else 0
    return [f"{path}: {number} cut-off line{'s' * (number != 1)} left out"] if number else []
