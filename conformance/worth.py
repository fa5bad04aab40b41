"""What a ✓ is worth: the share of planted faults that so many inputs of a law catch, from `worth.json`.

`python -m relpos faults --worth conformance/worth.json` writes it, from whole runs of the kill table and never by hand. Per
law and level it holds how the share grows with the inputs tried; every fault at every level it is planted at counts alike,
with the share of its seeds that had killed by then. A seed that never kills is never counted as caught, and beyond the inputs
that a run tried the share stays as it is, so that it is a lower bound.
"""

import json
from bisect import bisect_right
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema

HERE = Path(__file__).parent
DIGITS = 4
CAUGHT = "catches: of the faults planted for that law, found by so many inputs (python -m relpos faults)"


@cache
def schema() -> dict[str, Any]:
    """The JSON schema of `worth.json`."""
    return json.loads((HERE / "worth.schema.json").read_text(encoding="utf-8"))


@cache
def data() -> dict[str, Any]:
    """What is known: law → level → faults, inputs and shares."""
    path = HERE / "worth.json"
    document = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"laws": {}}
    if path.exists():
        jsonschema.validate(document, schema())
    return document["laws"]


def share_caught(law: str, level: str, inputs: int) -> float | None:
    """The share of the faults planted for a law at a level that so many inputs catch; None where none was planted."""
    known = data().get(law, {}).get(level)
    if known is None:
        return None
    place = bisect_right(known["inputs"], inputs)
    return known["shares"][place - 1] if place else 0.0


def percent_caught(law: str, level: str, inputs: int) -> int | None:
    """The same in whole percent, never rounded up."""
    share = share_caught(law, level, inputs)
    return None if share is None else int(share * 100 + 10.0**-DIGITS)


def measured(lines: Iterable[Any]) -> str:
    """The text of `worth.json`, from the lines of a whole run."""
    groups: dict[tuple[str, str], list[Any]] = {}
    for line in lines:
        groups.setdefault((line.cell.law, line.cell.at), []).append(line)
    laws: dict[str, dict[str, Any]] = {}
    for law, level in sorted(groups, key=lambda place: (int(place[0][1:]), place[1])):
        laws.setdefault(law, {})[level] = _grown(groups[law, level])
    document = {"laws": laws}
    jsonschema.validate(document, schema())
    return json.dumps(document, separators=(",", ":")).replace('},"', '},\n"') + "\n"


def _grown(lines: list[Any]) -> dict[str, Any]:
    weights: dict[int, float] = {}
    for line in lines:
        for attempt in line.attempts:
            if attempt.killed:
                weights[attempt.inputs] = weights.get(attempt.inputs, 0.0) + 1 / len(line.attempts)
    inputs, shares, sofar = [], [], 0.0
    for number in sorted(weights):
        sofar += weights[number]
        share = int(sofar / len(lines) * 10**DIGITS + 10.0**-DIGITS) / 10**DIGITS
        if not shares or share > shares[-1]:
            inputs.append(number)
            shares.append(share)
    return {"faults": len(lines), "runs": sum(len(line.attempts) for line in lines), "inputs": inputs, "shares": shares}
