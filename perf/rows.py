"""Rows: one JSON object a line, one line per measured point, failures among them; appended as they come.

A run that was killed is read back and goes on: what is in the file is not measured again.
"""

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from relpos.perf.fields import (
    FAILED,
    MEASURED,
    NOT_CERTIFIED,
    OK,
    OOM,
    SIZED,
    STATUSES,
    TOO_SLOW,
    UNSTABLE,
    UNSUPPORTED,
    complaint,
)
from relpos.perf.point import Shape, shape_fields

__all__ = [
    "FAILED", "MEASURED", "NOT_CERTIFIED", "OK", "OOM", "SIZED", "STATUSES", "TOO_SLOW", "UNSTABLE", "UNSUPPORTED", "RowsError",
    "append", "broke", "cut_lines", "done", "key", "latest", "parsed", "read", "regular", "row", "text_of",
]  # fmt: skip
SCHEMA, PACKED = "relpos-perf-1", ".gz"


class RowsError(ValueError):
    """A file of rows cannot be read or written."""


def row(run: Mapping[str, Any], variant: Any, shape: Shape, status: str, **figures: Any) -> dict[str, Any]:
    """One row: what was run, where, and what came of it."""
    assert status in STATUSES, status
    head = {"schema": SCHEMA, **run, "scheme": variant.scheme, "variant": variant.label}
    head |= {"origin": variant.origin, "source": variant.source}
    return {**head, **shape_fields(shape), "status": status, **figures}


def broke(one: Mapping[str, Any]) -> bool:
    """Whether something went wrong that is to be looked at: it raised, was killed, gave a wrong output, or is not certified."""
    return one["status"] in (FAILED, NOT_CERTIFIED) or "exit_code" in one


def key(one: Mapping[str, Any]) -> tuple[Any, ...]:
    """What makes a row the only one of its kind in a file."""
    names = ("variant", "mode", "causal", "dtype", "device", "batch", "heads", "head_dim", "key_length")
    return tuple(one.get(name) for name in names)


def latest(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Rows by key; of those that were measured again the last."""
    return {key(one): dict(one) for one in rows}


def append(path: Path, found: Iterable[Mapping[str, Any]]) -> None:
    """Add rows to a file, each a line of its own; RowsError if there is no space or no right to write."""
    text = "".join(json.dumps(one, ensure_ascii=False, allow_nan=False) + "\n" for one in found)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        broken = path.exists() and path.stat().st_size > 0 and not path.read_bytes().endswith(b"\n")
        with path.open("a", encoding="utf-8") as file:
            file.write("\n" + text if broken else text)
            file.flush()
    except OSError as error:
        raise RowsError(f"the rows could not be written to {path} ({error.strerror}); what was there is unharmed.") from None


def read(path: Path) -> list[dict[str, Any]]:
    """All rows of a file, packed or not; lines that were cut off are left out (see `cut_lines`), any other is a RowsError."""
    return parsed(path, text_of(path))


def text_of(path: Path) -> str:
    """What a file of rows holds, packed or not. RowsError: it is not there or not whole."""
    if not path.exists():
        raise RowsError(f"there is no file of rows {path}; `nox -s perf -- --out {path.name.removesuffix(PACKED)}` makes one.")
    if not path.is_dir():
        regular(path)
    try:
        data = path.read_bytes()
        return (gzip.decompress(data) if path.suffix == PACKED else data).decode("utf-8", errors="replace")  # may be cut
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise RowsError(f"{path} is no whole gzip file ({error}): fetch it again.") from None
    except OSError as error:
        raise RowsError(f"{path} could not be read ({error.strerror}).") from None


def regular(path: Path) -> None:
    """RowsError where something is there that is no regular file: a device or a pipe is never read to its end."""
    if path.exists() and not path.is_file():
        kind = "a folder" if path.is_dir() else "a device or a pipe"
        raise RowsError(f"{path} must be a regular file; it is {kind}.")


def cut_lines(text: str) -> list[str]:
    """Lines that only the beginning of a row is left of, which `parsed` leaves out: who was killed wrote no more."""
    return [line for line in text.split("\n") if line.startswith('{"schema"') and _is_cut(line)]


def _is_cut(line: str) -> bool:
    try:
        json.loads(line)
    except json.JSONDecodeError as error:
        return _cut_off(line, error)
    return False


def parsed(path: Path, text: str) -> list[dict[str, Any]]:
    """Rows of a text that came from a file."""
    return list(_rows(path, text.split("\n")))


def _rows(path: Path, lines: list[str]) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            found = json.loads(line)
        except json.JSONDecodeError as error:
            # Who was killed left half a line; a later run has begun a new one below it.
            if _cut_off(line, error):
                continue
            raise RowsError(f"{path}, line {number}: not JSON. The file was edited or is no file of rows.") from None
        yield _checked(path, number, found)


def _cut_off(line: str, error: json.JSONDecodeError) -> bool:
    """Whether a row's beginning stands there and its end is missing, be it after a brace of its settings."""
    return line.startswith('{"schema"') and (not line.rstrip().endswith("}") or error.pos >= len(line.rstrip()))


def _checked(path: Path, number: int, found: Any) -> dict[str, Any]:
    schema = found.get("schema") if isinstance(found, dict) else None
    if schema != SCHEMA:
        raise RowsError(f"{path}, line {number}: schema is {schema!r}; this version reads {SCHEMA}. Measure again, or use the "
                        "version of relpos that wrote it.")  # fmt: skip
    if said := complaint(found):
        raise RowsError(f"{path}, line {number}: {said}.")
    return found


def done(path: Path, machine: str) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Rows of this machine that need not be measured again; RowsError if the file holds those of another one."""
    if path.suffix == PACKED:
        raise RowsError(f"{path} is packed: nothing can be added to it. Choose another --out.")
    regular(path)
    if not path.exists():
        return {}
    found = read(path)
    others = {one["machine"] for one in found} - {machine}
    if others:
        raise RowsError(f"{path} holds rows of machine {', '.join(sorted(others))}, this is {machine}: figures of two machines "
                        "are never put together. Choose another --out.")  # fmt: skip
    return latest(found)
