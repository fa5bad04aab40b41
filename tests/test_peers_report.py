"""The committed report on peers says what is on record of them, and a run that is not complete leaves it alone."""

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from relpos.conformance.commands import parser
from relpos.conformance.errors import UsageError
from relpos.conformance.judge import LawFailure
from relpos.conformance.laws import law
from relpos.conformance.peers import report, run
from relpos.conformance.peers.record import Peer
from relpos.conformance.plan import Plan
from relpos.conformance.profiles import PROFILES
from relpos.conformance.runner import FAIL, PASS, LawResult
from relpos.conformance.subject import plug_in
from relpos.conformance.verdict import Verdict

COMMITTED = Path(__file__).parents[1] / "reports" / "peers.md"
RENEW = "nox -s peers writes it anew"
PACKAGES = ("transformers", "x_transformers", "rotary_embedding_torch")
MISSING = [name for name in PACKAGES if find_spec(name) is None]
# Theirs, on import: torch.jit.script in x-transformers.
pytestmark = [
    pytest.mark.skipif(bool(MISSING), reason=f"needs {', '.join(MISSING)} (the extra `peers`): nox -s peers"),
    pytest.mark.filterwarnings("ignore"),
]


@pytest.fixture(scope="module")
def peers() -> list[Peer]:
    """All of them, in the order of the report."""
    return run.recorded()[0]


@pytest.fixture
def peer() -> Peer:
    """One that deviates, without any package from elsewhere."""
    deviation = next(d for p in run.recorded()[0] for d in p.deviations if d.law == "L10")
    return Peer(
        name="ours", package="relpos", version="0", scheme="alibi", implementation="relpos.impls.alibi:bias",
        settings={"num_heads": 9}, deviations=(deviation,), note="a | b",
    )  # fmt: skip


def rows(text: str) -> list[list[str]]:
    """Cells of all rows of implementations."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    cells = [[c.replace("\\|", "|").strip() for c in line[2:-2].split(" | ")] for line in lines]
    return [row for row in cells if tuple(row) != report.COLUMNS and set(row) != {"---"}]


def found(peer: Peer, *, surprises: tuple[str, ...] = ()) -> run.Finding:
    """A finding that nobody judged."""
    subject = plug_in(run.load(peer.implementation), spec=peer.implementation, **peer.options)
    (deviation,) = peer.deviations
    failure = LawFailure(deviation.says, plan=Plan.from_json(deviation.witness))
    failed = LawResult(law(deviation.law), FAIL, deviation.says, failure=failure)
    results = (LawResult(law("L1"), PASS, largest_units=0.5), failed)
    verdict = Verdict(subject, PROFILES["smoke"], results, 0.0)
    return run.Finding(peer, verdict, ((deviation, failed),), surprises)


def test_the_report_lists_the_recorded_peers_as_they_are_recorded(peers):
    committed = rows(COMMITTED.read_text(encoding="utf-8"))
    wanted = [list(report.fixed_cells(p, peers)) for s in sorted({p.scheme for p in peers}) for p in peers if p.scheme == s]
    assert [row[:4] for row in committed] == wanted, RENEW


def test_the_report_shows_every_deviation_with_the_line_of_its_witness(peers):
    committed = COMMITTED.read_text(encoding="utf-8").splitlines()
    wanted = [report.fixed_lines(p, d, peers) for p in peers for d in p.deviations]
    assert [line for line in committed if line.startswith("### ")] == [heading for heading, *_ in wanted], RENEW
    assert [line for lines in wanted for line in lines if line not in committed] == [], RENEW


def test_the_report_was_made_at_the_profile_of_the_session():
    text = COMMITTED.read_text(encoding="utf-8")
    assert f"{parser().parse_args(['peers']).profile} profile" in text


def test_a_rendered_report_reads_back(peer):
    text = report.rendered([found(peer)], "smoke")
    assert rows(text) == [
        ["ours", "relpos 0", "num_heads=9", f"deviates: [{peer.deviations[0].name}](#d1) (a | b)", "–", "1 hold, L10 not"]
    ]
    assert report.line_of(peer, peer.deviations[0]) in text.splitlines()
    assert "1 peers at the smoke profile" in text


@pytest.mark.parametrize(("complete", "surprises", "code"), [(False, (), 4), (True, ("another verdict",), 1), (True, (), 0)])
def test_only_a_complete_run_as_recorded_writes_the_report(monkeypatch, tmp_path, capsys, peer, complete, surprises, code):
    path = tmp_path / "peers.md"
    path.write_text("as it was", encoding="utf-8")
    replaced: dict[str, Any] = {
        "recorded": lambda: ([peer], {}),
        "other_versions": lambda peers: [],
        "findings": lambda peers, profile: ([found(peer, surprises=surprises)], complete),
    }
    for name, value in replaced.items():
        monkeypatch.setattr(run, name, value)
    assert run.run("smoke", path) == code
    assert (path.read_text(encoding="utf-8") == "as it was") == bool(code)
    assert ("was not written" in " ".join(capsys.readouterr().out.split())) == bool(code)
    assert list(tmp_path.iterdir()) == [path]


def test_another_version_than_the_recorded_one_writes_no_report(monkeypatch, tmp_path, capsys, peer):
    monkeypatch.setattr(run, "recorded", lambda: ([peer], {}))
    monkeypatch.setattr(run, "findings", lambda peers, profile: ([found(peer)], True))
    assert run.run("smoke", tmp_path / "peers.md") == 0
    assert "a package has another version" in " ".join(capsys.readouterr().out.split())
    assert not list(tmp_path.iterdir())


def test_a_report_that_cannot_be_written_is_told(tmp_path):
    with pytest.raises(UsageError, match="--report: the report could not be written"):
        report.write(tmp_path, "text")


@pytest.mark.parametrize(("raised", "known"), [(False, True), (True, False)])
def test_a_law_beside_may_fail_in_its_own_words_but_not_raise(peer, raised, known):
    facts = {"raised": True} if raised else {}
    failure = LawFailure("in its own words", plan=Plan(), facts=facts)
    beside = replace(peer.deviations[0], also=("L7",), units=None)
    result = LawResult(law("L7"), FAIL, failure.says, failure=failure)
    assert run.known(replace(peer, deviations=(beside,)), result) == known
