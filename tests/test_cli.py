"""The command line: exit codes, complaints, certificates, repetition of a failure, and output that fits a terminal."""

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from relpos.conformance.certificate import checked
from relpos.conformance.commands import main
from relpos.conformance.laws import laws
from relpos.spec.registry import schemes

FILE = "user_kernels.py"
SMOKE = ("--profile", "smoke")
ALIBI = ("--scheme", "alibi")


@pytest.fixture
def stand(tmp_path, monkeypatch):
    """Where a user stands: a folder of their own with their file in it."""
    shutil.copy(Path(__file__).with_name(FILE), tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def relpos(stand, capsys):
    """Run a command: exit code, standard output, standard error."""

    def run(*words):
        code = main(words)
        return code, *capsys.readouterr()

    return run


def check(name, *more):
    return ("check", f"{FILE}:{name}", *ALIBI, *more)


def fits(text):
    wide = [line for line in text.splitlines() if len(line) > 80 and not line.startswith("Again:")]
    assert not wide, wide[0]


# ---- exit codes

CODES = [
    (check("press", *SMOKE), 0, "conforms: "),
    (check("key_only", *SMOKE, "--claim", "softmax=causal"), 0, "conforms: "),
    (check("geometric", *SMOKE, "--set", "slope_rule=geometric"), 0, "conforms: "),
    (check("rewarded", *SMOKE, "--law", "L10"), 1, "does not conform: 1 of 1 law fails (exit 1)"),
    (check("key_only", *SMOKE, "--law", "L6"), 3, "undecided between distance=symmetric "),
    (check("geometric", *SMOKE, "--law", "L10"), 3, "undecided between slope_rule=press"),
    (check("interrupted", *SMOKE), 4, "incomplete: "),
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


# ---- complaints

COMPLAINTS = [
    (("check",), "wrong usage: name an implementation: python -m relpos check my_kernels.py:alibi --scheme alibi"),
    (
        ("check", f"{FILE}:press"),
        f"wrong usage: {FILE}:press does not say which scheme it implements; add --scheme, one of alibi, ",
    ),
    (
        ("check", f"{FILE}:press", "--scheme", "alibbi"),
        "wrong usage: no scheme is called 'alibbi'. Did you mean alibi? There are: alibi, ",
    ),
    (
        check("press", "--set", "n_heads=3"),
        "wrong usage: alibi: --set takes name=value, got 'n_heads=3'. Its settings: num_heads=…, ",
    ),
    (check("press", "--set", "num_heads=0"), "wrong usage: alibi: `num_heads` must be at least 1, got 0."),
    (check("press", "--set", "num_heads=x"), "wrong usage: alibi: `num_heads` must be a whole number, got 'x'."),
    (check("press", "--claim", "softmaxx=causal"), "wrong usage: there is no claim called 'softmaxx'. Did you mean softmax?"),
    (check("press", "--claim", "softmax=full"), "wrong usage: claim `softmax` must be one of 'any', 'causal', got 'full'."),
    (
        check("press", "--claim", "softmax"),
        "wrong usage: a claim is written name=value, got 'softmax'; for example softmax=causal.",
    ),
    (
        check("press", "--law", "L99"),
        "wrong usage: --law must be one of L1 (equals the definition), L2 (depends on i − j only)",
    ),
    (check("press", "--profile", "slow"), "wrong usage: --profile must be one of: smoke (seconds: does it run at all"),
    (check("press", "--case", "{}"), "wrong usage: --case repeats one input of one law: add --law, as the failure printed it."),
    (
        check("press", "--law", "L1", "--case", "nonsense"),
        "wrong usage: --case must be the JSON that a failure printed, got 'nonsense'",
    ),
    (check("press", "--with", "my-package"), "wrong usage: --with installs into a separate environment, which nox makes"),
    (("check", "missing.py:press", *ALIBI), "wrong usage: --impl: there is no file missing.py (looked in "),
    (
        ("check", "no_such_package.kernels:press", *ALIBI),
        "wrong usage: --impl: no module called 'no_such_package.kernels' can be imported here.",
    ),
    (check("pres"), f"wrong usage: --impl {FILE}:pres: user_kernels has no `pres`. Did you mean press"),
    (("check", "press", *ALIBI), "wrong usage: --impl: write module:name or path/to/file.py:name, got 'press'."),
    (
        check("no_arguments_known"),
        f"adapter broken: {FILE}:no_arguments_known asks for `heads_and_lengths`, which nobody can provide.",
    ),
    (("builtins", "--scheme", "alibbi"), "wrong usage: no scheme is called 'alibbi'."),
    (("builtins", "--profile", "slow"), "wrong usage: --profile must be one of: "),
]


@pytest.mark.parametrize(("words", "says"), COMPLAINTS, ids=[says[:75] for _, says in COMPLAINTS])
def test_what_makes_no_sense_is_answered_in_words(relpos, words, says):
    code, out, err = relpos(*words)
    assert code == 2 and not out.strip()
    assert " ".join(err.split()).startswith(" ".join(says.split()))
    assert err.rstrip().endswith("Nothing was judged (exit 2).")
    fits(err)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("import nothing_of_this_name", "ModuleNotFoundError"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("def f(:", "SyntaxError"),
    ],
)
def test_a_module_that_cannot_be_imported_shows_its_own_error(relpos, stand, text, says):
    (stand / "broken.py").write_text(text, encoding="utf-8")
    code, _, err = relpos("check", "broken.py:f", *ALIBI)
    assert code == 2 and f"adapter broken: broken.py could not be imported: {says}" in " ".join(err.split())


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


def test_builtins_of_one_scheme_conform(relpos, stand):
    code, out, _ = relpos("builtins", "--scheme", "none", *SMOKE, "--certificates", str(stand / "certificates"))
    assert code == 0 and "implementations conform" in out
    fits(out)
    for path in (stand / "certificates").iterdir():
        assert checked(json.loads(path.read_text(encoding="utf-8")))["footer"]["verdict"] == "conforms"


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
