"""The folder of vectors: nobody else's files are touched, a file is whole or not there, what is up to date is kept."""

import hashlib
import io
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np

from relpos.conformance.errors import UsageError
from relpos.spec.coordinates import NOWHERE

HERE = Path(__file__).parent
INDEX, SCHEMA, README = "index.json", "vectors.schema.json", "README.md"
FORMAT = "relpos vectors, index"
INFINITIES = {"Infinity": np.inf, "-Infinity": -np.inf}
WHOLE = {**dict.fromkeys(("positions", "query_positions", "key_positions"), np.int64), "mask": np.bool_}


def opened(path: Path) -> dict[str, Any]:
    """The index of a folder, made where there is none; UsageError where it cannot be ours."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        there = sorted(p.name for p in path.iterdir() if not _part(p.name))
    except OSError as error:
        raise UsageError(f"--out: {path} cannot be a folder of vectors ({error.strerror}). Name another.") from None
    if not os.access(path, os.W_OK | os.X_OK):
        raise UsageError(f"--out: {path} cannot be written to. Name another folder.")
    index = _index(path / INDEX) if INDEX in there else {"format": FORMAT, "schemes": {}, "files": {}}
    strange = [name for name in there if name != INDEX and name not in index["files"]]
    if strange:
        more = f" and {len(strange) - 3} more" if len(strange) > 3 else ""
        raise UsageError(
            f"--out: {path} holds {', '.join(strange[:3])}{more}, which this command did not write, and it writes over "
            "nobody's files. Name a new or empty folder."
        )
    return index


def _index(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        ours = found["format"] == FORMAT and {"schemes", "files"} <= set(found)
    except (OSError, ValueError, KeyError, TypeError):
        ours = False
    if not ours:
        raise UsageError(f"--out: {path} is not an index of vectors, and it is not written over. Name a new or empty folder.")
    return found


def kept(path: Path, index: Mapping[str, Any], scheme: str, key: str) -> bool:
    """Whether the files of a scheme are those that would be written."""
    entry = index["schemes"].get(scheme, {})
    return entry.get("key") == key and all(_sha256(path / name) == index["files"].get(name) for name in entry["files"])


def store(path: Path, index: dict[str, Any], files: Mapping[str, bytes]) -> None:
    """Write files, then the index that lists them."""
    for name, content in files.items():
        _write(path / name, content)
        index["files"][name] = hashlib.sha256(content).hexdigest()
    index["files"] = dict(sorted(index["files"].items()))
    index["schemes"] = dict(sorted(index["schemes"].items()))
    _write(path / INDEX, (json.dumps(index, indent=1) + "\n").encode())


def forget(path: Path, index: dict[str, Any], scheme: str, names: set[str]) -> None:
    """Remove what an earlier call wrote of a scheme and this one does not, such as its NPZ."""
    for name in set(index["schemes"].get(scheme, {}).get("files", ())) - names:
        (path / name).unlink(missing_ok=True)
        index["files"].pop(name, None)


def beside() -> dict[str, bytes]:
    """What every folder of vectors has besides vectors: the schema, the manual and a consumer."""
    shipped = [HERE / SCHEMA, HERE / README, *sorted((HERE / "javascript").glob("*.mjs"))]
    return {path.name: path.read_bytes() for path in shipped}


def checked(document: dict[str, Any]) -> dict[str, Any]:
    """The document, or ValidationError where it departs from the schema."""
    jsonschema.validate(document, json.loads((HERE / SCHEMA).read_text(encoding="utf-8")))
    return document


def as_json(document: dict[str, Any]) -> bytes:
    """Header line by line, then a line per case, so that a difference shows where it is."""
    head = json.dumps({n: v for n, v in document.items() if n != "cases"}, indent=1, ensure_ascii=False)
    cases = ",\n".join(json.dumps(case, separators=(",", ":"), ensure_ascii=False) for case in document["cases"])
    return f'{head[:-2]},\n "cases": [\n{cases}\n]}}\n'.encode()


def as_npz(document: dict[str, Any]) -> bytes:
    """The same arrays by `case-id/group/name`, and all the rest, without their data, as JSON text under `document`."""
    arrays: dict[str, np.ndarray] = {}
    bare = {**document, "cases": [_bare(case, arrays, case["id"]) for case in document["cases"]]}
    arrays["document"] = np.frombuffer(as_json(bare), dtype=np.uint8)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def _bare(value: Any, arrays: dict[str, np.ndarray], name: str) -> Any:
    if not isinstance(value, dict):
        return value
    if "data" not in value:
        return {key: _bare(inner, arrays, f"{name}/{key}") for key, inner in value.items()}
    shape = value["shape"]
    arrays[name] = _array(value["data"], shape, WHOLE.get(name.rpartition("/")[2], np.float64))
    for key in ("allowed_float32", "M", "P"):
        if key in value:
            arrays[f"{name}/{key}"] = _array(value[key], shape)
    return {key: inner for key, inner in value.items() if key not in ("data", "allowed_float32", "M", "P")}


def _array(data: list[Any], shape: list[int], dtype: Any = np.float64) -> np.ndarray:
    """float64; positions are int64, with `NOWHERE` for a coordinate that there is not, masks boolean."""
    plain = [NOWHERE if x is None else INFINITIES.get(x, x) if isinstance(x, str) else x for x in data]
    return np.array(plain, dtype=dtype).reshape(shape)


def _write(path: Path, content: bytes) -> None:
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_bytes(content)
        os.replace(part, path)
    except OSError as error:
        raise UsageError(f"--out: {path} could not be written ({error.strerror}).") from None


def _part(name: str) -> bool:
    return name.startswith(".") and name.endswith(".part")


def _sha256(path: Path) -> str | None:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
