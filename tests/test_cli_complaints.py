"""The command line: what makes no sense, or cannot be imported, is answered in words that say what to do."""

import pytest

from command_line import ALIBI, FILE, check, fits

COMPLAINTS = [
    (("check",), "wrong usage: name an implementation: python -m relpos check my_kernels.py:alibi --scheme alibi"),
    (
        ("check", f"{FILE}:press"),
        f"wrong usage: {FILE}:press does not say which scheme it implements; add --scheme, one of alibi, ",
    ),
    (
        ("check", f"{FILE}:press", "--scheme", "alibbi"),
        "wrong usage: no scheme is called 'alibbi'. Did you mean alibi? There are: alibi, beit, clipped, ",
    ),
    (
        check("press", "--set", "n_heads=3"),
        "wrong usage: alibi: there is no setting called 'n_heads'. Did you mean num_heads=3? Its settings: num_heads=…, ",
    ),
    (check("press", "--set", "num_heads=0"), "wrong usage: alibi: `num_heads` must be at least 1, got 0."),
    (check("press", "--set", "num_heads=x"), "wrong usage: alibi: `num_heads` must be a whole number, got 'x'."),
    (
        check("press", "--set", "num_heads=3", "--set", "num_heads=4"),
        "wrong usage: alibi: `num_heads` is set twice, to 3 and to 4; set it once.",
    ),
    (
        check("press", "--set", "num_heads=100000"),
        "wrong usage: alibi: `num_heads` must be at most 1024 for the judge, got 100000: the definition is evaluated in loops.",
    ),
    (
        check("press", "--claim", "max_length=-5"),
        "wrong usage: claim `max_length` must be a whole number from 1, got -5.",
    ),
    (check("press", "--claim", "max_position=-1"), "wrong usage: claim `max_position` must be a whole number from 0, got -1."),
    (
        check("press", "--claim", "dtypes=fp8"),
        "wrong usage: claim `dtypes` must be some of float64, float32, bfloat16, float16",
    ),
    (check("press", "--claim", "memory=much"), "wrong usage: claim `memory` must be a sum of products of B, H, Lq, Lk, L, D"),
    (
        check("press", "--claim", "rename=foo"),
        "wrong usage: claim `rename` is written their_name:our_name, as in rename=attention_mask:mask, got 'foo'.",
    ),
    (
        check("press", "--claim", "rename=foo:mask"),
        f"wrong usage: {FILE}:press: claim `rename` speaks of 'foo', but it takes ",
    ),
    (check("press", "--claim", "binds=foo"), f"wrong usage: {FILE}:press: claim `binds` names 'foo', but it takes "),
    (
        check("press", "--claim", "unclaimed=L99"),
        f"wrong usage: {FILE}:press: claim `unclaimed` names 'L99'; the laws are L1, ",
    ),
    (
        check("press", "--claim", "softmax=any", "--claim", "softmax=causal"),
        "wrong usage: claim `softmax` is stated twice, as 'any' and as 'causal'; state it once.",
    ),
    (check("press", "--claim", "scheme=t5"), f"wrong usage: {FILE}:press is said to implement 'alibi' and 't5' (its card, "),
    (check("press", "--patience", "0"), "wrong usage: --patience must be a positive number of seconds, got 0."),
    (check("press", "--patience", "nan"), "wrong usage: --patience must be a positive number of seconds, got nan."),
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
    (
        check("press", "--law", "L1", "--case", '{"settings":7}'),
        "wrong usage: --case must be the JSON that a failure printed, got '{\"settings\":7}'. `settings` must be an object",
    ),
    (
        check("press", "--device", "nowhere"),
        "wrong usage: --device must be a device on which PyTorch makes tensors here, such as cpu, got 'nowhere'.",
    ),
    (
        check("press", "--json", f"{FILE}/x.json"),
        f"wrong usage: --json must be a file that can be written, got {FILE}/x.json (File exists).",
    ),
    (check("press", "--json", "."), "wrong usage: --json must be a file that can be written, got . (Is a directory)."),
    (check("press", "--with", "my-package"), "wrong usage: --with installs into a separate environment, which nox makes"),
    (("check", f"{FILE}", *ALIBI), f"wrong usage: --impl: write module:name or path/to/file.py:name, got '{FILE}'. Say which "),
    (
        ("check", f"{FILE}:", *ALIBI),
        f"wrong usage: --impl: write module:name or path/to/file.py:name, got '{FILE}:'; the name ",
    ),
    (("check", ":press", *ALIBI), "wrong usage: --impl: write module:name or path/to/file.py:name, got ':press'; the file "),
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
        ("x = 1\n1 / 0", "ZeroDivisionError: division by zero (line 2 of broken.py)."),
        ("def f(:", "SyntaxError"),
    ],
)
def test_a_module_that_cannot_be_imported_shows_its_own_error(relpos, stand, text, says):
    (stand / "broken.py").write_text(text, encoding="utf-8")
    code, _, err = relpos("check", "broken.py:f", *ALIBI)
    assert code == 2 and f"adapter broken: broken.py could not be imported: {says}" in " ".join(err.split())


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (
            "async def f(num_heads, query_length, key_length): return 0",
            "broken.py:f is an async function; the judge does not await",
        ),
        ("def f(num_heads, query_length, key_length): pass", "broken.py:f returned None: is a `return` missing?"),
        ("class f: pass", "broken.py:f is a class that cannot be called: it needs `forward`, `__call__` or `step(q, k, v)`."),
        (
            "class f:\n    def step(self, q): return q",
            "broken.py:f: `step` does not take k and v; write step(q, k, v), the new tokens alone",
        ),
        (
            "def f(num_heads, query_length, key_length): return 0\nf.__relpos__ = 7",
            "broken.py:f: `__relpos__` must be a dict of claims, got 7;",
        ),
        (
            "import torch\ndef f(num_heads, query_length, key_length):\n    return torch.zeros(1, device='meta')",
            "broken.py:f returned a tensor on the meta device, which holds no numbers",
        ),
        (
            "import torch\ndef f(num_heads, query_length, key_length):\n    return torch.zeros(2, 3).to_sparse()",
            "broken.py:f returned a sparse tensor (torch.sparse_coo); return it dense",
        ),
    ],
)
def test_a_function_that_gives_nothing_to_judge_is_told_why(relpos, stand, line, says):
    (stand / "broken.py").write_text(line, encoding="utf-8")
    code, _, err = relpos("check", "broken.py:f", *ALIBI)
    assert code == 2 and says in " ".join(err.split()) and "never awaited" not in err


FORKING = """
import os, torch

print("imported")

def f(num_heads, query_length, key_length, offset):
    os.fork()
    slopes = torch.tensor([2 ** (-8 * (h + 1) / num_heads) for h in range(num_heads)])
    return -slopes[:, None, None] * (torch.arange(query_length)[:, None] + offset - torch.arange(key_length)).abs()
"""


def test_a_fork_that_comes_back_does_not_judge_and_a_module_prints_once_per_loading(relpos, stand):
    (stand / "forking.py").write_text(FORKING, encoding="utf-8")
    chosen = ("--set", "num_heads=4", "--set", "slope_rule=geometric", "--law", "L1", "--law", "L4", "--profile", "smoke")
    code, out, err = relpos("check", "forking.py:f", *ALIBI, *chosen)
    assert code == 0 and "2 of 2 laws hold" in out and "Traceback" not in err
    assert out.count("imported") <= 2


def test_an_interruption_while_it_starts_is_no_traceback(monkeypatch, capsys):
    from relpos.__main__ import main
    from relpos.conformance import commands

    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(commands, "main", interrupted)
    assert main() == 4 and capsys.readouterr().err == "incomplete: interrupted before anything was judged (exit 4).\n"


@pytest.mark.parametrize(("code", "given"), [(1, 4), (2, 2)])
def test_a_reader_that_closes_the_pipe_says_nothing_of_the_implementation(monkeypatch, code, given):
    from relpos.__main__ import main
    from relpos.conformance import commands

    def closed():
        raise SystemExit(code)

    monkeypatch.setattr(commands, "main", closed)
    try:
        ended = main()
    except SystemExit as left:
        ended = left.code
    assert ended == given


def test_a_narrow_terminal_still_shows_which_law_and_how_it_went():
    from io import StringIO

    from rich.console import Console

    from relpos.conformance.console import show_result
    from relpos.conformance.laws import law
    from relpos.conformance.runner import FAIL, LawResult

    out = Console(file=StringIO(), width=40)
    show_result(out, LawResult(law("L1"), FAIL, "the bias differs from the definition"), "contribution")
    words = out.file.getvalue().split()
    assert words[:2] == ["✗", "L1"] and {"definition", "bias", "differs"} <= set(words)
