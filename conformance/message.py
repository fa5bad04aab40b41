"""A failure in words: law, smallest input, got against expected, what it looks like, where to read on, how to repeat it."""

import shlex
from collections.abc import Mapping
from typing import Any

import numpy as np

from relpos.conformance import grids
from relpos.conformance.diagnosis import Diagnosis
from relpos.conformance.judge import Comparison, LawFailure
from relpos.conformance.laws.base import Law
from relpos.conformance.subject import Subject
from relpos.impls._variants import written_variants

ROWS, COLUMNS = 5, 4
WIDTH, MARGINS = 80, 7  # of a line, and what is neither label nor number in it
HOPELESS = 1e6  # units; beyond it the number only says how small the bound is
MARK = "◄"
DIGITS = (3, 5, 7, 9)  # of a number in a table

# Claims that a command line can repeat.
SAID = (
    "level", "softmax", "corner", "layout", "mask", "rename", "binds", "positions", "dtypes", "gradient",
    "double_backward", "export", "vmap", "masked_nan", "max_position", "max_length", "unclaimed", "variants",
)  # fmt: skip


def failure_lines(law: Law, failure: LawFailure, subject: Subject) -> list[str]:
    """The message of one law, without its headline."""
    says = [f"{failure.says[:1].upper()}{failure.says[1:]}."] if "witness" in failure.facts else None
    lines = says or [law.statement, f"It does not hold: {failure.says}."]
    lines += [f"{_which(failure)}: {failure.plan.describe()}"]
    if failure.comparison is not None:
        lines += ["", *table_lines(failure.comparison)]
        c, special = failure.comparison, getattr(subject.cls, "special", 0)
        if subject.on_grid and c.units.size and (there := grids.whereabouts(failure.plan, c.axes, c.worst, special)):
            lines.append(f"  {there}")
    if "table" in failure.facts:
        lines += _fact_lines(failure.facts)
    return [*lines, "", f"Definition: {definition_place(subject)}", f"Again:      {again(subject, law, failure)}"]


def _which(failure: LawFailure) -> str:
    """What ends the process cannot be shrunk; a witness is given."""
    if "witness" in failure.facts:
        return "Witness"
    return "Failing input, as drawn" if failure.facts.get("as drawn") else "Smallest failing input"


def headline(law: Law) -> str:
    """Name and title of a law."""
    return f"{law.name} · {law.title}"


def again(subject: Subject, law: Law, failure: LawFailure) -> str:
    """A command line that repeats this very input outside pytest."""
    words = ["python", "-m", "relpos", "check", subject.spec, "--scheme", subject.scheme]
    words += [word for name, value in subject.given.items() for word in ("--set", f"{name}={value}")]
    words += [word for name, value in _claims(subject).items() for word in ("--claim", f"{name}={_said(value)}")]
    return shlex.join([*words, "--law", law.name, "--case", failure.plan.to_json()])


def definition_place(subject: Subject) -> str:
    """The file to read."""
    return f"spec/{subject.scheme}.py (relpos.spec.{subject.scheme})"


def diagnosis_lines(
    diagnosis: Diagnosis | None, elsewhere: tuple[str, ...], passes_if: tuple[str, ...], scheme: str
) -> list[str]:
    """What the failing implementation behaves like, and what would make it pass."""
    lines = []
    if elsewhere:
        lines += [f"Every law passes under {' or under '.join(elsewhere)}; if that is what you mean, say "]
        lines[-1] += " or ".join(" ".join(f"--set {s}" for s in choice.split()) for choice in elsewhere) + "."
        lines[-1] += f" If not, it is a mistake: spec/{scheme}.py says what each value means."
    if passes_if:
        lines.append(
            f"Every law passes if {' or if '.join('--claim ' + c for c in passes_if)}; it is not a pass until you say so."
        )
    if diagnosis is None or elsewhere:
        return lines
    settings = list(diagnosis.settings)
    named = [f"{scheme} with {says}" for says in diagnosis.like] + [f"{scheme} with {s}" for s in settings]
    beside = f" (where it answers; elsewhere it raised {diagnosis.beside})" if diagnosis.beside else ""
    if len(named) == 1:
        lines.append(f"Looks like: {named[0]}{beside}.")
    elif named:
        lines.append("Looks like one of: " + "; ".join(named) + f"{beside}.")
    elif diagnosis.hint and not passes_if:
        lines.append(f"Diagnosis: {diagnosis.hint}.")
    return lines


def table_lines(c: Comparison) -> list[str]:
    """Got and expected around the worst element, which is marked."""
    if not c.units.size:
        return []
    worst = c.worst
    title = f"{_place(c)}: got {_number(c.got[worst])}, expected {_number(c.expected[worst])} ({_beyond(c)})"
    return [title, *(_matrix(c) if c.units.ndim > 1 else _vector(c))]


def _place(c: Comparison) -> str:
    """Which element: by its axes, or by the label of its row where rows have one."""
    if c.labels:
        return f"{c.labels[c.worst[-2]]}, {c.axes[-1]} {c.worst[-1]}"
    return f"{c.name} at " + ", ".join(f"{axis} {n}" for axis, n in zip(c.axes, c.worst, strict=True))


def _vector(c: Comparison) -> list[str]:
    lines = [f"  {c.axes[0]:<8} {'got':>12} {'expected':>12}   off by"]
    for n in _window(c.worst[0], ROWS, len(c.got)):
        mark = f" {MARK}" if n == c.worst[0] else ""
        lines.append(f"  {n:<8} {_number(c.got[n]):>12} {_number(c.expected[n]):>12}   {_off(c.got[n], c.expected[n])}{mark}")
    return lines


def _matrix(c: Comparison) -> list[str]:
    *lead, row, column = c.worst
    got, want = c.got[tuple(lead)], c.expected[tuple(lead)]
    rows, columns = _window(row, ROWS, got.shape[0]), _window(column, COLUMNS, got.shape[1])
    label = max(len(c.axes[-2]), *(len(_row(c, a)) for a in rows))
    digits = _telling(got[row, column], want[row, column])
    shown = {(n, a, b): _short(x[a, b], digits) for n, x in enumerate((got, want)) for a in rows for b in columns}
    cell = 1 + max(map(len, shown.values()))
    columns = _window(column, min(COLUMNS, max((WIDTH - label - MARGINS) // (2 * cell), 1)), got.shape[1])
    span = f"{c.axes[-1]} {columns[0]}" + (f"…{columns[-1]}" if len(columns) > 1 else "")
    width = max(cell * len(columns), len(f"got, {span}"))
    lines = [f"  {c.axes[-2]:>{label}}  {'got, ' + span:<{width}}  expected"]
    for a in rows:
        left_text, right_text = ("".join(f"{shown[n, a, b]:>{cell}}" for b in columns) for n in (0, 1))
        lines.append(f"  {_row(c, a):>{label}} {left_text:<{width}}  {right_text}{' ' + MARK if a == row else ''}")
    return lines


def _row(c: Comparison, n: int) -> str:
    return c.labels[n] if c.labels else str(n)


def _fact_lines(facts: Mapping[str, Any]) -> list[str]:
    lines = ["", str(facts["table"])]
    if "got" in facts:
        lines.append("  query   got   expected")
        lines += [
            f"  {n:<7} {_bits(g)}   {_bits(e)}" for n, (g, e) in enumerate(zip(facts["got"], facts["expected"], strict=True))
        ]
    return lines


def _bits(row: list[int]) -> str:
    return "".join("●" if seen else "·" for seen in row)


def _window(centre: int, size: int, length: int) -> range:
    """At most `size` indices around one, within an axis."""
    first = max(0, min(centre - size // 2, length - size))
    return range(first, min(first + size, length))


def _off(got: float, want: float) -> str:
    if got == want:
        return "–"
    if want and np.isfinite(got) and np.isfinite(want) and got / want > 0:
        return f"×{got / want:.4g}"
    return f"{got - want:+.4g}"


def _number(value: float) -> str:
    return f"{value + 0.0:.6g}"  # + 0.0: no one asks for −0


def _short(value: float, digits: int) -> str:
    return f"{value + 0.0:.{digits}g}"


def _telling(got: float, want: float) -> int:
    """The fewest digits that tell the worst cell from what it should be."""
    return next((n for n in DIGITS if _short(got, n) != _short(want, n)), DIGITS[-1])


def _beyond(c: Comparison) -> str:
    """How far beyond rounding; a number only where it says something."""
    if not np.isfinite(c.largest) or c.largest > HOPELESS:
        return "far beyond rounding"
    return f"{c.largest:.3g} units of rounding, {_number(c.allowed)} are allowed"


def _claims(subject: Subject) -> dict[str, Any]:
    """Claims that differ from what the implementation itself states, so that the line repeats them."""
    own = getattr(subject.target, "__relpos__", {})
    default = type(subject.card)()
    found = {}
    for name in SAID:
        value = getattr(subject.card, name)
        if value != getattr(default, name) and own.get(name) != value:
            found[name] = value
    return found


def _said(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        listed = any(isinstance(b, (tuple, list)) for b in value.values())
        return written_variants(value) if listed else ",".join(f"{a}:{b}" for a, b in value.items())
    return ",".join(value) if isinstance(value, tuple) else str(value)
