"""The command line: exit codes, complaints, certificates, repetition of a failure, and output that fits a terminal."""

import json
import shlex
import subprocess
import sys

import pytest

from command_line import FILE, SMOKE, check, fits
from relpos.conformance import certifying, commands
from relpos.conformance.certificate import certificate, checked
from relpos.conformance.commands import main
from relpos.conformance.errors import UsageError
from relpos.conformance.isolated import Request, judge_isolated
from relpos.conformance.laws import laws
from relpos.conformance.many import judge_many
from relpos.conformance.watching import Unwatched
from relpos.spec.registry import schemes

# ---- exit codes

CODES = [
    (check("press", *SMOKE), 0, "conforms: "),
    (check("key_only", *SMOKE, "--claim", "softmax=causal"), 0, "conforms: "),
    (check("geometric", *SMOKE, "--set", "slope_rule=geometric"), 0, "conforms: "),
    (check("rewarded", *SMOKE, "--law", "L10"), 1, "does not conform: 1 of 1 law fails (exit 1)"),
    (check("key_only", *SMOKE, "--law", "L6"), 3, "undecided between distance=symmetric "),
    (check("geometric", *SMOKE, "--law", "L10"), 3, "undecided between slope_rule=press"),
    (check("interrupted", *SMOKE), 4, "incomplete: "),
    (check("press", *SMOKE, "--law", "L14"), 4, "incomplete: none of the laws asked for could be judged on this "),
    (check("crashing", *SMOKE, "--law", "L1"), 1, "it ended the process (exit code 9)"),
    (check("hanging", *SMOKE, "--law", "L1", "--patience", "1"), 1, "it did not return within 1 s"),
]


@pytest.mark.parametrize(("words", "code", "says"), CODES, ids=[f"{c}-{w[1].split(':')[1]}" for w, c, _ in CODES])
def test_the_exit_code_says_how_it_ended(relpos, words, code, says):
    got, out, _ = relpos(*words)
    assert got == code, out
    assert says in " ".join(out.split())
    assert f"(exit {code})" in out or code == 1
    fits(out)


def test_interrupted_before_anything_was_judged_is_incomplete(relpos):
    code, out, err = relpos(*check("interrupted_at_once", *SMOKE))
    assert code == 4 and not out.strip() and "interrupted before anything was judged" in err


def test_a_crash_on_the_first_call_is_a_broken_adapter(relpos):
    code, _, err = relpos(*check("aborting", *SMOKE))
    assert code == 2 and "it crashed the interpreter (SIGABRT) on ordinary inputs" in " ".join(err.split())


# ---- as it comes


def test_it_stops_at_the_first_failure_and_says_what_was_not_judged(relpos):
    words = [word for name in ("L3", "L10", "L11", "L1") for word in ("--law", name)]
    code, out, _ = relpos(*check("rewarded", *SMOKE, *words, "--fail-fast"))
    assert code == 1
    assert "  …   not judged, it ended before: L11, L1\n2 laws, " in out
    assert "\ndoes not conform: 1 of 2 laws fails (exit 1)\nLooks like: alibi with distance rewarded.\n" in out
    assert "\nSmallest failing input: num_heads = 1, query_length = 2" in out
    fits(out)


def test_a_crash_is_a_failure_to_stop_at(relpos):
    code, out, _ = relpos(*check("crashing", *SMOKE, "--law", "L1", "--law", "L10", "--fail-fast"))
    assert code == 1 and "not judged, it ended before: L10\n" in out


def test_laws_are_told_as_they_are_judged(stand):
    told: list[str] = []

    class Watch(Unwatched):
        def begun(self, verdict):
            told.append(f"{verdict.subject.scheme}, {len(verdict.results)} results")

        def trying(self, law):
            told.append(f"trying {law.name}")

        def judged(self, result):
            told.append(f"{result.law.name} {result.verdict}")

        def explaining(self):
            told.append("explaining")

    request = Request(f"{FILE}:press", {"scheme": "alibi"}, profile="smoke", laws=("L10", "L14"))
    assert judge_isolated(request, watch=Watch()).exit_code == 0
    wanted = ["alibi, 0 results", "trying L10", "L10 pass", "trying L14", "L14 not applicable", "explaining"]
    assert told == wanted


def test_every_line_is_printed_once(relpos):
    _, out, _ = relpos(*check("rewarded", *SMOKE, "--law", "L10", "--law", "L3"))
    assert [out.count(text) for text in ("· smoke profile", "  ✗  L10 ", "  ✓  L3 ", "does not conform: ")] == [1, 1, 1, 1]


# ---- certificates, repetition, seeds


def test_a_certificate_is_written_to_a_file_and_the_table_shown(relpos, stand):
    code, out, _ = relpos(*check("press", *SMOKE, "--json", "folder/certificate.json"))
    document = checked(json.loads((stand / "folder/certificate.json").read_text(encoding="utf-8")))
    assert code == 0 and document["footer"]["verdict"] == "conforms" and "conforms" in out
    assert document["header"]["implementation"]["name"] == f"{FILE}:press"


def test_a_certificate_on_standard_output_is_alone_there(relpos):
    code, out, _ = relpos(*check("rewarded", *SMOKE, "--law", "L10", "--json", "-"))
    document = checked(json.loads(out))
    assert code == 1 == document["footer"]["exit_code"] and document["footer"]["failed"] == ["L10"]


def test_the_printed_line_repeats_the_very_input(relpos):
    _, out, _ = relpos(*check("rewarded", *SMOKE, "--law", "L1"))
    (again,) = [line for line in out.splitlines() if line.startswith("Again:")]
    words = shlex.split(again.removeprefix("Again:"))
    assert words[:3] == ["python", "-m", "relpos"]
    code, repeated, _ = relpos(*words[3:])
    assert code == 1
    wanted = [line for line in out.splitlines() if line.startswith(("Smallest", "bias at"))]
    assert wanted and [line for line in repeated.splitlines() if line.startswith(("Smallest", "bias at"))] == wanted
    assert again in repeated
    code, _, _ = relpos(*[word.replace("rewarded", "press") for word in words[3:]])
    assert code == 0


def test_only_the_named_laws_are_tried(relpos):
    _, out, _ = relpos(*check("press", *SMOKE, "--law", "l10", "--law", "L1", "--json", "-"))
    assert {r["law"] for r in json.loads(out)["results"]} == {"L1", "L10"}


def test_a_seed_is_taken(relpos):
    _, out, _ = relpos(*check("press", *SMOKE, "--law", "L1", "--seed", "7", "--json", "-"))
    assert [r["verdict"] for r in json.loads(out)["results"]] == ["pass"]


# ---- lists


def test_laws_are_listed(relpos):
    code, out, _ = relpos("laws")
    assert code == 0 and all(f"{one.name:<4} {one.title}: " in out for one in laws())
    fits(out)


def test_schemes_are_listed_with_their_settings(relpos):
    code, out, _ = relpos("schemes")
    assert code == 0 and all(f"\n{name} " in f"\n{out}" for name in schemes())
    assert "slope_rule=press|geometric" in out and "no settings" in out
    fits(out)


def test_a_certificate_that_cannot_be_written_does_not_take_the_others_away(relpos, stand, monkeypatch):
    def refused(verdict):
        if verdict.subject.spec.endswith(":attention"):
            raise UsageError("not a relpos certificate: it is refused at results/0.")
        return certificate(verdict)

    monkeypatch.setattr(certifying, "certificate", refused)
    code, out, _ = relpos("builtins", "--scheme", "none", *SMOKE, "--certificates", "written")
    names = sorted(path.name for path in (stand / "written").iterdir())
    assert code == 2 and names and "none__attention.json" not in names
    assert " no certificate for none/attention: not a relpos certificate: it is refused at results/0. 2 " in " ".join(
        out.split()
    )
    assert out.endswith(f"{len(names)} certificates written to written, 1 not (exit 2)\n")


def test_builtins_of_one_scheme_conform(relpos, stand):
    code, out, _ = relpos("builtins", "--scheme", "none", *SMOKE, "--certificates", str(stand / "certificates"))
    assert code == 0 and "implementations conform" in out
    fits(out)
    for path in (stand / "certificates").iterdir():
        assert checked(json.loads(path.read_text(encoding="utf-8")))["footer"]["verdict"] == "conforms"


def test_builtins_with_a_certificate_that_holds_are_not_judged_again(relpos, stand):
    asked = ("builtins", "--scheme", "none", "--variant", "attention", "--certificates", "kept")
    code, out, _ = relpos(*asked, *SMOKE)
    assert code == 0 and "1 of 1 implementations conform" in out
    code, out, _ = relpos(*asked, *SMOKE)
    assert (code, out) == (0, "1 of 1 have a certificate in kept that holds: not judged again\n")
    code, out, _ = relpos(*asked, "--profile", "quick")  # smoke is less than was asked for
    assert code == 0 and "1 of 1 implementations conform" in out
    code, out, _ = relpos(*asked, *SMOKE)
    assert "not judged again" in out
    path = stand / "kept" / "none__attention.json"
    path.write_text(path.read_text(encoding="utf-8").replace('"source_hash": "', '"source_hash": "f'), encoding="utf-8")
    code, out, _ = relpos(*asked, *SMOKE)
    assert code == 0 and "1 of 1 implementations conform" in out


def test_certificates_are_written_as_verdicts_come(relpos, stand, monkeypatch):
    def interrupted(jobs, profile_name, *, progress):
        first = next(iter(jobs))
        found = judge_many({first: jobs[first]}, profile_name, progress=progress)[0]
        return found, False

    monkeypatch.setattr(commands, "judge_many", interrupted)
    code, out, _ = relpos("builtins", "--scheme", "none", "--variant", "attention", *SMOKE, "--certificates", "kept")
    assert code == 4 and "interrupted" in out and (stand / "kept" / "none__attention.json").exists()


def test_a_variant_that_is_not_there_is_named_with_those_that_are(relpos):
    code, _, err = relpos("builtins", "--scheme", "none", "--variant", "fast")
    assert code == 2 and "--variant: there is no 'fast'; there are none/attention" in err


@pytest.mark.parametrize("words", [(), ("--help",), ("check", "--help")], ids=str)
def test_help_says_the_exit_codes_or_the_options(relpos, words):
    with pytest.raises(SystemExit):
        main(words)


# ---- from another folder, in a process of its own


@pytest.mark.parametrize(("name", "code"), [("rewarded", 1)])
def test_it_runs_from_where_the_user_stands(stand, name, code):
    words = [sys.executable, "-m", "relpos", *check(name, *SMOKE, "--law", "L1")]
    done = subprocess.run(words, cwd=stand, capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stderr
    assert not done.stderr
    assert sorted(p.name for p in stand.iterdir() if p.name != "__pycache__") == [FILE]


@pytest.mark.parametrize(
    ("command", "done"), [("show", "shown"), ("vectors", "written"), ("faults", "planted"), ("builtins", "judged")]
)
def test_what_was_not_done_is_what_the_command_does(relpos, command, done):
    words = (command, "alibbi") if command == "show" else (command, "--scheme", "alibbi")
    words += ("--out", "vectors") if command == "vectors" else ()
    code, _, err = relpos(*words)
    assert code == 2 and err.rstrip().endswith(f"Nothing was {done} (exit 2).")
