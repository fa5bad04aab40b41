"""`python -m relpos perf` from end to end: measured, resumed, compared, drawn, and every way of going wrong told apart."""

import json
import os
import shutil
import signal
import time

import pytest

from perf_rows import pretended
from relpos.conformance.commands import main
from relpos.perf import command
from relpos.perf.estimate import Pace
from relpos.perf.point import THE_CONTROL, THE_LIMIT, Shape, Variant
from relpos.perf.rows import append, read, row
from relpos.perf.show import table_lines

TWO = ("--scheme", "alibi", "--variant", "toeplitz", "--variant", "bias", "--rounds", "2", "--threads", "1")
SHORT = (*TWO, "--lengths", "64,128")


@pytest.fixture(autouse=True)
def passed(monkeypatch):
    """The gate has tests of its own, and so has the fresh process."""
    monkeypatch.setattr(command, "refusals", lambda variants: {})
    monkeypatch.setattr(command, "resident_isolated", lambda shape, variant, options: 0)
    monkeypatch.setattr(command, "pace", lambda options, dtypes, device: Pace(dict.fromkeys(dtypes, 2.0), start_s=3.0))


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Rows of one whole run in processes of their own, with its exit code."""
    out = tmp_path_factory.mktemp("perf") / "rows.jsonl"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command, "refusals", lambda variants: {})
        patch.setattr(command, "resident_isolated", lambda shape, variant, options: 0)
        code = main(("perf", *SHORT, "--out", str(out), "--benchmark-json", str(out.with_name("benchmark.json"))))
    return code, out


def test_a_whole_run_leaves_a_row_per_point_the_machine_and_what_pytest_benchmark_reads(measured):
    code, out = measured
    rows = read(out)
    points = {(one["variant"], one["causal"], one["key_length"]) for one in rows}
    assert code == 0 and len(points) == len(rows) == 4 * 2 * 2
    assert {one["status"] for one in rows} <= {"ok", "unstable"}
    assert all(one["tokens_per_second"] > 0 and one["peak_bytes"] > 0 and one["date"] for one in rows)
    ours = [one for one in rows if one["variant"] == "alibi/bias"]
    assert all(one["claimed_exponent"] == 2 and one["error_units"] <= one["error_allowed_units"] for one in ours)
    (machine,) = out.parent.glob("rows.machine-*.json")
    assert rows[0]["machine"] in machine.name and json.loads(machine.read_text(encoding="utf-8"))["cores"]
    assert len(json.loads(out.with_name("benchmark.json").read_text(encoding="utf-8"))["benchmarks"]) == 16


def test_a_formed_bias_takes_a_matrix_at_every_length_and_a_view_does_not(measured):
    _, out = measured
    peaks = {(one["variant"], one["key_length"]): one["peak_bytes"] for one in read(out) if not one["causal"]}
    assert (
        peaks["alibi/bias", 128] / peaks["alibi/bias", 64]
        > 3
        > 2.2
        > peaks["alibi/toeplitz", 128] / peaks["alibi/toeplitz", 64]
    )


def test_the_same_command_again_measures_nothing(measured, tmp_path, monkeypatch):
    out = shutil.copy(measured[1], tmp_path)
    before = read(measured[1])
    monkeypatch.setattr("relpos.perf.isolated.get_context", lambda kind: pytest.fail("a process was started"))
    assert main(("perf", *SHORT, "--out", str(out))) == 0
    assert read(tmp_path / "rows.jsonl") == before


def test_a_run_is_no_slower_than_itself(measured, capsys):
    assert main(("perf", "--compare", str(measured[1]), "--out", str(measured[1]))) == 0
    assert "1.00" in capsys.readouterr().out


def test_slower_rows_exit_with_five_and_other_machines_with_seven(tmp_path, capsys):
    files = {}
    for name, rows in {"old": pretended(), "slow": pretended(seed=1, slower=1.5), "far": pretended(machine="ffff")}.items():
        files[name] = str(tmp_path / f"{name}.jsonl")
        append(tmp_path / f"{name}.jsonl", rows)
    assert main(("perf", "--compare", files["old"], "--out", files["slow"])) == 5
    assert "slower" in capsys.readouterr().out
    assert main(("perf", "--compare", files["old"], "--out", files["far"])) == 7
    err = " ".join(capsys.readouterr().err.split())
    assert "times of two machines are not compared" in err and err.endswith("Nothing was compared (exit 7).")


def test_files_without_a_point_in_common_exit_with_six_and_one_that_is_no_file_with_two(tmp_path, capsys):
    for name, lengths in {"short": (512,), "long": (1024,)}.items():
        append(tmp_path / f"{name}.jsonl", pretended(lengths=lengths))
    short, long, none = (str(tmp_path / f"{name}.jsonl") for name in ("short", "long", "none"))
    assert main(("perf", "--compare", short, "--out", long)) == 6
    assert "nothing was measured in both files" in capsys.readouterr().out
    assert main(("perf", "--compare", none, "--out", long)) == 2
    err = " ".join(capsys.readouterr().err.split())
    assert "there is no file of rows" in err and err.endswith("Nothing was compared (exit 2).")


def leaving(*rows):
    """In place of a run: these rows in the file."""
    return lambda sweep, variants, options, path, facts, **others: append(
        path, [one | {"machine": facts["machine"]} for one in rows]
    )


def test_a_point_that_raised_or_was_killed_is_said_and_the_others_are_kept(tmp_path, monkeypatch, capsys):
    good, bad, worse = pretended(lengths=(64,))[2:5]
    killed = row_of(bad, "oom", reason="killed by the system, most likely for memory", exit_code=-9)
    raised = row_of(worse, "failed", reason="RuntimeError: no")
    for number, rows in enumerate([(good,), (good, killed), (good, raised)]):
        out = tmp_path / f"{number}.jsonl"
        monkeypatch.setattr(command, "run", leaving(*rows))
        assert main(("perf", *SHORT, "--out", str(out))) == (1 if number else 0)
        assert len(read(out)) == len(rows)
    said = " ".join(capsys.readouterr().out.split())
    assert f"oom: {bad['variant']}: killed by the system" in said and f"failed: {worse['variant']}: RuntimeError: no" in said


def row_of(one, status, **figures):
    """A row whose point was had, as one that was not."""
    return {name: value for name, value in one.items() if name not in ("samples_ms", "ratios")} | {"status": status} | figures


def test_ctrl_c_costs_the_shape_in_hand_and_the_same_command_goes_on(tmp_path, monkeypatch, capsys):
    asked, out = [], tmp_path / "rows.jsonl"

    def measure(shape, variants, options):
        asked.append((shape.key_length, shape.causal))
        if len(asked) == 3:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(5)
        return [(v, "ok", {"latency_ms": 1.0, "samples_ms": [1.0] * 3}) for v in (THE_LIMIT, THE_CONTROL, *variants)]

    whole, before = command.run, signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    monkeypatch.setattr(command, "run", lambda *args, **others: whole(*args, **{**others, "measure": measure}))
    assert main(("perf", *SHORT, "--out", str(out))) == 4
    signal.signal(signal.SIGINT, before)
    assert "the same command goes on from there" in " ".join(capsys.readouterr().out.split())
    assert {r["key_length"] for r in read(out)} == {64} and len(read(out)) == 8
    assert main(("perf", *SHORT, "--out", str(out))) == 0
    assert asked == [(64, False), (64, True), (128, False), (128, False), (128, True)]
    assert len(read(out)) == len({(r["variant"], r["causal"], r["key_length"]) for r in read(out)}) == 16


def test_a_training_step_is_shown_with_tokens_a_second_and_its_peak():
    figures = {
        "latency_ms": 4.0,
        "median_of_ratios": 1.5,
        "tokens_per_second": 128000.0,
        "peak_bytes": 3 * 2**20,
        "samples_ms": [4.0],
    }
    shape = Shape(mode="forward_backward", key_length=512)
    variant = Variant(label="alibi/bias", spec="", scheme="alibi")
    trained = row({"run": "r", "machine": "m"}, variant, shape, "ok", **figures, extra_bytes=1)
    lines = list(table_lines([trained, trained | {"mode": "forward", "extra_bytes": 2**20}]))
    assert "forward + backward, bidirectional, float32: time × limit, 1000 tokens a second, peak MiB" in lines[0]
    assert lines[2].split() == ["alibi/bias", "1.50", "128.0", "3.0"]
    assert lines[5].split() == ["alibi/bias", "1.50", "1.0"]


def test_nothing_measured_exits_with_six(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(command, "refusals", lambda variants: {v.label: "L1 at the smoke profile" for v in variants})
    assert main(("perf", *TWO, "--lengths", "64", "--out", str(tmp_path / "rows.jsonl"))) == 6
    assert "not-certified: alibi/bias, alibi/toeplitz: L1 at the smoke profile" in capsys.readouterr().out.replace("\n", " ")


def test_an_interrupted_run_says_how_to_go_on(tmp_path, monkeypatch, capsys):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "run", interrupted)
    assert main(("perf", *SHORT, "--out", str(tmp_path / "rows.jsonl"))) == 4
    said = " ".join(capsys.readouterr().out.split())
    assert "the same command goes on from there" in said
    assert said.index("will take about") < said.index("2 variants at"), "the estimate comes first"


COMPLAINTS = [
    (("--scheme", "alibbi"), "no scheme is called 'alibbi'. Did you mean alibi?"),
    (("--lengths", "512,long"), "--lengths takes whole numbers from 2, such as 512,1024; got 'long'."),
    (("--variant", "alibi/fast"), "--variant: there is no 'alibi/fast'; there are alibi/bias"),
    (("--device", "tpu"), "--device takes cpu or cuda; got 'tpu'."),
    (("--lengths", ""), "--lengths takes whole numbers from 2, such as 512,1024; got ''."),
    (("--lengths", ","), "--lengths takes whole numbers from 2, such as 512,1024; got ','."),
    (("--seed", "-1"), "--seed takes a whole number from 0 to 4294967295; got -1."),
    (("--rounds", "-1"), "--rounds takes a positive whole number; got -1."),
    (("--bars", "--rounds", "0"), "--rounds takes a positive whole number; got 0."),
    (("--threads", "0"), "--threads takes a positive whole number; got 0."),
    (("--claim", "softmax=causal"), "--set and --claim are of an implementation of yours: add --impl"),
    (("--impl", "my.py:bias"), "add --scheme NAME"),
]


@pytest.mark.parametrize(("words", "said"), COMPLAINTS, ids=lambda value: value[0] if isinstance(value, tuple) else "")
def test_what_makes_no_sense_is_said_without_a_traceback(words, said, tmp_path, capsys):
    assert main(("perf", *words, "--out", str(tmp_path / "rows.jsonl"))) == 2
    err = " ".join(capsys.readouterr().err.split())
    assert said in err and "Traceback" not in err and err.endswith("Nothing was measured (exit 2).")
    assert list(tmp_path.iterdir()) == [], "no record of a machine that measured nothing"


@pytest.mark.parametrize("option", ["figures", "compare"])
def test_bars_are_not_dropped_for_what_measures_nothing(option, tmp_path, capsys):
    assert main(("perf", "--bars", f"--{option}", str(tmp_path / "there"))) == 2
    err = " ".join(capsys.readouterr().err.split())
    assert f"--{option} looks at what --out holds and measures nothing: leave out --bars." in err
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_dtype_is_refused_with_those_there_are(capsys):
    with pytest.raises(SystemExit) as left:
        main(("perf", "--dtype", "float8"))
    assert left.value.code == 2 and "bfloat16" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"schema": "relpos-perf-0"}\n', "this version reads relpos-perf-1"),
        ("half a line", "not JSON"),
        ('{"schema": "relpos-perf-1", "run": "r"}\n', "the row has no machine"),
    ],
)
def test_a_file_that_holds_no_rows_is_left_as_it_is(text, said, tmp_path, capsys):
    out = tmp_path / "rows.jsonl"
    out.write_text(text, encoding="utf-8")
    assert main(("perf", *SHORT, "--out", str(out))) == 2
    assert said in " ".join(capsys.readouterr().err.split()) and out.read_text(encoding="utf-8") == text


def test_a_place_that_cannot_be_written_is_named(tmp_path, capsys):
    (tmp_path / "file").write_text("", encoding="utf-8")
    assert main(("perf", *SHORT, "--out", str(tmp_path / "file" / "rows.jsonl"))) == 2
    assert "could not be written" in " ".join(capsys.readouterr().err.split())


def test_where_the_limit_cannot_be_had_no_record_of_the_machine_is_left(tmp_path, monkeypatch, capsys):
    def none(options, dtypes, device):
        raise command.UsageError("attention without positions cannot be measured here")

    monkeypatch.setattr(command, "pace", none)
    assert main(("perf", *SHORT, "--out", str(tmp_path / "rows.jsonl"))) == 2
    assert "cannot be measured here" in capsys.readouterr().err and list(tmp_path.iterdir()) == []
