"""Rows: one JSON object a line, one line per measured point, failures among them; appended as they come.

A run that was killed is read back and goes on: what is in the file is not measured again.
"""

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from relpos.perf.point import Shape, shape_fields

SCHEMA, PACKED = "relpos-perf-1", ".gz"
OK, OOM, TOO_SLOW, NOT_CERTIFIED, UNSUPPORTED, UNSTABLE, FAILED = (
    "ok", "oom", "too-slow", "not-certified", "unsupported", "unstable", "failed",
)  # fmt: skip
STATUSES = (OK, OOM, TOO_SLOW, NOT_CERTIFIED, UNSUPPORTED, UNSTABLE, FAILED)
MEASURED = (OK, UNSTABLE)  # they have figures; only the first are ranked
REQUIRED = ("schema", "run", "machine", "scheme", "variant", "status", "mode", "causal", "dtype", "key_length")


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
    """All rows of a file, packed or not; a last line that was cut off is left out, any other that is no row is an error."""
    return parsed(path, text_of(path))


def text_of(path: Path) -> str:
    """What a file of rows holds, packed or not. RowsError: it is not there or not whole."""
    if not path.exists():
        raise RowsError(f"there is no file of rows {path}; `nox -s perf -- --out {path.name.removesuffix(PACKED)}` makes one.")
    try:
        data = path.read_bytes()
        return (gzip.decompress(data) if path.suffix == PACKED else data).decode("utf-8", errors="replace")  # may be cut
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise RowsError(f"{path} is no whole gzip file ({error}): fetch it again.") from None
    except OSError as error:
        raise RowsError(f"{path} could not be read ({error.strerror}).") from None


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
    missing = [name for name in REQUIRED if name not in found]
    if missing:
        raise RowsError(f"{path}, line {number}: the row has no {', '.join(missing)}.")
    return found


def done(path: Path, machine: str) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Rows of this machine that need not be measured again; RowsError if the file holds those of another one."""
    if path.suffix == PACKED:
        raise RowsError(f"{path} is packed: nothing can be added to it. Choose another --out.")
    if not path.exists():
        return {}
    found = read(path)
    others = {one["machine"] for one in found} - {machine}
    if others:
        raise RowsError(f"{path} holds rows of machine {', '.join(sorted(others))}, this is {machine}: figures of two machines "
                        "are never put together. Choose another --out.")  # fmt: skip
    return latest(found)
