"""What a report is made of: rows of one run on one machine, certificates, and what the other two reports say in short."""

import gzip
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from relpos.conformance import certificate
from relpos.conformance.errors import UsageError
from relpos.perf.machine import machine_id
from relpos.perf.rows import PACKED, RowsError, cut_lines, latest, parsed, text_of
from relpos.perf.variants import CERTIFICATES, built_in

HOME = CERTIFICATES.parents[1] / "reports"  # of the clone, wherever the command is given
ROWS = "perf.jsonl.gz"

Row = dict[str, Any]


@dataclass(frozen=True)
class Source:
    """All that the text depends on.

    rows           the last row of every point; none: nothing was measured
    machine        the record of the machine they are of
    certificates   by variant
    said           sentences of peers.md and of kill_table.md, by file name
    changed        variants whose source is no longer the one that was measured
    cut            lines that were cut off, as they stood among the rows
    """

    rows: tuple[Row, ...]
    machine: dict[str, Any]
    certificates: dict[str, dict[str, Any]]
    said: dict[str, tuple[str, ...]]
    changed: tuple[str, ...]
    cut: tuple[str, ...] = ()

    @cached_property
    def id(self) -> str:
        """Twelve letters that stand for this data: a hash of rows, those that were cut off too, machine and certificates."""
        data = [self.rows, self.machine, self.certificates, *([self.cut] if self.cut else [])]
        text = json.dumps(data, sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


def source(rows: Path | None, *, certificates: Path = CERTIFICATES, home: Path = HOME) -> Source:
    """Everything, read and checked; without a file of rows what there is besides. RowsError or UsageError say what is wrong."""
    found, cut = read_rows(rows) if rows is not None else ((), ())
    record = machine_of(rows, found) if rows is not None else {}
    said = {name: _said(home / name) for name in ("peers.md", "kill_table.md")}
    return Source(found, record, _certificates(certificates), said, _changed(found), cut)


def read_rows(path: Path) -> tuple[tuple[Row, ...], tuple[str, ...]]:
    """Rows of a run, the last of each point, and lines between them that were cut off.

    RowsError: there are none, the last is cut off, they are of two machines, of another schema, or hold what no row holds.
    """
    text = text_of(path)
    if text and not text.endswith("\n"):
        raise RowsError(f"{path} is cut off in its last line: the run was ended. The same `perf` command goes on; or "
                        "fetch the file again.")  # fmt: skip
    found = tuple(latest(parsed(path, text)).values())
    machines = sorted({one["machine"] for one in found})
    if len(machines) > 1:
        raise RowsError(f"{path} holds rows of machines {' and '.join(machines)}: a report is of one.")
    if not found:
        raise RowsError(f"{path} holds no rows; `nox -s perf -- --out {path.name}` measures some.")
    return found, tuple(cut_lines(text))


def machine_of(path: Path, rows: Sequence[Row]) -> dict[str, Any]:
    """The record of the machine, which `perf` writes beside the rows. RowsError where it is missing or another's."""
    name, stem = rows[0]["machine"], Path(path.name.removesuffix(PACKED)).stem
    beside = path.with_name(f"{stem}.machine-{name}.json")
    if not beside.exists():
        raise RowsError(f"{beside} is missing: the record of the machine, which `perf` writes beside its rows. Bring both.")
    try:
        record = json.loads(beside.read_text(encoding="utf-8"))
    except ValueError:
        raise RowsError(f"{beside} is not JSON; `perf` writes it beside its rows.") from None
    if machine_id(record) != name:
        raise RowsError(f"{beside} is not the record of machine {name}: it is that of {machine_id(record)}.")
    return record


def packed(rows: Sequence[Row], cut: Sequence[str] = ()) -> bytes:
    """Rows as they are kept: one JSON object a line, compressed, the same bytes for the same rows; first what was cut off."""
    text = "".join(line + "\n" for line in cut)
    text += "".join(json.dumps(one, ensure_ascii=False, allow_nan=False) + "\n" for one in rows)
    return gzip.compress(text.encode(), mtime=0)


def _certificates(folder: Path) -> dict[str, dict[str, Any]]:
    paths = sorted(folder.glob("*.json"))
    if not paths:
        raise UsageError(f"there are no certificates in {folder}: a report is made in a clone of relpos, which has them.")
    return {path.stem.replace("__", "/", 1): _certificate(path, path.stat().st_mtime_ns) for path in paths}


@cache
def _certificate(path: Path, changed_ns: int) -> dict[str, Any]:
    del changed_ns  # of a file that did not change the schema is checked once
    return certificate.read(path)


def _changed(rows: Sequence[Row]) -> tuple[str, ...]:
    measured = {one["variant"]: one.get("source", "") for one in rows if one.get("origin") == "relpos"}
    now = {one.label: one.source for one in built_in()} if measured else {}
    return tuple(label for label, old in measured.items() if now.get(label) != old)


def _said(path: Path) -> tuple[str, ...]:
    """What a report says of itself before its first list of columns: its list of findings, or its first paragraph."""
    if not path.exists():
        return ()
    paragraphs = [part for part in path.read_text(encoding="utf-8").split("\n\n") if not part.startswith("#")]
    listed = [part for part in paragraphs[:2] if part.startswith("- ") and not part.startswith("- **")]
    return tuple(line.removeprefix("- ").strip() for line in listed[0].splitlines()) if listed else tuple(paragraphs[:1])
