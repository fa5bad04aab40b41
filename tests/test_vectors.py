"""Vectors: written whole, the same every time, and over nobody's files; flags are what faults answer."""

import json
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from brief_vectors import BRIEF, read, written_small
from relpos.conformance.answers import answer
from relpos.conformance.builtins import builtin
from relpos.conformance.commands import main
from relpos.conformance.expected import forms_levels
from relpos.conformance.faults.registry import faults
from relpos.conformance.subject import plug_in
from relpos.conformance.vectors import folder
from relpos.conformance.vectors.candidates import chosen, subject_of
from relpos.conformance.vectors.cases import made
from relpos.conformance.vectors.numbers import allowed
from relpos.spec.registry import schemes, settings_class

# What a float64 file cannot show: a wrap that needs a table of 2^15 rows, and a crash in place of an answer.
MISSED = {"learned": ["int16-positions"], "transformer_xl": ["xlnet-crashes"]}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written_small(tmp_path_factory.mktemp("vectors") / "alibi")


# ---- what is written


def test_flags_are_what_faults_answer(small: Path) -> None:
    document = read(small, "alibi")
    flagged = [case["catches"] for case in document["cases"]]
    assert any("offset-lost" in names for names in flagged) and any("offset-lost" not in names for names in flagged)
    from_zero = [
        c for c in document["cases"] if c["inputs"]["query_positions"]["data"][:1] == [0] and c["inputs"]["batch"] == 1
    ]
    contiguous = [
        c for c in from_zero if c["inputs"]["query_positions"]["data"] == list(range(c["outputs"]["bias"]["shape"][1]))
    ]
    assert not [c["id"] for c in contiguous if "offset-lost" in c["catches"]]
    assert set(document["faults"]) <= {fault.name for fault in faults("alibi")}


@pytest.mark.parametrize("name", ["alibi/bias", "rope/rotate"])
def test_a_right_implementation_stays_within_what_is_allowed(name: str) -> None:
    subject = plug_in(builtin(name), spec=name)
    definition = subject_of(subject.scheme, "contribution", {})
    tried = 0
    for candidate in chosen(definition, count=0, number=0, brief=True):
        case = made(definition, candidate, [])
        got = answer(subject, case.given.but(plan=case.given.plan.but(dtype="float32")))
        for output, want in case.wants.items():
            assert (np.abs(got[output] - want.value) <= allowed(want, "float32")).all(), case.candidate.plan.describe()
            tried += 1
    assert tried >= 5


def test_the_same_version_and_seed_give_the_same_bytes(small: Path, tmp_path: Path) -> None:
    assert main([*BRIEF, "--scheme", "alibi", "--level", "contribution", "--out", str(tmp_path / "again")]) == 0
    assert {p.name: p.read_bytes() for p in small.iterdir()} == {p.name: p.read_bytes() for p in (tmp_path / "again").iterdir()}


def test_npz_has_the_arrays_of_the_json(small: Path) -> None:
    arrays, document = np.load(small / "alibi.npz"), read(small, "alibi")
    for case in document["cases"]:
        bias = case["outputs"]["bias"]
        expected = np.array([float(x) for x in bias["data"]]).reshape(bias["shape"])
        np.testing.assert_array_equal(arrays[f"{case['id']}/outputs/bias"], expected)
        assert arrays[f"{case['id']}/outputs/bias/allowed_float32"].shape == expected.shape
        assert arrays[f"{case['id']}/inputs/query_positions"].dtype == np.int64
    bare = json.loads(arrays["document"].tobytes())
    assert bare["faults"] == document["faults"] and "data" not in bare["cases"][0]["outputs"]["bias"]


@pytest.mark.parametrize(
    "change",
    [
        lambda document: document.pop("tolerance"),
        lambda document: document["cases"][0].update(level="table"),
        lambda document: document["cases"][0]["outputs"]["bias"]["data"].append("NaN"),
        lambda document: document["cases"][0].update(date="today"),
    ],
    ids=["no tolerance", "no level", "NaN", "a date"],
)
def test_the_schema_refuses(small: Path, change) -> None:
    document = read(small, "alibi")
    folder.checked(document)
    change(document)
    with pytest.raises(jsonschema.ValidationError):
        folder.checked(document)


def test_what_is_up_to_date_is_kept_and_what_is_damaged_written_anew(tmp_path: Path, capsys) -> None:
    words = [*BRIEF, "--scheme", "none", "--level", "logits", "--out", str(tmp_path / "there")]
    told = []
    for damage in (False, False, True):
        if damage:
            (tmp_path / "there/none.json").write_text("half", encoding="utf-8")
        assert main(words) == 0
        told.append("kept: up to date" in " ".join(capsys.readouterr().out.split()))
    assert told == [False, True, False] and read(tmp_path / "there", "none")["scheme"] == "none"


# ---- complaints

STRANGE = [
    (("--scheme", "rpoe"), "rope"),
    (("--scheme", "shaw", "--level", "contribution"), "shaw has the levels logits and attention"),
    (("--level", "table"), "--level must be one of contribution, logits, attention; got 'table'"),
    (("--format", "xml"), "--format must be one of json, npz, both; got 'xml'"),
    (("--count", "-1"), "--count must be from 0 to 200"),
    (("--seed", "-1"), "--seed must be 0 or more, got -1"),
    (("--set", "num_heads=3"), "--set fixes a setting of one scheme"),
    (("--scheme", "alibi", "--set", "num_haeds=3"), "Did you mean num_heads=3?"),
    (("--scheme", "alibi", "--set", "num_heads=0"), "`num_heads` must be at least 1"),
]


@pytest.mark.parametrize(("words", "says"), STRANGE, ids=[" ".join(w) for w, _ in STRANGE])
def test_what_means_nothing_is_refused(tmp_path: Path, capsys, words: tuple[str, ...], says: str) -> None:
    assert main([*BRIEF, *words, "--out", str(tmp_path / "there")]) == 2
    assert says in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "there").exists()


def _file(path: Path) -> None:
    path.write_text("mine", encoding="utf-8")


def _stranger(path: Path) -> None:
    path.mkdir()
    (path / "thesis.txt").write_text("mine", encoding="utf-8")


def _other_index(path: Path) -> None:
    path.mkdir()
    (path / "index.json").write_text('{"format": "photos"}', encoding="utf-8")


@pytest.mark.parametrize(
    ("there", "says"),
    [
        (_file, "cannot be a folder of vectors"),
        (_stranger, "holds thesis.txt, which this command did not write"),
        (_other_index, "is not an index of vectors, and it is not written over"),
    ],
    ids=["a file", "somebody's folder", "somebody's index"],
)
def test_nobody_elses_files_are_touched(tmp_path: Path, capsys, there, says: str) -> None:
    path = tmp_path / "there"
    there(path)
    before = {p: p.read_bytes() for p in (path, *path.glob("*")) if p.is_file()}
    assert main([*BRIEF, "--scheme", "none", "--out", str(path)]) == 2
    assert says in " ".join(capsys.readouterr().err.split())
    assert before == {p: p.read_bytes() for p in (path, *path.glob("*")) if p.is_file()}


# ---- all of it


@pytest.mark.exhaustive
@pytest.mark.parametrize("scheme", schemes())
def test_the_vectors_of_a_scheme_tell_its_mistakes_apart(tmp_path: Path, scheme: str) -> None:
    assert main(["vectors", "--scheme", scheme, "--format", "json", "--out", str(tmp_path / "there")]) == 0
    document = read(tmp_path / "there", scheme)
    assert document["coverage"]["missed"] == MISSED.get(scheme, [])
    assert {case["level"] for case in document["cases"]} == set(forms_levels(settings_class(scheme)))
    assert (tmp_path / "there" / f"{scheme}.json").stat().st_size < 2.2e6
