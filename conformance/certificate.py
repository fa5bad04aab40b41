"""The certificate: a verdict as JSON with header, results and footer, checked against `certificate.schema.json`."""

import hashlib
import inspect
import json
import platform
import re
from datetime import UTC, datetime
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import hypothesis
import jsonschema
import numpy as np
import torch

import relpos
from relpos.conformance.errors import UsageError
from relpos.conformance.isolated import Described
from relpos.conformance.runner import FAIL
from relpos.conformance.sources import with_shared
from relpos.conformance.subject import Subject
from relpos.conformance.verdict import Verdict

HERE = Path(__file__).parent
SHARED_DEFINITIONS = ("contract", "attention", "positions")


@cache
def schema() -> dict[str, Any]:
    """The JSON schema of a certificate."""
    return json.loads((HERE / "certificate.schema.json").read_text(encoding="utf-8"))


def certificate(verdict: Verdict) -> dict[str, Any]:
    """A verdict as a certificate."""
    subject = verdict.subject
    document = {
        "header": {
            "relpos": relpos.__version__,
            "date": datetime.now(UTC).date().isoformat(),
            "scheme": subject.scheme,
            "scheme_hash": scheme_hash(subject.scheme),
            "laws_hash": laws_hash(),
            "implementation": _implementation(subject),
            "profile": verdict.profile.name,
            "seed_policy": "derandomized" if verdict.seed is None else f"seed {verdict.seed}",
            "assumed": list(verdict.assumed),
            **({"deviations": [d.document for d in subject.accepted]} if subject.accepted else {}),
            "machine": machine(),
        },
        "results": [
            {
                "law": r.law.name,
                "title": r.law.title,
                "verdict": r.verdict,
                "reason": r.reason,
                "inputs": r.inputs,
                "refused": r.refused,
                "largest_units": round(r.largest_units, 3),
                **({"smallest_input": json.loads(r.failure.plan.to_json())} if r.failure is not None else {}),
            }
            for r in verdict.results
        ],
        "footer": {
            "verdict": verdict.word,
            "exit_code": verdict.exit_code,
            "laws": len(verdict.results),
            "failed": [r.law.name for r in verdict.results if r.verdict == FAIL],
            "inputs": sum(r.inputs for r in verdict.results),
            "complete": not verdict.interrupted and not verdict.unjudged,
            "passes_under": list(verdict.elsewhere),
        },
    }
    return checked(document)


def checked(document: Any) -> dict[str, Any]:
    """The document, or UsageError that says where it departs from the schema."""
    try:
        jsonschema.validate(document, schema())
    except jsonschema.ValidationError as error:
        where = "/".join(map(str, error.absolute_path)) or "its top level"
        raise UsageError(f"not a relpos certificate: {error.message} at {where}.") from None
    return document


def read(path: Path) -> dict[str, Any]:
    """A certificate from a file; UsageError if it is none."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UsageError(f"{path} is not JSON: {error}.") from None
    return checked(document)


def dumps(document: dict[str, Any]) -> str:
    """Stable text of a certificate."""
    return json.dumps(document, indent=1, ensure_ascii=False)


def certificate_name(label: str) -> str:
    """File name of a built-in's certificate: alibi/toeplitz -> alibi__toeplitz.json."""
    return label.replace("/", "__") + ".json"


def scheme_hash(scheme: str) -> str:
    """Of everything that defines a scheme: its file, the definitions it takes from others, attention, positions, contract."""
    return _hash(*(_source(f"relpos.spec.{name}") for name in (*_definitions(scheme), *SHARED_DEFINITIONS)))


def _definitions(scheme: str) -> list[str]:
    """The scheme and, in the order they are met, the other files of `spec/` that it and they import."""
    found = [scheme]
    for name in found:
        for taken in re.findall(r"^from relpos\.spec\.(\w+) import", _source(f"relpos.spec.{name}").decode(), re.MULTILINE):
            if taken not in (*found, *SHARED_DEFINITIONS):
                found.append(taken)
    return found


@cache
def laws_hash() -> str:
    """Of everything that judges: every module of the judge and of the laws, not the faults."""
    return _hash(*(p.read_bytes() for p in sorted([*HERE.glob("*.py"), *HERE.glob("laws/*.py")])))


def source_hash(subject: Subject) -> str | None:
    """Of the file an implementation lives in, and of what it shares if it is one of ours; None where there is no source."""
    if isinstance(subject.target, Described):
        return subject.target.source_hash
    try:
        file = inspect.getsourcefile(inspect.unwrap(subject.target))
    except TypeError:
        file = inspect.getsourcefile(type(subject.target)) if not inspect.isbuiltin(subject.target) else None
    if file is None or not Path(file).exists():
        return None
    return _hash(*(path.read_bytes() for path in with_shared([Path(file).resolve()])))


def machine() -> dict[str, str]:
    """What the verdict was reached on."""
    return {
        "python": platform.python_version(),
        "torch": torch.__version__.split("+")[0],
        "numpy": np.__version__,
        "hypothesis": hypothesis.__version__,
        "system": platform.system(),
        "processor": platform.machine(),
    }


def _implementation(subject: Subject) -> dict[str, Any]:
    return {
        "name": subject.spec,
        "kind": subject.kind,
        "level": subject.level,
        "settings": dict(subject.fixed),
        "source_hash": source_hash(subject),
        "softmax": subject.card.softmax,
        "dtypes": list(subject.dtypes),
        "positions": subject.positions,
    }


def _source(module: str) -> bytes:
    file = import_module(module).__file__
    assert file is not None
    return Path(file).read_bytes()


def _hash(*parts: bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()[:16]
