"""The tables of measured figures, as Markdown, each with the reasons of what is missing below it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from relpos.conformance.certificate import certificate_name
from relpos.perf.point import CONTROL, LIMIT
from relpos.perf.rows import MEASURED, UNSTABLE
from relpos.reports.numbers import (
    NOTHING,
    Notes,
    cell,
    escaped,
    exponent,
    hollow,
    interval,
    length,
    listed,
    mib,
    ranked,
    ratio_cell,
    short,
    spanned,
    table,
    whole,
    why,
)
from relpos.reports.run import Run, Way

NO_FIT = "fewer than four lengths have a figure, or the grids differ in their proportions: no fit"
PASSED = ("pass", "accepted")
JUDGED = (*PASSED, "fail")


@dataclass(frozen=True)
class Table:
    """A table under a title of its own, and the notes below it."""

    title: str
    text: str
    notes: Sequence[str] = ()


def laws(certificate: Mapping[str, Any] | None, label: str, link: str, notes: Notes) -> str:
    """15 of 15, with a link to the certificate."""
    if certificate is None:
        return notes.missing("no certificate: judged at the smoke profile when it was measured")
    verdicts = [one["verdict"] for one in certificate["results"]]
    held, judged = (sum(v in kind for v in verdicts) for kind in (PASSED, JUDGED))
    return f"[{held} of {judged}]({link}/{certificate_name(label)})"


def by_time(run: Run, way: Way, schemes: Iterable[str]) -> list[tuple[str, str | None]]:
    """Schemes with the variant that stands for each: ranked ones by their ratio, then the others by name."""

    def place(found: tuple[str, str | None]) -> tuple[bool, float, str]:
        row = run.at(found[1], way, run.ranked_at)
        return (False, row["median_of_ratios"], "") if row is not None and ranked(row) else (True, 0.0, found[0])

    return sorted(((scheme, run.best(scheme, way)) for scheme in schemes), key=place)


def verdict(run: Run, way: Way, certificates: Mapping[str, dict[str, Any]], link: str) -> Table:
    """One row per scheme: laws, error, time, memory, parameters, decode."""
    notes, at = Notes(), length(run.ranked_at)
    head = ["scheme (variant)", "laws held", *_times(run, way), f"extra MiB at {at}", "memory grows like L to the",
            f"decode, × limit at {at}", "error, units", "learned numbers"]  # fmt: skip
    rows, absent = [], []
    for scheme, variant in by_time(run, way, sorted({label.partition("/")[0] for label in certificates} | set(run.schemes))):
        if variant is None:
            absent.append(scheme)
            continue
        row = run.at(variant, way, run.ranked_at)
        decode = Way("decode", True, way.dtype)
        rows.append([
            named(scheme, variant),
            laws(certificates.get(variant), variant, link, notes),
            *(ratio_cell(run.at(variant, way, n), notes) for n in run.shown(way)),
            cell(row, "extra_bytes", mib, notes),
            _memory_exponent(run, variant, way, notes),
            _decode(run, scheme, variant, decode, notes),
            _error(run, variant, way, notes),
            cell(row, "parameters", lambda number: f"{number:,}", notes),
        ])  # fmt: skip
    none = [f"Not in this run: {listed(absent)}."] if absent else []
    return Table(way.words, table(head, rows), [*notes.lines, *none])


def _times(run: Run, way: Way) -> list[str]:
    return [f"× limit at {length(n)}" for n in run.shown(way)]


def named(scheme: str, variant: str | None) -> str:
    """alibi (toeplitz)."""
    return f"**{scheme}** ({variant.partition('/')[2]})" if variant else f"**{scheme}**"


def _memory_exponent(run: Run, variant: str, way: Way, notes: Notes) -> str:
    fit = run.growth(variant, way).get("peak_bytes")
    return exponent(fit) if fit else notes.missing(NO_FIT)


def _decode(run: Run, scheme: str, variant: str | None, way: Way, notes: Notes) -> str:
    """Of the variant of the row if it decodes, otherwise of the scheme's fastest that does, named."""
    own, best = run.at(variant, way, run.ranked_at), run.best(scheme, way)
    if ranked(own) or best is None or best == variant:
        return ratio_cell(own, notes)
    found = ratio_cell(run.at(best, way, run.ranked_at), notes)
    return found if found.startswith(NOTHING) else f"{found} ({best.partition('/')[2]})"


def _error(run: Run, variant: str | None, way: Way, notes: Notes) -> str:
    errors = [(r["error_units"], r["error_allowed_units"]) for r in run.line(variant, way) if r.get("error_units") is not None]
    if not errors:
        return notes.missing("no output was compared in this table")
    return "{:.2g} of {:g}".format(*max(errors))


def ratios(run: Run, way: Way) -> Table:
    """Time and memory of every scheme in one way."""
    notes, at = Notes(), length(run.ranked_at)
    head = ["scheme (variant)", *_times(run, way), f"peak MiB at {at}", f"ms at {at}"]
    rows = []
    for scheme, variant in by_time(run, way, run.schemes):
        row = run.at(variant, way, run.ranked_at)
        times = (ratio_cell(run.at(variant, way, n), notes) for n in run.shown(way))
        rows.append(
            [named(scheme, variant), *times, cell(row, "peak_bytes", mib, notes), cell(row, "latency_ms", short, notes)]
        )
    rows.append(_of_limit(run, way, notes))
    return Table(way.words, table(head, rows), notes.lines)


def _of_limit(run: Run, way: Way, notes: Notes) -> list[str]:
    row = run.at(LIMIT, way, run.ranked_at)
    return [
        "*limit*",
        *("1" for _ in run.shown(way)),
        cell(row, "peak_bytes", mib, notes),
        cell(row, "latency_ms", short, notes),
    ]


def training(run: Run, way: Way) -> Table:
    """Tokens per second of a training step, its peak, and what it keeps for backward."""
    notes, at = Notes(), length(run.ranked_at)
    tokens = [f"tokens/s at {length(n)}" for n in run.shown(way)]
    head = ["scheme (variant)", *tokens, f"× limit at {at}", f"peak MiB at {at}", f"kept for backward, MiB at {at}"]
    rows = []
    for scheme, variant in [*by_time(run, way, run.schemes), ("limit", LIMIT)]:
        row = run.at(variant, way, run.ranked_at)
        rows.append([
            "*limit*" if variant == LIMIT else named(scheme, variant),
            *(_tokens(run.at(variant, way, n), notes) for n in run.shown(way)),
            "1" if variant == LIMIT else ratio_cell(row, notes),
            cell(row, "peak_bytes", mib, notes),
            cell(row, "backward_bytes", mib, notes),
        ])  # fmt: skip
    return Table(way.words, table(head, rows), notes.lines)


def _tokens(row: Mapping[str, Any] | None, notes: Notes) -> str:
    found = cell(row, "tokens_per_second", whole, notes)
    return found if row is None or found.startswith(NOTHING) else hollow(row) + found


def growth(run: Run, way: Way) -> Table | None:
    """Exponents of time and memory of every scheme in one way; None where nothing could be fitted."""
    notes, rows, beyond = Notes(), [], []
    for scheme, variant in [*by_time(run, way, run.schemes), ("limit", LIMIT)]:
        fits = run.growth(variant, way) if variant else {}
        name = "*limit*" if variant == LIMIT else named(scheme, variant)
        time, memory = fits.get("latency_ms"), fits.get("peak_bytes")
        cells = [part for fit in (time, memory) for part in _fitted(fit, notes)]
        shaky = f"{time['unstable_points']} of {time['points']}" if time else NOTHING
        rows.append([name, *cells, shaky])
        beyond += [escaped(f"{variant}: {memory['note']}")] if memory and memory["note"] else []
    head = ["scheme (variant)", "time: exponent", "named", "peak memory: exponent", "named", "unstable points"]
    return Table(way.words, table(head, rows), [*notes.lines, *beyond]) if run.growth(LIMIT, way) else None


def _fitted(fit: Mapping[str, Any] | None, notes: Notes) -> tuple[str, str]:
    if fit is None:
        missing = notes.missing(NO_FIT)
        return missing, missing
    return exponent(fit), fit["growth"] or notes.missing("the interval does not exclude a neighbouring growth")


def peers(run: Run, way: Way) -> Table | None:
    """What people use today, over no positions and over our fastest; None where nothing of it was measured this way."""
    notes, rows, none = Notes(), [], []
    for variant in run.others():
        line = run.line(variant, way)
        if not line:
            continue
        if not any(r["status"] in MEASURED for r in line):
            none.append(f"{variant}: {escaped(why(line[0]))}")
            continue
        times = [ratio_cell(run.at(variant, way, n), notes) for n in run.shown(way)]
        rows.append([f"**{variant}**", line[0]["origin"], *times, _over_ours(run, variant, way, notes)])
    head = ["implementation", "of", *_times(run, way), f"over ours at {length(run.ranked_at)}"]
    return Table(way.words, table(head, rows, left=2), [*notes.lines, *none]) if rows or none else None


def _over_ours(run: Run, variant: str, way: Way, notes: Notes) -> str:
    theirs = run.at(variant, way, run.ranked_at)
    best = run.best(variant.partition("/")[0], way)
    ours = run.at(best, way, run.ranked_at)
    if not ranked(theirs) or not ranked(ours) or theirs is None or ours is None:
        return notes.missing("one of the two is not ranked there")
    return spanned(*interval(theirs["ratios"], ours["ratios"])) + f" ({str(best).partition('/')[2]})"


def noise(run: Run) -> Table:
    """The limit against itself, and how many rows are unstable, by way."""
    rows = []
    for way in run.ways:
        found = run.floor(way)
        of = [r for r in run.rows if (r["mode"], r["causal"], r["dtype"]) == (way.mode, way.causal, way.dtype)]
        measured = [r for r in of if r["status"] in MEASURED and r["variant"] not in (LIMIT, CONTROL)]
        shaky = sum(r["status"] == UNSTABLE for r in measured)
        share = f"{shaky} of {len(measured)} ({shaky / len(measured):.0%})" if measured else NOTHING
        rows.append([way.words, f"{found[0]:.2f} … {found[1]:.2f}" if found else NOTHING, share])
    return Table("", table(["way", "limit over itself, least … greatest median", "unstable rows"], rows))


def statuses(run: Run) -> str:
    """How many rows have which status."""
    ours = [r["status"] for r in run.rows if r["variant"] not in (LIMIT, CONTROL)]
    said = listed(f"{ours.count(status)} {status}" for status in dict.fromkeys(sorted(ours, key=lambda s: (-ours.count(s), s))))
    measured, shaky = sum(ours.count(status) for status in MEASURED), ours.count(UNSTABLE)
    return f"{said}; of those with a figure {shaky / measured:.0%} are unstable" if measured else said
