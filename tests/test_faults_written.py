"""What the command `faults` writes where a bar is missed: the report, and the shares that the heat map is drawn from."""

import csv

from relpos import __version__ as relpos_version
from relpos.conformance.certificate import laws_hash
from relpos.conformance.faults import cells
from relpos.conformance.faults.api import Fault
from relpos.conformance.laws import law


def test_a_fault_that_no_law_sees_misses_the_bar(relpos, stand, monkeypatch):
    harmless = Fault("harmless", "nothing wrong", "L6", given=lambda inputs: inputs, levels=("contribution",))
    monkeypatch.setattr(cells, "faults", lambda scheme: (harmless,))
    written = ("--report", "table.md", "--kills", "kills.csv")
    words = ("faults", "--scheme", "alibi", "--seeds", "1", "--alarm-seeds", "0", "--jobs", "1")
    code, out, _ = relpos(*words, *written)
    assert code == 1 and "alibi harmless (contribution, L6): killed in 0 of 1 seeds" in " ".join(out.split())
    report = (stand / "table.md").read_text(encoding="utf-8")
    assert "## Missed\n\n- alibi harmless (contribution, L6)" in report and "| 0/1 **missed** |" in report
    head, row = csv.reader((stand / "kills.csv").read_text(encoding="utf-8").splitlines())
    kind = "4 dependence on more than the distance"
    assert dict(zip(head, row, strict=True)) == {
        "kind": kind, "law": "L6", "title": law("L6").title, "planted": "1", "pinned": "0", "missed": "1", "seeds": "1",
        "killed": "0", "share": "0.0", "version": relpos_version, "laws_hash": laws_hash(),
    }  # fmt: skip
