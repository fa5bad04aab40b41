"""What a report is of, in words: which run, how much of it, what speaks against citing it."""

from collections.abc import Iterator

from relpos.perf.point import CONTROL, LIMIT, Shape
from relpos.perf.sweep import FULL, Sweep
from relpos.reports.numbers import listed
from relpos.reports.run import Run
from relpos.reports.source import Row, Source

KINDS = {"full": FULL, "default": Sweep()}


def shapes(sweep: Sweep) -> set[tuple[str, bool, str, int]]:
    """What a sweep measures."""

    def name(shape: Shape) -> tuple[str, bool, str, int]:
        return shape.mode, shape.causal, shape.dtype, shape.key_length

    return {name(shape) for shape in sweep.shapes()}


def kind(run: Run) -> str:
    """Which sweep the run went through: "full", "default", or "" where it is neither."""
    measured = {(r["mode"], r["causal"], r["dtype"], r["key_length"]) for r in run.rows}
    return next((word for word, sweep in KINDS.items() if shapes(sweep) <= measured), "")


def doubts(source: Source, run: Run) -> Iterator[str]:
    """Why the report is not one to be cited; none: it is."""
    if not run.rows:
        yield "nothing was measured yet"
        return
    if not run.measured:
        yield f"none of its {_number(len(run.rows), 'row')} has a figure of an implementation"
    if kind(run) != "full":
        yield f"its rows are of {'a default' if kind(run) else 'part of a'} run, not of a full one"
    if missing := [label for label in source.certificates if not any(r["variant"] == label for r in run.rows)]:
        yield f"{len(missing)} of {len(source.certificates)} certified implementations are not in the run"
    if any(r.get("dirty") for r in run.rows):
        yield "the tree that was measured had changes that no commit holds"
    if source.cut:
        were = "were" if len(source.cut) > 1 else "was"
        yield f"{_number(len(source.cut), 'cut-off line')} of its rows {were} left out"
    if source.changed:
        yield f"the source of {listed(source.changed)} is no longer the one that was measured"


def _number(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"


def facts(run: Run, name: str) -> str:
    """All values of a column, such as the commits."""
    return listed(sorted({str(r[name]) for r in run.rows if r.get(name) not in (None, "")})) or "unknown"


def described(source: Source, run: Run) -> str:
    """How many points of which run, on what; whether the tree was changed."""
    record, first = source.machine, run.rows[0]
    part = f"part of a run (L = {listed(map(str, run.lengths))})"
    what = {"full": "a full run", "default": "a default run"}.get(kind(run), part)
    gpu = f"{record['gpu']['name']}, " if record.get("gpu") else ""
    cores = f"{record['affinity']} cores, PyTorch {record['torch']} on {record['threads']} of them"
    changed = ", from a tree with changes that no commit holds" if any(r.get("dirty") for r in run.rows) else ""
    return (
        f"{_points(run)} of {what} on {record['processor']} ({cores}, {gpu}{record['memory_gib']} GiB; "
        f"machine `{first['machine']}`){changed}. Attention of {_sizes(first)} throughout."
    )


def _points(run: Run) -> str:
    """How many points were tried, and of how many there is a figure, those of the limit left aside."""
    tried = sum(r["variant"] not in (LIMIT, CONTROL) for r in run.rows)
    if run.measured == tried:
        return _number(tried, "measured point")
    return f"{_number(run.measured, 'measured point') if run.measured else 'no measured point'} of {tried:,} that were tried,"


def _sizes(row: Row) -> str:
    return f"B = {row['batch']}, H = {row['heads']}, D = {row['head_dim']}"


def threats(source: Source, run: Run) -> Iterator[str]:
    """What of the machine and the shape limits what the figures say."""
    record, first = source.machine, run.rows[0]
    loads = sorted(r["load"] for r in run.rows if r.get("load") is not None)
    busy = f" (load {loads[0]} to {loads[-1]} when measuring began)" if loads else ""
    cpu = first["device"] == "cpu"
    where = f"{record['affinity']} cores{' in a container' if record.get('container') else ''}"
    carry = ", and neither carries over to a GPU" if cpu else ""
    yield (
        f"One machine, {'CPU only' if cpu else 'one GPU'}, {where}, shared with whatever else ran{busy}. Ratios carry over to "
        f"similar machines, times do not{carry}."
    )
    yield f"One shape: {_sizes(first)}, random inputs, no padding, no dropout."


def made_of(source: Source, run: Run) -> dict[str, str]:
    """Version, commit, date and machine, of the rows, or where there are none of the certificates."""
    if run.rows:
        machine = f"machine {run.rows[0]['machine']} ({source.machine['processor']})"
        return {**{name: facts(run, name) for name in ("version", "commit", "date")}, "machine": machine}
    heads = [one["header"] for one in source.certificates.values()]
    versions, date = sorted({one["relpos"] for one in heads}), max(one["date"] for one in heads)
    return {"version": listed(versions), "commit": "", "date": date, "machine": ""}


def cited(source: Source, run: Run, *, preliminary: bool) -> str:
    """The note of the BibTeX entry."""
    made = made_of(source, run)
    commit = f"commit {made['commit']}" if made["commit"] else ""
    parts = (f"relpos {made['version']}", commit, made["date"], made["machine"], "preliminary" if preliminary else "")
    return ", ".join(part for part in parts if part)
