"""Whether a report may be cited: the committed one is made of the committed data, and what speaks against it is said."""

import copy
import re
from dataclasses import replace

import pytest

from relpos.perf import scaling
from relpos.perf.point import CONTROL, LIMIT
from relpos.perf.rows import MEASURED
from relpos.perf.sweep import Sweep
from relpos.reports import figures, provenance
from relpos.reports.render import rendered
from relpos.reports.run import Run
from relpos.reports.source import HOME, ROWS, source
from report_rows import MACHINE, RECORD, SWEEP, VARIANTS, write


def test_the_committed_report_is_what_the_committed_data_give():
    kept = HOME / "data" / ROWS
    found = source(kept if kept.exists() else None)
    text = rendered(found, figures.listing(HOME / "figures"), HOME)
    assert (HOME / "README.md").read_text(encoding="utf-8") == text, "nox -s reports writes it anew; nobody edits it"


@pytest.fixture
def whole(bare, rows, monkeypatch):
    """A full run of few variants, all that are certified."""
    monkeypatch.setattr(scaling, "RESAMPLED", 20)  # fits take most of the time
    monkeypatch.setattr(provenance, "KINDS", {"full": SWEEP, "default": Sweep(lengths=(512,))})
    certified = {label: one for label, one in bare.certificates.items() if label in VARIANTS}
    return replace(bare, rows=tuple(rows), machine=RECORD, certificates=certified)


def doubts(found):
    return list(provenance.doubts(found, Run(found.rows)))


def test_a_full_clean_run_may_be_cited(whole):
    text = rendered(whole, [], HOME)
    assert not doubts(whole) and "may be cited" in text and "preliminary" not in text
    assert f"@misc{{relpos-{whole.id}," in text and f"machine {MACHINE} (A processor)" in text
    ours = [r["status"] in MEASURED for r in whole.rows if r["variant"] not in (LIMIT, CONTROL)]
    had, tried = sum(ours), len(ours)
    assert f"{had} measured points of {tried} that were tried, of a full run" in text


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda s: replace(s, rows=()), "nothing was measured yet"),
        (
            lambda s: replace(s, rows=tuple(r for r in s.rows if r["key_length"] == 512)),
            "rows are of a default run, not of a full",
        ),
        (
            lambda s: replace(s, rows=tuple(r for r in s.rows if r["key_length"] > 512)),
            "rows are of part of a run, not of a full one",
        ),
        (lambda s: replace(s, rows=({**s.rows[0], "dirty": True}, *s.rows[1:])), "had changes that no commit holds"),
        (lambda s: replace(s, changed=("alibi/bias",)), "the source of alibi/bias is no longer the one that was measured"),
        (
            lambda s: replace(s, rows=tuple(r for r in s.rows if r["variant"] != "alibi/bias")),
            "1 of 9 certified implementations",
        ),
    ],
)
def test_what_speaks_against_citing_is_said_at_the_top(whole, change, said):
    changed = change(whole)
    (doubt,) = doubts(changed)
    text = rendered(changed, [], HOME)
    assert said in doubt and said in text.split("## ")[0] and "**Status: preliminary" in text
    assert "preliminary}" in text, "and in the entry that one would copy"


def test_a_source_that_changed_since_is_found(bare, tmp_path, rows):
    changed = copy.deepcopy(rows)
    for one in changed:
        one["source"] = "0" * 12 if one["variant"] == "alibi/bias" else one["source"]
    assert source(write(tmp_path / "rows.jsonl", changed)).changed == ("alibi/bias",)


def test_without_rows_it_says_so_and_shows_what_the_judge_says(bare):
    text = rendered(bare, [], HOME)
    assert "Nothing is measured here yet" in text and "## Verdict" not in text and "× limit" not in text
    assert f"{len(bare.certificates)} of {len(bare.certificates)} implementations conform" in text
    assert "peers.md" in text and "kill_table.md" in text


def test_every_link_within_the_document_has_its_heading(whole):
    text = rendered(whole, [], HOME)
    anchors = {
        re.sub(r"[^\w\- ]", "", line.lstrip("# ").lower()).replace(" ", "-") for line in text.splitlines() if line[:1] == "#"
    }
    links = re.findall(r"\]\(#([^)]+)\)", text)
    assert links and set(links) <= anchors


# ---- figures


@pytest.mark.parametrize(
    ("stem", "ends"),
    [
        ("decode-float32", "at L = 9, causal, a/b is least with 1.25 and c/d most with 3.50."),
        ("error-forward-float32", "at L = 9, causal, a/b is least with 0.10 of the bound and c/d most with 0.25 of the bound."),
    ],
)
def test_a_caption_puts_no_two_units_in_one_order(tmp_path, stem, ends):
    ratios = "causal,a/b,9,1.25,ratio,ok\ncausal,c/d,9,3.5,ratio,ok\ncausal,e/f,9,9.0,ratio,unstable\n"
    rows = "causal,a/b,9,0.1,bound,ok\ncausal,c/d,9,0.25,bound,ok\n" + (ratios if stem.startswith("decode") else "")
    for kind in figures.KINDS:
        text = f"panel,variant,key_length,value,unit,status\n{rows}" if kind == ".csv" else ""
        (tmp_path / f"{stem}{kind}").write_text(text, encoding="utf-8")
    (found,) = figures.listing(tmp_path)
    assert ends.removesuffix(".") in found.caption and ("hollow" in found.caption) == stem.startswith("decode")


def test_a_figure_is_listed_with_what_to_see_and_its_data(whole, tmp_path):
    head = "panel,variant,key_length,value,unit,status\n"
    points = "bidirectional,a/b,512,9.0,ratio,ok\nbidirectional,a/b,4096,1.25,ratio,ok\nbidirectional,c/d,4096,3.5,ratio,ok\n"
    for stem in ("kills", "overhead-forward-float32", "unheard-of"):
        for kind in figures.KINDS:
            (tmp_path / f"{stem}{kind}").write_text(head + points if kind == ".csv" else "", encoding="utf-8")
    (tmp_path / "half-drawn.svg").write_text("", encoding="utf-8")
    found = figures.listing(tmp_path)
    assert [one.stem for one in found] == ["overhead-forward-float32", "kills", "unheard-of"]
    assert found[0].caption.endswith("at L = 4096, bidirectional, a/b is least with 1.25 and c/d most with 3.50.")
    text = rendered(whole, found, HOME)
    assert "](figures/overhead-forward-float32.svg)" in text and "[data](figures/kills.csv)" in text
