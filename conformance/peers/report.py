"""The report on peers as Markdown: a table by scheme, the deviations with their witnesses, how it was made."""

import os
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from relpos.conformance.deviations import Deviation
from relpos.conformance.errors import UsageError
from relpos.conformance.judge import LawFailure
from relpos.conformance.laws import law
from relpos.conformance.loading import load
from relpos.conformance.message import HOPELESS, again
from relpos.conformance.peers.record import Peer
from relpos.conformance.plan import Plan
from relpos.conformance.runner import FAIL, PASS, LawResult
from relpos.conformance.subject import plug_in
from relpos.conformance.tolerance import C
from relpos.conformance.verdict import CONFORMS, UNDECIDED, Verdict

COLUMNS = ("implementation", "package", "stated", "verdict", "worst error", "laws")
COMMAND = "python -m relpos peers --report reports/peers.md"
NOTHING = "–"


def write(path: Path, text: str) -> None:
    """Replace the file at once: who is interrupted keeps the old one."""
    beside = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(text, encoding="utf-8")
        os.replace(beside, path)
    except OSError as error:
        raise UsageError(f"--report: the report could not be written to {path} ({error.strerror}).") from None


def rendered(found: Sequence[Any], profile_name: str) -> str:
    """The whole report on findings (`run.Finding`), all of which are as recorded."""
    peers = [f.peer for f in found]
    lines = [*_introduction(peers), *_tables(found)]
    lines += ["", "## Deviations", *(line for f in found for d, r in f.witnessed for line in _shown(peers, f.peer, d, r))]
    return "\n".join([*lines, *_made(profile_name, len(peers))]) + "\n"


def fixed_cells(peer: Peer, peers: Sequence[Peer]) -> tuple[str, ...]:
    """What a row says of a peer by its record alone: name, package, what was stated, the verdict in words."""
    return peer.name, f"{peer.package} {peer.version}", peer.stated, _verdict(peer, peers)


def fixed_lines(peer: Peer, deviation: Deviation, peers: Sequence[Peer]) -> list[str]:
    """What the report says of a deviation by its record alone: name, law, reason, bound and the line that shows it."""
    one = law(deviation.law)
    beside = f"; for the same reason {_listed(deviation.also)}" if deviation.also else ""
    number = _number(peer, deviation, peers)
    return [
        f'### <a id="{number}"></a>{number.upper()} · {deviation.name}',
        f"{peer.name} ({peer.package} {peer.version}, {peer.scheme}).",
        f"- **Breaks** {one.name}, {one.title}{beside}.",
        f"- **Why:** {deviation.reason}",
        f"- **Bound:** {deviation.bound}",
        line_of(peer, deviation),
    ]


def line_of(peer: Peer, deviation: Deviation) -> str:
    """The command that shows the witness of a deviation."""
    subject = plug_in(load(peer.implementation), spec=peer.implementation, **peer.options)
    failure = LawFailure(deviation.says, plan=Plan.from_json(deviation.witness))
    return again(subject, law(deviation.law), failure)


def _introduction(peers: Sequence[Peer]) -> list[str]:
    counts = {word: sum(p.expected == word for p in peers) for word in (CONFORMS, UNDECIDED)}
    packages = _listed([f"{name} {number}" for name, number in sorted({(p.package, p.version) for p in peers})])
    rest = len(peers) - sum(counts.values())
    allowed = _listed([f"{kind} {c:g}" for kind, c in C.items()])
    return [
        "# Position encodings in public libraries, judged",
        "",
        f"Code of {packages}, as published, held against the definitions in `spec/`. Of {len(peers)} ways to use it, "
        f"{counts[CONFORMS]} conform, {counts[UNDECIDED]} are undecided until a setting is named, and {rest} deviate in a way "
        "that has a name, a reason, a bound and a command that shows it. Whoever ports weights or code from one of these "
        "libraries finds here which settings it stands for, and where it departs from them.",
        "",
        "- **stated**: settings and claims it was judged under; every other setting has its published default.",
        f"- **worst error**: in units of rounding, of which a right result may have some ({allowed}; "
        "`conformance/tolerance.py` derives them). Where it conforms, the largest of all laws; where it deviates, that of the "
        f"witness, {NOTHING} where there is no number.",
        "- **laws**: how many hold on the inputs drawn, and which do not. `python -m relpos laws` says them in words.",
    ]


def _tables(found: Sequence[Any]) -> Iterator[str]:
    peers = [f.peer for f in found]
    for scheme in sorted({p.scheme for p in peers}):
        yield from ("", f"## {scheme}", "", _row(COLUMNS), _row(["---"] * len(COLUMNS)))
        for f in found:
            if f.peer.scheme == scheme:
                yield _row([*fixed_cells(f.peer, peers), _worst(f), _laws(f)])


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _verdict(peer: Peer, peers: Sequence[Peer]) -> str:
    word = CONFORMS
    if peer.instead:
        word = f"undecided, conforms under {peer.instead}"
    if peer.deviations:
        word = "deviates: " + "; ".join(f"[{d.name}](#{_number(peer, d, peers)})" for d in peer.deviations)
    return f"{word} ({peer.note})" if peer.note else word


def _number(peer: Peer, deviation: Deviation, peers: Sequence[Peer]) -> str:
    """d1, d2 …: the place of a deviation among those of all peers."""
    every = [(p.name, d.name) for p in peers for d in p.deviations]
    return f"d{every.index((peer.name, deviation.name)) + 1}"


def _worst(finding: Any) -> str:
    if finding.peer.expected == CONFORMS:
        return f"{finding.worst_units:.2g}"
    return "; ".join(_size(result) for _, result in finding.witnessed) or NOTHING


def _size(result: LawResult) -> str:
    if result.failure is None or result.failure.comparison is None:
        return NOTHING
    units = result.failure.comparison.largest
    return "far beyond rounding" if units > HOPELESS else f"{units:.0f}"


def _laws(finding: Any) -> str:
    assert isinstance(finding.verdict, Verdict)
    held = [r.law.name for r in finding.verdict.results if r.verdict == PASS]
    failed = [r.law.name for r in finding.verdict.results if r.verdict == FAIL]
    elsewhere = [d.law for d, _ in finding.witnessed if d.law not in failed]
    said = [f"{len(held)} hold"]
    said += [f"{_listed(failed)} not"] if failed else []
    said += [f"{_listed(elsewhere)} not on the witness"] if elsewhere else []
    return ", ".join(said)


def _shown(peers: Sequence[Peer], peer: Peer, deviation: Deviation, result: LawResult) -> list[str]:
    heading, who, breaks, why, bound, line = fixed_lines(peer, deviation, peers)
    units = {NOTHING: "", "far beyond rounding": ", far beyond rounding"}.get(size := _size(result), f", {size} units")
    found = f"- **Found:** {result.reason}{units}."
    return ["", heading, "", who, "", breaks, why, bound, found, "", "```console", line, "```"]


def _made(profile_name: str, number: int) -> list[str]:
    return [
        "",
        "## How this was made",
        "",
        f"`nox -s peers`, which runs `{COMMAND}`: {number} peers at the {profile_name} profile (fixed numbers of inputs, the "
        f"same in every run), relpos {version('relpos')}, PyTorch {torch.__version__}, on a CPU. Adapters and record are in "
        "`conformance/peers/`; adapters call the library's own code. The report is written by a run that reached every peer "
        "and found all as recorded, by no other.",
    ]


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + f" and {words[-1]}" if words else ""
