"""Everything that is written to the console, through rich; the only module that prints."""

import sys
from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from relpos.conformance.laws import laws
from relpos.conformance.message import diagnosis_lines, failure_lines, headline
from relpos.conformance.runner import ACCEPTED, FAIL, NOT_APPLICABLE, NOT_CLAIMED, PASS, REFUSED, LawResult
from relpos.conformance.settings import choices
from relpos.conformance.verdict import BROKEN, CONFORMS, EXIT_CODES, INCOMPLETE, UNDECIDED, Verdict
from relpos.conformance.worth import CAUGHT, percent_caught
from relpos.spec.registry import schemes, settings_class

SIGNS = {
    PASS: ("✓", "green"),
    FAIL: ("✗", "red bold"),
    NOT_CLAIMED: ("○", "dim"),
    NOT_APPLICABLE: ("–", "dim"),
    REFUSED: ("∅", "yellow"),
    ACCEPTED: ("≈", "yellow"),
}
STYLES = {CONFORMS: "green", UNDECIDED: "yellow", INCOMPLETE: "yellow"}
LEGEND = "✓ holds   ✗ does not   – does not apply   ○ not claimed   ∅ every input refused   ≈ accepted"
JUDGED = (PASS, FAIL, ACCEPTED)


def console(*, error: bool = False) -> Console:
    """A console for results, or for progress and complaints."""
    return Console(stderr=error, highlight=False, soft_wrap=False)


def progress_bar() -> Progress:
    """Progress on standard error, gone when done; nothing at all where nobody watches."""
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=20), MofNCompleteColumn(), TimeElapsedColumn())
    err = console(error=True)
    return Progress(*columns, console=err, transient=True, disable=not err.is_terminal)


def show_verdict(verdict: Verdict) -> None:
    """One implementation: what was assumed, the laws, the verdict, then each failure once."""
    out = console()
    show_beginning(out, verdict)
    for result in verdict.results:
        show_result(out, result, verdict.subject.level)
    show_ending(out, verdict)


def show_beginning(out: Console, verdict: Verdict) -> None:
    """What is judged, and what is assumed of it."""
    subject = verdict.subject
    out.print()
    out.print(Text.assemble((subject.scheme, "bold"), f" · {subject.spec} · {verdict.profile.name} profile"))
    _labelled(out, "ASSUMED", ", ".join(verdict.assumed))
    if subject.given:
        _labelled(out, "GIVEN", ", ".join(f"{n}={v}" for n, v in subject.given.items()))
    out.print()


def show_result(out: Console, result: LawResult, level: str) -> None:
    """One law in a line, with what it is worth at that level; those that do not apply are named together at the end."""
    if result.verdict == NOT_APPLICABLE:
        return
    sign, style = SIGNS[result.verdict]
    line = Table(box=None, show_header=False, padding=(0, 1), pad_edge=False, expand=True)
    for width in (1, 3, min(max(len(law.title) for law in laws()), max(out.width - 40, 12))):
        line.add_column(width=width)
    line.add_column(ratio=1)
    detail = Text(_detail(result, level), style="" if result.verdict == FAIL else "dim")
    line.add_row(Text(sign, style=style), result.law.name, escape(result.law.title), detail)
    out.print(Padding(line, (0, 2)))


def show_ending(out: Console, verdict: Verdict) -> None:
    """What was not judged, the verdict, what else would fit, then each failure once."""
    if left := _not_applicable(verdict.results):
        _labelled(out, "  –", "not applicable: " + "; ".join(left), style="dim")
    if any("· catches" in _detail(r, verdict.subject.level) for r in verdict.results):
        _labelled(out, "  %", CAUGHT, style="dim")
    if verdict.unjudged:
        _labelled(out, "  …", f"not judged, it ended before: {', '.join(verdict.unjudged)}", style="dim")
    judged, inputs = sum(r.verdict in JUDGED for r in verdict.results), sum(r.inputs for r in verdict.results)
    out.print(Text(f"{_count(judged, 'law')}, {inputs} inputs, {verdict.seconds:.0f} s", style="dim"))
    out.print(Text(_closing(verdict), style=STYLES.get(verdict.word, "red bold")))
    for line in diagnosis_lines(verdict.diagnosis, verdict.elsewhere, verdict.passes_if, verdict.subject.scheme):
        out.print(Text(line))
    # Undecided, one failure is enough to show what the assumed setting gives.
    for result in verdict.failures[: 1 if verdict.word == UNDECIDED else None]:
        show_failure(out, result, verdict)


def show_failure(out: Console, result: LawResult, verdict: Verdict) -> None:
    """One failing law, whole."""
    assert result.failure is not None
    out.print()
    out.print(Rule(headline(result.law), align="left", style="red"))
    for line in failure_lines(result.law, result.failure, verdict.subject):
        out.print(Text(line), soft_wrap=line.startswith("Again:"))


def show_matrix(rows: dict[str, Verdict | str]) -> None:
    """Implementations by laws; a string in place of a verdict says why there is none."""
    out = console()
    names = [law.name for law in laws()]
    narrow = Table(box=None, padding=(0, 0), pad_edge=False)
    narrow.add_column("\nimplementation", no_wrap=True)
    for name in names:
        tens, units = divmod(int(name.removeprefix("L")), 10)
        narrow.add_column(f"{tens or ' '}\n{units}", width=1)
    narrow.add_column("\n s", justify="right", width=5)
    for label, verdict in rows.items():
        if isinstance(verdict, str):
            narrow.add_row(label, *[Text("?", style="red") for _ in names], "")
            continue
        found = {r.law.name: r.verdict for r in verdict.results}
        signs = [Text(*SIGNS[found[n]]) if n in found else Text("") for n in names]
        narrow.add_row(label, *signs, f"{verdict.seconds:.0f}")
    out.print(Text("laws L1 … by number; " + LEGEND, style="dim"))
    out.print(narrow)


def show_lines(lines: Iterable[str], *, style: str = "") -> None:
    """Plain lines."""
    out = console()
    for line in lines:
        out.print(Text(line, style=style))


def show_broken(message: str, *, word: str = BROKEN, code: int = EXIT_CODES[BROKEN], done: str = "judged") -> None:
    """Nothing was judged, or whatever else a command does, and why."""
    out = console(error=True)
    out.print(Text(f"{word}: {message}", style="red"))
    out.print(Text(f"Nothing was {done} (exit {code}).", style="dim"))


def show_interrupted() -> None:
    """Interrupted before there was anything to show."""
    text = f"{INCOMPLETE}: interrupted before anything was judged (exit {EXIT_CODES[INCOMPLETE]})."
    console(error=True).print(Text(text, style="yellow"))


def show_page(content: RenderableType) -> None:
    """Anything that rich lays out."""
    console().print(content)


def show_certificate(text: str) -> None:
    """Machine-readable output goes to standard output as it is."""
    sys.stdout.write(text + "\n")


def _not_applicable(results: tuple[LawResult, ...]) -> list[str]:
    """Laws that do not apply, together by reason."""
    reasons: dict[str, list[str]] = {}
    for r in results:
        if r.verdict == NOT_APPLICABLE:
            reasons.setdefault(r.reason, []).append(r.law.name)
    return [f"{', '.join(names)} ({reason})" for reason, names in reasons.items()]


def _detail(r: LawResult, level: str) -> str:
    if r.verdict == PASS:
        text = f"{r.inputs} inputs, worst {r.largest_units:.2g} units" if r.largest_units else f"{r.inputs} inputs, exact"
        text += f", all of {r.covered}" if r.covered else ""
        text += f", {r.refused} refused" if r.refused else ""
        worth = percent_caught(r.law.name, level, r.inputs - r.refused)
        text += f", {r.reason}" if r.reason else ""
        return text if worth is None else f"{text} · catches {worth} %"
    if r.verdict == ACCEPTED:
        return f"accepted deviation: {r.reason}"
    return r.reason if r.verdict == FAIL else f"{r.verdict}: {r.reason}"


def _closing(verdict: Verdict) -> str:
    judged, failed = sum(r.verdict in JUDGED for r in verdict.results), len(verdict.failures)
    code = f"(exit {verdict.exit_code})"
    if verdict.word == CONFORMS and (accepted := len(verdict.deviating)):
        deviate = f"{accepted} deviate{'s' * (accepted == 1)} as accepted"
        return f"conforms: {judged - accepted} of {_count(judged, 'law')} hold{'s' * (judged == 1)}, {deviate} {code}"
    if verdict.word == CONFORMS:
        return f"conforms: {judged} of {_count(judged, 'law')} hold{'s' * (judged == 1)} {code}"
    if verdict.word == INCOMPLETE and not verdict.interrupted:
        return f"incomplete: none of the laws asked for could be judged on this implementation {code}"
    if verdict.word == INCOMPLETE:
        return f"incomplete: {judged} laws judged before the end, {failed} failed {code}"
    if verdict.word == UNDECIDED:
        assumed = verdict.elsewhere[0].split("=")[0]
        now = next((a for a in verdict.assumed if a.startswith(assumed + "=")), "the default")
        others = " or ".join(verdict.elsewhere)
        return f"undecided between {now} ({failed} of {judged} laws fail) and {others} (every law holds) {code}"
    return f"does not conform: {failed} of {_count(judged, 'law')} fail{'s' * (failed == 1)} {code}"


def _labelled(out: Console, label: str, text: str, *, style: str = "yellow") -> None:
    table = Table(box=None, show_header=False, padding=(0, 1), pad_edge=False)
    table.add_column(width=max(len(label), 4))
    table.add_column(ratio=1)
    table.add_row(Text(label, style=style), Text(text, style="dim" if style == "dim" else ""))
    out.print(table)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def show_schemes() -> None:
    """Every scheme with its form and settings."""
    out, wide = console(), max(map(len, schemes())) + 1
    for name in schemes():
        cls = settings_class(name)
        named = choices(cls)
        said = [f"{f.name}={'|'.join(map(str, named[f.name]))}" if f.name in named else f.name for f in fields(cls)]
        out.print(Text.assemble((f"{name:<{wide}}", "bold"), f"{cls.form:<10} {'  '.join(said) or 'no settings'}"))


def show_peers(found: Iterable[Any]) -> None:
    """Implementations from elsewhere: the matrix, then what each is on record for and the line that shows it."""
    out, found = console(), list(found)
    show_matrix({f.peer.name: f.verdict for f in found})
    for f in found:
        style = "red" if f.surprises else "yellow" if f.peer.expected != CONFORMS else "green"
        p = f.peer
        out.print(Text.assemble("\n", (p.name, "bold"), f" · {p.package} {p.version} · {p.scheme} · {p.stated}"))
        worst = f", worst {f.worst_units:.2g} units" if f.word == CONFORMS else ""
        lines = [(f.word + worst, style), *((line, "red") for line in f.surprises), *((line, "dim") for line in f.lines)]
        for line, colour in lines:
            out.print(Padding(Text(line, style=colour), (0, 0, 0, 2)))
        for line in f.witnesses:
            out.print(Text(f"  {line}", style="dim"), soft_wrap=True)
    number = sum(not f.surprises for f in found)
    out.print(Text(f"\n{number} of {len(found)} peers are as recorded", style="green" if number == len(found) else "red"))


def show_kills(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> None:
    """The kill table, one row per kind of fault."""
    table = Table(box=None, padding=(0, 1), pad_edge=False)
    for n, name in enumerate(head):
        table.add_column(name, justify="right" if n else "left", ratio=None if n else 1)
    for row in rows:
        table.add_row(*map(escape, row))
    console().print(table)
