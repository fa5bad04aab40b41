"""The kill table as Markdown, and the words that the console says of a run."""

from collections.abc import Iterable
from statistics import median

from relpos.conformance.faults.alarms import PROFILE
from relpos.conformance.faults.cells import ELSEWHERE, HEAVY
from relpos.conformance.faults.rows import Row
from relpos.conformance.faults.sizes import Size, larger, told
from relpos.conformance.faults.summary import PERCENT_KILLED, Line, complaints, kinds, middle_and_worst

KIND_HEAD = ("kind of fault", "places", "pinned", "drawn", "missed", "seeds killed", "inputs", "seconds")
LINE_HEAD = ("fault", "level", "law", "seeds killed", "pinned", "inputs", "seconds", "reports")

SIZE_HEAD = ("fault", "level", "law", "size", "of the report", "reports")


def counts(lines: list[Line], alarms: list[Row]) -> list[str]:
    """The whole run in three sentences."""
    owed = [line for line in lines if line.cell.owed]
    pinned, missed = sum(line.pinned for line in owed), sum(line.missed for line in owed)
    inputs, seconds = middle_and_worst(owed)
    faults = {(line.cell.scheme, line.cell.fault) for line in owed}
    subjects = {row["subject"] for row in alarms}
    found = [
        f"{len(faults)} faults at {len(owed)} places; the law that owes the kill catches {len(owed) - missed} of them in at "
        f"least {PERCENT_KILLED} % of the seeds: {pinned} by inputs that are always tried, {len(owed) - pinned} by drawn ones.",
        f"Until the kill (median, worst): {inputs} inputs; {seconds} s.",
    ]
    if alarms:
        number = sum(len(row["alarms"]) for row in alarms)
        inputs = sum(row["inputs"] for row in alarms)
        found.append(
            f"{number} alarms on {len(subjects)} right implementations, {len(alarms)} runs of the {PROFILE.name} profile, "
            f"{inputs} inputs."
        )
    return found


def markdown(lines: list[Line], alarms: list[Row], said: str, shrunk: list[Size]) -> str:
    """The report; `said` is what was run, `shrunk` the sizes of counterexamples, where they were asked for."""
    schemes = dict.fromkeys(line.cell.scheme for line in lines)
    parts = [
        "# Kill table: what the laws catch",
        "Written by `python -m relpos faults --report`; nobody edits it. " + said,
        "\n".join(f"- {text}" for text in counts(lines, alarms)),
        f"Every wrong version of `conformance/faults/` is planted at every level it shows at, with the claims its law needs. "
        f"*Pinned*: an input that is always tried kills, so that every seed does. *Drawn*: all seeds at the first level of a "
        f"fault, at most {ELSEWHERE} at its other levels; at most {HEAVY} runs where the law measures or compiles. No "
        "shrinking, first kill counts, as many inputs as the default profile draws. Inputs count the pinned ones, which come "
        "first; seconds are those of one core that may be shared. Both are median, worst. On right implementations, inputs "
        "that are the same for every seed are tried at the first seed alone.",
        "## Missed\n\n" + ("\n".join(f"- {text}" for text in complaints(lines, alarms)) or "Nothing."),
        "## By kind\n\n" + _table(KIND_HEAD, [(group.name, *group.cells) for group in kinds(lines)]),
        *(f"## {scheme}\n\n" + _table(LINE_HEAD, map(_cells, _of(lines, scheme))) for scheme in schemes),
        "## Alarms\n\n" + _alarms(alarms),
        *_shrunk(shrunk),
    ]
    return "\n\n".join(parts) + "\n"


def _shrunk(shrunk: list[Size]) -> list[str]:
    if not shrunk:
        return []
    large = larger(shrunk)
    head = (
        "One input of each fault, where it is at home, from one seed of the quick profile; of the default one where that finds "
        "none. Axes that nobody looks at there count as 1."
    )
    text = "\n\n".join(["## Sizes of counterexamples", *told(shrunk), head])
    return [
        text,
        "Larger than their report's:\n\n" + _table(SIZE_HEAD, large) if large else "None is larger than its report's.",
    ]


def _of(lines: list[Line], scheme: str) -> list[Line]:
    return [line for line in lines if line.cell.scheme == scheme and line.cell.owed]


def _cells(line: Line) -> tuple[str, ...]:
    inputs, seconds = middle_and_worst([line])
    kills = f"{line.killed}/{len(line.attempts)}" + (" **missed**" if line.missed else "")
    cell = line.cell
    return cell.fault, cell.at, cell.law, kills, "yes" if line.pinned else "", inputs, seconds, " ".join(cell.planted().cases)


def _alarms(alarms: list[Row]) -> str:
    by: dict[str, list[Row]] = {}
    for row in alarms:
        by.setdefault(row["subject"], []).append(row)
    cells = [
        (name, str(len(rows)), str(sum(bool(r["alarms"]) for r in rows)), str(sum(r["inputs"] for r in rows)),
         f"{median(r['seconds'] for r in rows):.0f}")
        for name, rows in by.items()
    ]  # fmt: skip
    return _table(("right implementation", "seeds", "alarms", "inputs", "seconds"), cells) if cells else "None were tried."


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
