"""Rows of a run, one JSON object per line, appended as they come: what was interrupted goes on where it ended."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from relpos.conformance.errors import UsageError
from relpos.conformance.faults.cells import PINNED, Cell
from relpos.conformance.faults.killing import Attempt

KEY = ("scheme", "fault", "level", "law", "block")
ALARM_KEY = ("subject", "seed")
BEGINNING = '{"'
Row = dict[str, Any]
Key = tuple[Any, ...]


def key_of(row: Row) -> Key:
    """What tells a row from the others."""
    return tuple(row[name] for name in (ALARM_KEY if "subject" in row else KEY))


def row_of(cell: Cell, block: str, attempts: list[Attempt]) -> Row:
    """A row of the kill table: one block of seeds, or the pinned inputs."""
    return {
        **dict(zip(KEY, cell.key(block), strict=True)),
        "at": cell.at,
        "inputs": [one.inputs for one in attempts],
        "killed": [one.killed for one in attempts],
        "seconds": [round(one.seconds, 4) for one in attempts],
        "hash": cell.hash(),
    }


def attempts_of(row: Row) -> list[Attempt]:
    """What stands in a row of the kill table."""
    return [Attempt(*one) for one in zip(row["inputs"], row["killed"], row["seconds"], strict=True)]


class Rows:
    """The rows of a file, the last one of each key, and a way to add to them; without a file they are only kept."""

    def __init__(self, path: Path | None) -> None:
        self.path, self.found = path, {}
        if path is None:
            return
        try:
            text = path.read_text(encoding="utf-8") if path.exists() else ""
            whole, rest = text[: text.rfind("\n") + 1], text[text.rfind("\n") + 1 :]
            for number, line in enumerate(whole.splitlines(), 1):
                row = _parsed(line, path, number)
                self.found[key_of(row)] = row
            if rest and not rest.startswith(BEGINNING):
                raise _no_row(path, whole.count("\n") + 1)
            path.parent.mkdir(parents=True, exist_ok=True)
            # A line that was cut off when a run was killed goes away, so that what is appended stands alone.
            path.write_text(whole, encoding="utf-8") if rest else path.touch()
        except OSError as error:
            raise UsageError(f"--out: {path} cannot be read and written ({error.strerror}).") from None
        except UnicodeDecodeError as error:
            raise UsageError(f"--out: {path} holds no rows of this command ({error}). Name another file.") from None

    def get(self, key: Key, hash_now: str) -> Row | None:
        """A row, if what it depends on is still as it was."""
        row = self.found.get(key)
        return row if row is not None and row["hash"] == hash_now else None

    def add(self, rows: Iterable[Row]) -> None:
        """Keep rows and append them to the file at once."""
        fresh = list(rows)
        self.found |= {key_of(row): row for row in fresh}
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.write("".join(json.dumps(row) + "\n" for row in fresh))

    def pinned(self, cell: Cell) -> Attempt | None:
        """What the pinned inputs came to."""
        row = self.get(cell.key(PINNED), cell.hash())
        return attempts_of(row)[0] if row is not None else None

    def attempts(self, cell: Cell, asked: int) -> tuple[list[Attempt], list[str]]:
        """Attempts that count for a cell, one per seed, and the blocks that are still missing."""
        now, always = cell.hash(), self.pinned(cell)
        if always is None:
            return [], [PINNED, *cell.blocks(asked)]
        if cell.settled(always.killed):
            return [always] * cell.seeds(asked), []
        there = {block: self.get(cell.key(block), now) for block in cell.blocks(asked)}
        return [one for row in there.values() if row for one in attempts_of(row)], [
            b for b, row in there.items() if row is None
        ]


def _parsed(line: str, path: Path, number: int) -> Row:
    try:
        row = json.loads(line)
        _ = key_of(row), row["hash"]  # a row has both
    except (ValueError, KeyError, TypeError):
        raise _no_row(path, number) from None
    return row


def _no_row(path: Path, number: int) -> UsageError:
    return UsageError(f"--out: line {number} of {path} is no row of a kill table; name another file.")
