"""The command `faults`: rows that go on where they ended, bars that are checked, samples, and what it says of wrong usage."""

import json

import pytest
import torch

from relpos.conformance.commands import main
from relpos.conformance.faults import alarms, cells, command, run
from relpos.conformance.faults.api import Control
from relpos.conformance.faults.cells import PINNED
from relpos.conformance.faults.killing import drawn_until
from relpos.conformance.laws import law
from relpos.conformance.planting import plant
from relpos.conformance.profiles import PROFILES

ROWS = "rows.jsonl"
LAST_KEY = ("--scheme", "alibi", "--fault", "last-key")  # drawn inputs see it, and in the output pinned ones


def faults(*words, out=ROWS):
    return ("faults", *words, "--jobs", "1", *(("--out", out) if out else ()))


def rows(stand):
    return [json.loads(line) for line in (stand / ROWS).read_text(encoding="utf-8").splitlines()]


def told(text):
    return " ".join(text.split())


@pytest.fixture
def tried(monkeypatch):
    """What is tried, as it is tried: (fault, level, blocks, whether the pinned inputs were known)."""
    seen, kill = [], run.kill

    def watched(cell, blocks, pinned=None):
        seen.append((cell.fault, cell.level, blocks, pinned is not None))
        return kill(cell, blocks, pinned)

    monkeypatch.setattr(run, "kill", watched)
    return seen


@pytest.fixture
def only_controls(monkeypatch):
    """No definition and no built-in is listened to, only the controls of the test."""
    monkeypatch.setattr(alarms, "definitions", lambda scheme: {})
    monkeypatch.setattr(alarms, "builtins", lambda scheme: {})

    def set_controls(*found):
        monkeypatch.setattr(alarms, "CONTROLS", found)

    return set_controls


# ---- rows


def test_a_second_run_has_nothing_to_do_and_says_the_same(relpos, stand, tried):
    first = relpos(*faults(*LAST_KEY, "--seeds", "3"))
    number, tried[:] = len(tried), []
    second = relpos(*faults(*LAST_KEY, "--seeds", "3"))
    assert number == 3 and not tried and first[0] == second[0] == 0
    assert "To run: 3 places" in first[1] and "To run: 0 places" in second[1]
    assert first[1].splitlines()[-5:] == second[1].splitlines()[-5:]


def test_a_line_that_was_cut_off_is_run_again(relpos, stand, tried):
    relpos(*faults(*LAST_KEY, "--seeds", "3"))
    lines = (stand / ROWS).read_text(encoding="utf-8").splitlines(keepends=True)
    (stand / ROWS).write_text("".join(lines[:4])[:-20], encoding="utf-8")
    tried.clear()
    code, _, _ = relpos(*faults(*LAST_KEY, "--seeds", "3"))
    assert code == 0 and tried == [("last-key", "logits", ("0-2",), True), ("last-key", "attention", ("0-2",), False)]
    assert [row["block"] for row in rows(stand)] == [PINNED, "0-2", PINNED, "0-2", PINNED]


def test_more_seeds_add_to_those_that_are_there(relpos, stand, tried):
    relpos(*faults(*LAST_KEY, "--seeds", "10"))
    tried.clear()
    relpos(*faults(*LAST_KEY, "--seeds", "12"))
    assert tried == [("last-key", "contribution", ("10-11",), True)]  # at its other levels ten seeds are all


def test_a_row_of_other_files_is_run_again(relpos, stand, tried):
    relpos(*faults(*LAST_KEY, "--seeds", "3"))
    old = [row | ({"hash": "0" * 16} if row["level"] == "logits" else {}) for row in rows(stand)]
    (stand / ROWS).write_text("".join(json.dumps(row) + "\n" for row in old), encoding="utf-8")
    tried.clear()
    relpos(*faults(*LAST_KEY, "--seeds", "3"))
    assert tried == [("last-key", "logits", ("0-2",), False)]


def test_a_hash_follows_the_law_the_fault_and_the_definition(monkeypatch):
    def hashes():
        return {name: next(iter(cells.cells(*name))).hash() for name in (("alibi", "last-key"), ("t5", "top-left"))}

    from relpos.conformance.faults import sources

    text, before = sources._text, hashes()
    for module, changed in (
        ("relpos.conformance.laws.l06_rows", [("alibi", "last-key")]),
        ("relpos.conformance.faults.t5", [("t5", "top-left")]),
        ("relpos.spec.alibi", [("alibi", "last-key")]),
        ("relpos.conformance.judge", [("alibi", "last-key"), ("t5", "top-left")]),
        ("relpos.conformance.console", []),
    ):
        monkeypatch.setattr(sources, "_text", lambda name, m=module: text(name) + "# changed" * (name == m))
        assert [name for name, found in hashes().items() if found != before[name]] == changed, module


def test_what_an_interruption_leaves_is_kept_and_shown(relpos, stand, monkeypatch):
    kill, calls = run.kill, []

    def stopped(*task):
        calls.append(task)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return kill(*task)

    monkeypatch.setattr(run, "kill", stopped)
    code, out, _ = relpos(*faults(*LAST_KEY, "--seeds", "2"))
    assert code == 4 and "incomplete: interrupted; the same command goes on" in out
    assert "1 faults at 1 places" in told(out) and {row["level"] for row in rows(stand)} == {"contribution"}


@pytest.mark.exhaustive
def test_two_processes_come_to_the_same_rows(relpos, stand):
    relpos(*faults(*LAST_KEY, "--seeds", "2"))
    alone = {(r["level"], r["block"]): (r["inputs"], r["killed"], r["hash"]) for r in rows(stand)}
    (stand / ROWS).unlink()
    code, _, _ = relpos("faults", *LAST_KEY, "--seeds", "2", "--jobs", "2", "--out", ROWS)
    assert code == 0 and alone == {(r["level"], r["block"]): (r["inputs"], r["killed"], r["hash"]) for r in rows(stand)}


# ---- seeds


def test_two_seeds_draw_different_inputs_and_one_seed_the_same():
    subject = plant("alibi", "contribution")
    drawn = [drawn_until(law("L6"), subject, PROFILES["default"], seed)[0] for seed in (0, 1, 0)]
    assert drawn[0] == drawn[2] and len(drawn[0]) > 20
    assert sum(plan in drawn[1] for plan in drawn[0]) < 10  # Hypothesis begins with the simplest input, whatever the seed


def test_a_seed_draws_as_many_inputs_as_the_default_profile():
    cell = cells.cells("alibi", "last-key")[0]
    assert cell.tries == PROFILES["default"].inputs_for(law("L6"))
    assert len(drawn_until(law("L6"), plant("alibi", "contribution"), PROFILES["default"], 0)[0]) == cell.tries


def test_a_pinned_input_that_kills_counts_for_every_seed(relpos, stand, tried):
    code, _, _ = relpos(*faults("--scheme", "alibi", "--fault", "offset-lost", "--seeds", "30"), "--report", "table.md")
    assert code == 0 and [row["block"] for row in rows(stand)] == [PINNED] * len(tried)
    assert "| 30/30 | yes |" in (stand / "table.md").read_text(encoding="utf-8")


# ---- bars


def slopes(num_heads):
    return torch.tensor([2.0 ** (-8 * (h + 1) / num_heads) for h in range(num_heads)]).view(-1, 1, 1)


def right(num_heads, query_positions, key_positions):
    return -slopes(num_heads) * (query_positions[:, None] - key_positions).abs()


def wrong(num_heads, query_positions, key_positions):
    return right(num_heads, query_positions, key_positions) * 2


@pytest.mark.parametrize(("target", "code"), [(right, 0), (wrong, 1)])
def test_an_alarm_misses_the_bar_and_what_is_the_same_for_all_seeds_is_tried_once(
    relpos, stand, only_controls, monkeypatch, target, code
):
    only_controls(Control("doubled", "no mistake", "alibi", target, settings={"slope_rule": "geometric"}))
    monkeypatch.setattr(alarms, "PROFILE", PROFILES["smoke"])
    got, out, _ = relpos(*faults("--scheme", "alibi", "--sample", "1", "--seeds", "1", "--alarm-seeds", "2"))
    assert got == code and ("alarm of L1 on doubled at seed 0: the bias differs" in told(out)) == bool(code)
    first, second = (row for row in rows(stand) if "subject" in row)
    assert bool(first["alarms"]) == bool(second["alarms"]) == bool(code) and first["inputs"] > 20
    assert code or second["inputs"] < first["inputs"]


def test_controls_and_one_variant_of_each_scheme_have_all_seeds_the_others_two():
    found = {right.name: right.seeds(20) for right in alarms.rights()}
    assert found["half-apart"] == found["alibi as bias"] == 20
    assert found["alibi as attention"] == found["alibi/toeplitz"] == 2


# ---- samples, all laws


def test_a_sample_is_said_and_always_the_same(relpos, monkeypatch):
    every = cells.cells("none")
    assert cells.sampled(every, 5) == cells.sampled(every, 5) and len(cells.sampled(every, 5)) == 5
    monkeypatch.setattr(command, "run_kills", lambda *given: None)
    _, out, _ = relpos(*faults("--scheme", "none", "--sample", "5", "--seeds", "2", "--alarm-seeds", "0", out=""))
    assert "5 places of faults under the law that owes the kill, only scheme none, a sample of 5, 2 seeds" in told(out)


def test_the_matrix_has_the_other_laws_and_asks_only_one_of_them(relpos, stand, monkeypatch):
    monkeypatch.setattr(cells, "laws", lambda: tuple(map(law, ("L1", "L5", "L7", "L22"))))
    code, _, _ = relpos(*faults("--scheme", "none", "--fault", "causal-late", "--matrix"))
    found = {row["law"]: row["killed"][-1] for row in rows(stand)}
    assert code == 0 and found == {"L1": True, "L5": False, "L7": True}  # L22 measures, and owes nothing here


# ---- wrong usage

WRONG = [
    (("--scheme", "alibbi"), "alibi"),
    (("--scheme", "alibi", "--fault", "slopes-revers"), "is called 'slopes-revers'. Did you mean slopes-reversed"),
    (("--fault", "last-key", "--report", "."), "--report: . could not be written"),
    (("--fault", "last-key", "--kills", "."), "--kills: . could not be written"),
    (("--fault", "last-key", "--out", "binary.txt"), "--out: binary.txt holds no rows of this command"),
    (("--scheme", "alibi", "--worth", "w.json"), "--worth is made of all faults: leave out --scheme"),
    (("--fault", "last-key", "--out", "notes.txt"), "line 1 of notes.txt is no row of a kill table; name another file"),
    (("--fault", "last-key", "--out", "list.txt"), "line 1 of list.txt is no row of a kill table; name another file"),
    (("--fault", "last-key", "--out", "."), "--out: . cannot be read and written"),
]


@pytest.mark.parametrize(("words", "says"), WRONG, ids=[" ".join(words) for words, _ in WRONG])
def test_wrong_usage_is_answered_in_words(relpos, stand, words, says):
    (stand / "notes.txt").write_text("buy milk\n", encoding="utf-8")
    (stand / "list.txt").write_text("buy milk", encoding="utf-8")
    (stand / "binary.txt").write_bytes(b"\xff\xfe")
    code, _, err = relpos("faults", *words)
    assert code == 2 and says in told(err) and "Nothing was planted" in err
    assert (stand / "notes.txt").read_text(encoding="utf-8").strip() == (stand / "list.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("words", [("--seeds", "many"), ("--seeds", "0"), ("--jobs", "-1"), ("--sample", "1.5")], ids=" ".join)
def test_a_number_that_is_none_is_answered_in_words(stand, capsys, words):
    with pytest.raises(SystemExit) as ended:
        main(["faults", *words])
    err = told(capsys.readouterr().err)
    assert ended.value.code == 2 and f"argument {words[0]}: must be a whole number, at least 1; got '{words[1]}'" in err
