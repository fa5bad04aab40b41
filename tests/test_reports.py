"""The report: all of it comes from data, what it says of a figure is what the rows say, and it says what speaks against it."""

import copy
import re
from dataclasses import replace

import pytest

from relpos.perf import scaling
from relpos.perf.measuring import Options, measure
from relpos.perf.sweep import Sweep, run
from relpos.perf.variants import built_in
from relpos.reports.numbers import interval
from relpos.reports.render import rendered
from relpos.reports.source import HOME, read_rows
from report_rows import NO_DECODER, NO_ORDER, RECORD, RUN, cells, point, section


@pytest.fixture(scope="module", autouse=True)
def few_resamplings():
    """Fits take most of the time, and none of these tests is about them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scaling, "RESAMPLED", 20)
        yield


@pytest.fixture
def of(bare):
    """The document of some rows."""

    def text(rows, **more):
        return rendered(replace(bare, rows=tuple(rows), machine=RECORD if rows else {}, **more), [], HOME)

    return text


@pytest.fixture(scope="module")
def document(bare, rows):
    return rendered(replace(bare, rows=tuple(rows), machine=RECORD), [], HOME)


def without_id(document):
    return re.sub(r"\b[0-9a-f]{12}\b", "id", document)


# ---- nothing is typed by hand

SHOWN = [
    ("ratios", "alibi/toeplitz", 512, "forward"), ("extra_bytes", "alibi/toeplitz", 4096, "forward"),
    ("peak_bytes", "rope/rotate", 2048, "forward"), ("parameters", "rope/rotate", 4096, "forward"),
    ("error_units", "sinusoidal/encode", 4096, "forward"), ("tokens_per_second", "alibi/toeplitz", 4096, "forward_backward"),
    ("backward_bytes", "t5/toeplitz", 4096, "forward_backward"), ("ratios", "rope/Decoder", 4096, "decode"),
    ("ratios", "t5/transformers", 4096, "forward"), ("median_of_ratios", "control", 2048, "forward"),
    ("samples_ms", "alibi/toeplitz", 512, "forward"), ("reason", "swin/bias", 512, "decode"),
    ("commit", "limit", 512, "decode"), ("load", "limit", 512, "decode"), ("status", "alibi/bias", 512, "forward"),
]  # fmt: skip


@pytest.mark.parametrize(("column", "variant", "length", "mode"), SHOWN, ids=[f"{c}-{v}" for c, v, *_ in SHOWN])
def test_another_value_in_one_row_is_another_document(of, document, rows, column, variant, length, mode):
    changed = copy.deepcopy(rows)
    row = next(r for r in changed if (r["variant"], r["key_length"], r["mode"]) == (variant, length, mode))
    old = row[column]
    new = {"reason": "another", "commit": "ba9876543210", "status": "unstable"}.get(column)
    row[column] = new or ([one * 3 for one in old] if isinstance(old, list) else old * 3)
    assert without_id(of(changed)) != without_id(document)


def test_another_machine_is_another_document(bare, rows, document):
    other = replace(bare, rows=tuple(rows), machine={**RECORD, "memory_gib": 48})
    assert "48 GiB" in rendered(other, [], HOME) and "48 GiB" not in document
    assert other.id != replace(other, machine=RECORD).id


def test_the_same_rows_give_the_same_document_and_their_order_none_of_its_figures(of, document, rows):
    assert of(copy.deepcopy(rows)) == document
    heading = "Verdict: forward, bidirectional, float32"
    assert cells(section(of(rows[::-1]), heading)) == cells(section(document, heading))


# ---- what a figure says


def test_a_ratio_is_the_median_of_its_rounds_with_an_interval_around_it(document, rows):
    ratios = point(rows, "alibi/toeplitz", 4096)["ratios"]
    value, low, high = interval(ratios)
    assert value == sorted(ratios)[3] and min(ratios) <= low < value < high <= max(ratios)
    table = cells(section(document, "Verdict: forward, bidirectional, float32"))
    assert table["**alibi** (toeplitz)"]["× limit at 4k"] == f"{value:.2f} [{low:.2f}, {high:.2f}]"


def test_the_fastest_stable_variant_stands_for_its_scheme(document, of, rows):
    heading = "Verdict: forward, bidirectional, float32"
    table = cells(section(document, heading))
    assert "**t5** (toeplitz)" in table, "t5/bias is faster at 4k, but unstable there"
    assert "**alibi** (toeplitz)" in table and len(table) == 6
    changed = copy.deepcopy(rows)
    point(changed, "t5/bias", 4096)["status"] = "ok"
    point(changed, "alibi/toeplitz", 4096)["status"] = "unstable"
    assert {"**t5** (bias)", "**alibi** (bias)"} <= set(cells(section(of(changed), heading)))


def test_what_is_unstable_is_hollow_and_below_all_that_is_ranked(of, rows):
    changed = copy.deepcopy(rows)
    for one in changed:
        if one["variant"] == "sinusoidal/encode" and one["key_length"] == 4096:
            one["status"] = "unstable"
    table = cells(section(of(changed), "Verdict: forward, bidirectional, float32"))
    names = [name.split(" ")[0] for name in table]
    assert names == ["**alibi**", "**rope**", "**t5**", "**swin**", "**deberta**", "**sinusoidal**"]
    assert table["**sinusoidal** (encode)"]["× limit at 4k"].startswith("○ 1.0")


def test_what_is_missing_has_its_reason_below(document):
    text = section(document, "Verdict: forward, bidirectional, float32")
    table, reasons = cells(text), dict(re.findall(r"^([⁰¹²³⁴⁵⁶⁷⁸⁹]+) (.*?)(?:<br>)?$", text, re.MULTILINE))
    assert reasons[table["**deberta** (attention)"]["× limit at 4k"].removeprefix("—")] == "oom: can't allocate memory"
    assert reasons[table["**swin** (bias)"]["decode, × limit at 4k"].removeprefix("—")] == f"unsupported: {NO_ORDER}"
    assert "Not in this run: beit, clipped," in text


def test_a_reason_is_shown_as_it_was_said_whatever_signs_it_holds(of, rows):
    changed = copy.deepcopy(rows)
    point(changed, "deberta/attention", 4096)["reason"] = "a * b | <c> __d__\nend"
    text = section(of(changed), "Verdict: forward, bidirectional, float32")
    assert r"oom: a \* b \| \<c\> \_\_d\_\_ end" in text


def test_a_step_of_decoding_names_the_variant_that_takes_it(document):
    table = cells(section(document, "Verdict: forward, bidirectional, float32"))
    assert table["**rope** (rotate)"]["decode, × limit at 4k"].endswith("] (Decoder)")
    assert table["**alibi** (toeplitz)"]["decode, × limit at 4k"].endswith("]")
    assert NO_DECODER in document


def test_laws_are_those_of_the_certificate(document, bare):
    table = cells(section(document, "Verdict: forward, bidirectional, float32"))
    passed = sum(one["verdict"] == "pass" for one in bare.certificates["alibi/toeplitz"]["results"])
    link = "../conformance/certificates/alibi__toeplitz.json"
    assert table["**alibi** (toeplitz)"]["laws held"] == f"[{passed} of {passed}]({link})"


def test_a_law_that_fails_is_counted(of, bare, rows):
    certificates = copy.deepcopy(bare.certificates)
    certificates["alibi/toeplitz"]["results"][0]["verdict"] = "fail"
    text = of(rows, certificates=certificates)
    held, judged = re.search(r"\[(\d+) of (\d+)\]\(\S+alibi__toeplitz\.json\)", text).groups()
    assert int(held) == int(judged) - 1


def test_a_variant_without_certificate_says_how_it_was_judged(of, bare, rows):
    left = {label: one for label, one in bare.certificates.items() if label != "alibi/toeplitz"}
    text = section(of(rows, certificates=left), "Verdict: forward, bidirectional, float32")
    assert cells(text)["**alibi** (toeplitz)"]["laws held"].startswith("—")
    assert "no certificate: judged at the smoke profile when it was measured" in text


def test_growth_of_memory_is_named(document):
    (line,) = [line for line in document.splitlines() if line.startswith("- **Growth of peak memory**")]
    assert line.endswith("linear: sinusoidal, alibi, rope and t5; quadratic: swin; not fitted: deberta.")


def test_what_chance_explains_is_not_told_apart(document):
    lines = [line for line in document.splitlines() if line.startswith("- **Time**")]
    assert "sinusoidal 1.0" in lines[0] and "Not told apart from no positions: sinusoidal. Not ranked: deberta." in lines[0]


def test_a_peer_is_held_against_the_limit_and_against_ours(document, rows):
    table = cells(document[document.index("## What people use today") : document.index("## How it grows")])
    ours, theirs = (point(rows, name, 4096)["ratios"] for name in ("t5/toeplitz", "t5/transformers"))
    value = interval(theirs, ours)[0]
    found = next(
        v for k, v in cells(section(document, "Forward, bidirectional, float32")).items() if k == "**t5/transformers**"
    )
    assert table and found["of"] == "transformers 5.24.0"
    assert found["over ours at 4k"].startswith(f"{value:.2f} [") and found["over ours at 4k"].endswith("(toeplitz)")


def test_the_claim_on_training_says_what_attention_alone_shows(document, of, rows):
    assert "In attention alone (forward + backward, causal, float32) alibi has" in document
    assert "In attention alone" not in of([r for r in rows if r["variant"] != "sinusoidal/encode"])


# ---- of what perf writes today


def test_what_perf_measures_today_can_be_reported(of, tmp_path):
    """In this process, so that it takes no seconds; a column that perf no longer writes would be missing here."""
    few = [one for one in built_in() if one.label in ("alibi/toeplitz", "rope/rotate")]
    sweep = Sweep(lengths=(8,), modes=("forward", "forward_backward", "decode"), directions=(True,))
    options, out = Options(rounds=3, threads=1), tmp_path / "rows.jsonl"
    run(sweep, few, options, out, {**RUN, "dirty": True}, refused={}, measure=measure)
    text = of(read_rows(out)[0])
    assert "was not measured" not in text and "not part of this run" not in text
    table = cells(section(text, "Verdict: forward, causal, float32"))
    missing = [head for found in table.values() for head, cell in found.items() if "—" in cell]
    assert len(table) == 2 and missing == ["memory grows like L to the"] * 2, "one length is too few for a fit"
    assert "from a tree with changes that no commit holds" in text
