"""Judges every peer on record and says whether each still comes out as recorded: `run`, behind `nox -s peers`."""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from relpos.conformance import console
from relpos.conformance.deviations import Deviation, staleness
from relpos.conformance.laws import law
from relpos.conformance.loading import load
from relpos.conformance.many import judge_many
from relpos.conformance.message import again
from relpos.conformance.peers import report
from relpos.conformance.peers.record import Peer
from relpos.conformance.plan import Plan
from relpos.conformance.profiles import profile
from relpos.conformance.runner import PASS, LawResult, replay
from relpos.conformance.subject import plug_in
from relpos.conformance.verdict import BROKEN, CONFORMS, EXIT_CODES, INCOMPLETE, UNDECIDED, Verdict
from relpos.spec.registry import settings_class

MACHINERY = {"__init__", "given", "record", "report", "run"}
SURPRISE = 1


@dataclass(frozen=True)
class Finding:
    """What came of one peer: its verdict, the failures of its witnesses, and whatever differs from the record.

    worst_units  the largest error among the laws that hold, in units of their bound
    """

    peer: Peer
    verdict: Verdict | str
    witnessed: tuple[tuple[Deviation, LawResult], ...] = ()
    surprises: tuple[str, ...] = ()

    @property
    def worst_units(self) -> float:
        """How close to the bound it comes where it conforms."""
        results = self.verdict.results if isinstance(self.verdict, Verdict) else ()
        return max((r.largest_units for r in results if r.verdict == PASS), default=0.0)

    @property
    def word(self) -> str:
        """The verdict in words, with the setting or the deviation that belongs to it."""
        if isinstance(self.verdict, str) or self.surprises:
            return "not as recorded"
        if self.peer.deviations:
            return "deviates: " + "; ".join(d.name for d in self.peer.deviations)
        if self.peer.instead:
            return f"undecided, conforms under {self.peer.instead}"
        return CONFORMS

    @property
    def lines(self) -> list[str]:
        """What is on record, in words."""
        said = [f"{d.name} ({d.law}): {d.reason} {d.bound}" for d in self.peer.deviations]
        return [*said, self.peer.note] if self.peer.note else said

    @property
    def witnesses(self) -> Iterator[str]:
        """The line that shows each deviation."""
        if isinstance(self.verdict, Verdict):
            for _, result in self.witnessed:
                if result.failure is not None:
                    yield again(self.verdict.subject, result.law, result.failure)


def run(profile_name: str, report_to: Path | None = None) -> int:
    """Judge all and show them: 0 when every peer comes out as recorded, 1 when one does not, 2 without their packages.

    A report is written only where the code is 0, and what was judged is in the recorded version.
    """
    profile(profile_name)
    peers, missing = recorded()
    if missing:
        console.show_broken(_needs(missing), word="package missing")
    if not peers:
        return EXIT_CODES[BROKEN]
    others = other_versions(peers)
    console.show_lines(others, style="yellow")
    found, complete = findings(peers, profile_name)
    console.show_peers(found)
    for finding in found:
        if finding.surprises and isinstance(finding.verdict, Verdict) and finding.verdict.failures:
            console.show_verdict(finding.verdict)
    code = _exit_code(found, complete, missing)
    if report_to is not None and (code or others):
        why = "a package has another version than the recorded one" if not code else f"exit {code}"
        console.show_lines([f"{report_to} was not written: {why}."], style="yellow")
    elif report_to is not None:
        report.write(report_to, report.rendered(found, profile_name))
    return code


def _exit_code(found: list[Finding], complete: bool, missing: dict[str, str]) -> int:
    if not complete:
        return EXIT_CODES[INCOMPLETE]
    if any(finding.surprises for finding in found):
        return SURPRISE
    return EXIT_CODES[BROKEN] if missing else 0


def recorded() -> tuple[list[Peer], dict[str, str]]:
    """All peers, found by listing this folder; and the files whose package is missing, with its name."""
    peers: list[Peer] = []
    missing: dict[str, str] = {}
    for name in sorted(p.stem for p in Path(__file__).parent.glob("*.py") if p.stem not in MACHINERY):
        try:
            peers += import_module(f"relpos.conformance.peers.{name}").PEERS
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] == "relpos":
                raise
            missing[name] = (error.name or "its package").partition(".")[0]
    return peers, missing


def _needs(missing: dict[str, str]) -> str:
    needs = ", ".join(f"{name}.py needs {package}" for name, package in missing.items())
    return (
        f"in conformance/peers, {needs}: not installed here. `nox -s peers` installs the extra `peers` and judges; "
        "in an environment of your own: pip install 'relpos[peers]'."
    )


def other_versions(peers: list[Peer]) -> list[str]:
    """A line for every package that is here in another version than the recorded one."""
    lines = []
    for package, wanted in sorted({(p.package, p.version) for p in peers}):
        try:
            here = version(package)
        except PackageNotFoundError:
            here = "no release"
        if here != wanted:
            lines.append(f"{package}: {here} is judged, what follows was recorded with {wanted}.")
    return lines


def findings(peers: list[Peer], profile_name: str) -> tuple[list[Finding], bool]:
    """Judge peers two at a time and hold each against its record; and whether all were reached."""
    jobs = {peer.name: (peer.implementation, peer.options) for peer in peers}
    with console.progress_bar() as bar:
        task = bar.add_task(f"{profile_name} profile", total=len(jobs))
        rows, complete = judge_many(jobs, profile_name, progress=lambda name, _: bar.update(task, description=name, advance=1))
    return [held(peer, rows[peer.name]) for peer in peers if peer.name in rows], complete


def held(peer: Peer, verdict: Verdict | str) -> Finding:
    """One verdict against the record."""
    if isinstance(verdict, str):
        return Finding(peer, verdict, (), (f"nothing was judged: {verdict}",))
    witnessed = tuple((d, shown(d, peer)) for d in peer.deviations)
    surprises = [line for d, result in witnessed if (line := stale(d, result))]
    unknown = [r for r in verdict.failures if not known(peer, r)]
    surprises += [f"{r.law.name} fails and no deviation on record says so: {r.reason}" for r in unknown]
    if peer.instead and (verdict.word != UNDECIDED or peer.instead not in verdict.elsewhere):
        now = " ".join([verdict.word, *verdict.elsewhere])
        surprises.append(f"recorded as undecided with {peer.instead}; it is: {now}")
    elif not peer.deviations and not peer.instead and verdict.word != CONFORMS and not surprises:
        surprises.append(f"recorded as conforming; it is: {verdict.word}")
    return Finding(peer, verdict, witnessed, tuple(surprises))


def shown(deviation: Deviation, peer: Peer) -> LawResult:
    """What comes of a deviation's witness now. Plugged in again: a verdict from another process cannot be called."""
    subject = plug_in(load(peer.implementation), spec=peer.implementation, **peer.options)
    return replay(law(deviation.law), subject, Plan.from_json(deviation.witness))


def stale(deviation: Deviation, result: LawResult) -> str:
    """Why a deviation's witness no longer shows it; empty while it does."""
    return staleness(deviation, result.failure)


def known(peer: Peer, result: LawResult) -> bool:
    """Whether a failure is that of a deviation on record, or all of it is awaited while a setting is undecided."""
    if peer.instead:
        return True
    assert result.failure is not None
    cls = settings_class(peer.scheme)
    return any(d.accepts(result.failure, result.law.name, cls) for d in peer.deviations)
