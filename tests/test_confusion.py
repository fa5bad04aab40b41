"""The diagnosis names the mistake that was made, or lists it with those that nothing can tell from it; never another.

`indistinguishable.txt` holds what is listed together, and the mistakes that the battery does not show. Written anew by
`python tests/test_confusion.py`: every line of it must have a reason, or the battery wants another input.
"""

from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

from relpos.conformance.diagnosis import diagnose
from relpos.conformance.errors import AdapterError
from relpos.conformance.faults.api import Fault, Planted
from relpos.conformance.faults.confusion import NOTHING, UNIQUE, WRONG, Row, accuracy, known_faults, rows
from relpos.conformance.faults.registry import faults
from relpos.conformance.planting import plant
from relpos.conformance.smoke import smoke
from relpos.spec.registry import schemes

FILE = Path(__file__).with_name("indistinguishable.txt")
EVERY = 19  # of the faults of a scheme, that goes through the whole diagnosis
PLANTED = [(scheme, fault) for scheme in schemes() for fault in faults(scheme) if isinstance(fault, Planted)]
# One scheme of every form and those with tables, whose mistakes are the most alike; the others under `-m exhaustive`.
READ = ("alibi", "clipped", "none", "rope", "shaw", "sinusoidal", "swin", "t5")
OFTEN = 5  # of the planted ones, every how many on every change; the others under `-m exhaustive`
SHARED_OUT = [
    pytest.param(scheme, fault, id=f"{scheme}-{fault.name}", marks=[] if n % OFTEN == 0 else [pytest.mark.exhaustive])
    for n, (scheme, fault) in enumerate(PLANTED)
]


@cache
def matrix(scheme: str) -> tuple[Row, ...]:
    """All rows of a scheme, computed once."""
    return tuple(rows(scheme))


def described(found: Iterable[Row]) -> list[str]:
    """A line for every fault that is not named alone."""
    return [f"{row.scheme} {row.level} {row.fault}: {' = '.join(row.like) or row.word}" for row in found if row.word != UNIQUE]


@pytest.mark.parametrize("scheme", [pytest.param(s, marks=() if s in READ else pytest.mark.exhaustive) for s in schemes()])
def test_nothing_but_the_mistake_and_its_twins_is_named(scheme: str) -> None:
    found = matrix(scheme)
    assert not [row for row in found if row.word == WRONG]
    expected = [line for line in FILE.read_text(encoding="utf-8").splitlines() if line.startswith(f"{scheme} ")]
    assert described(found) == expected
    for row in found[::EVERY]:
        known = {fault.name: fault for fault in known_faults(scheme, row.level)}
        diagnosed = diagnose(smoke(plant(scheme, row.level, known[row.fault])))
        assert diagnosed.like == tuple(known[name].says for name in row.like), row
        assert diagnosed.equal == (row.word == NOTHING), row


@pytest.mark.parametrize(("scheme", "fault"), SHARED_OUT)
def test_a_whole_implementation_is_not_mistaken_for_another_mistake(scheme: str, fault: Planted) -> None:
    try:
        found = diagnose(smoke(plant(scheme, "itself", fault)))
    except AdapterError:  # it does not even answer: no diagnosis
        return
    named = {other.name for other in faults(scheme) if isinstance(other, Fault) and other.says in found.like}
    if len(found.like) + len(found.settings) == 1:
        assert named <= set(fault.alike), f"{fault.says} is taken for {', '.join(found.like + found.settings)}"
        assert named or found.settings == (), found


def test_what_is_alike_has_a_name() -> None:
    for scheme, fault in PLANTED:
        assert set(fault.alike) <= {other.name for other in faults(scheme)}, fault.name


def test_the_table_counts_every_fault_once() -> None:
    found = list(matrix("none"))
    lines = accuracy(found)
    assert [line.split()[0] for line in lines] == ["scheme", "none", "none"]
    assert Counter(row.level for row in found) == {"logits": sum(map(int, lines[1].split()[2:])), "attention": sum(
        map(int, lines[2].split()[2:])
    )}  # fmt: skip


if __name__ == "__main__":
    FILE.write_text("\n".join(line for scheme in schemes() for line in described(rows(scheme))) + "\n", encoding="utf-8")
