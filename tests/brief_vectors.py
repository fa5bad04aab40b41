"""How the tests of vectors get some, in a second."""

import json
from pathlib import Path

from relpos.conformance.commands import main

BRIEF = ("vectors", "--brief")


def written_small(path: Path) -> Path:
    """Brief vectors of alibi at its first level, in both formats."""
    assert main([*BRIEF, "--scheme", "alibi", "--level", "contribution", "--out", str(path)]) == 0
    return path


def read(path: Path, scheme: str) -> dict:
    return json.loads((path / f"{scheme}.json").read_text(encoding="utf-8"))
