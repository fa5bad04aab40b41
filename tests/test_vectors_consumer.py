"""The consumer in JavaScript: it reads every scheme's vectors, agrees with them, and notices one number altered by hand."""

import copy
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from brief_vectors import BRIEF, read, written_small
from relpos.conformance.commands import main
from relpos.spec.registry import schemes

NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="node is not installed here; .ci/run installs it")


OFTEN = ("alibi", "rope")  # on every change; the others under `-m exhaustive`, and all are read by `nox -s vectors`
each_scheme = pytest.mark.parametrize(
    "written", [pytest.param(s, marks=() if s in OFTEN else pytest.mark.exhaustive) for s in schemes()], indirect=True
)


@pytest.fixture(scope="module")
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Brief vectors of a scheme at the level that every scheme has."""
    path = tmp_path_factory.mktemp("vectors") / request.param
    assert main([*BRIEF, "--scheme", request.param, "--level", "attention", "--format", "json", "--out", str(path)]) == 0
    return path


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written_small(tmp_path_factory.mktemp("vectors") / "alibi")


def consumed(path: Path, *words: str) -> tuple[int, str]:
    done = subprocess.run([str(NODE), path / "check.mjs", path, *words], capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout + done.stderr


def altered(source: Path, target: Path, document: dict) -> Path:
    """A folder with the consumer and one file of vectors, as somebody changed it."""
    target.mkdir()
    for script in source.glob("*.mjs"):
        shutil.copy(script, target)
    (target / f"{document['scheme']}.json").write_text(json.dumps(document), encoding="utf-8")
    return target


@needs_node
@each_scheme
def test_the_consumer_agrees_with_the_definition(written: Path) -> None:
    code, text = consumed(written)
    assert code == 0, text
    assert [line.partition(":")[0] for line in text.splitlines()[:-1]] == [written.name]


@needs_node
@each_scheme
def test_the_consumer_notices_one_number_altered_by_hand(written: Path, tmp_path: Path) -> None:
    document = read(written, written.name)
    case = next(c for c in document["cases"] if c["catches"] and "gradients" not in c and c["result"] == "valid")
    output = case["outputs"]["output"]
    last = next(n for n in reversed(range(len(output["data"]))) if output["data"][n] != 0)
    expected = output["data"][last]
    output["data"][last] = expected + 2 * output["allowed_float32"][last]
    document["cases"] = [case]
    code, text = consumed(altered(written, tmp_path / "there", document))
    assert code == 1, text
    assert f"{case['id']} ({', '.join(case['laws'])})" in text and "1 of 1 vectors fail (exit 1)" in text
    assert f"expected {output['data'][last]}"[:20] in text and "allowed" in text
    assert document["faults"][case["catches"][0]]["says"] in text


@needs_node
@pytest.mark.parametrize("written", ["alibi"], indirect=True)
def test_the_consumer_notices_a_gradient_and_a_bound(written: Path, tmp_path: Path) -> None:
    document = read(written, "alibi")
    case = next(c for c in document["cases"] if "gradients" in c)
    for change, says in (("data", "gradient of q[0, 0, 0, 0]"), ("allowed_float32", "allowed_float32 is")):
        changed = copy.deepcopy(case)
        changed["gradients"]["q"][change][0] *= 1.1
        where = altered(written, tmp_path / change, {**document, "cases": [changed]})
        code, text = consumed(where)
        assert code == 1 and says in text, text


MISTAKEN = """
import {{ answer as right }} from "{consumer}";
export function answer(one, file) {{
  const data = one.inputs.query_positions.data.map((_, n) => n % one.inputs.query_positions.shape.at(-1));
  const inputs = {{ ...one.inputs, query_positions: {{ ...one.inputs.query_positions, data }} }};
  return right({{ ...one, inputs }}, file);
}}
"""


@needs_node
def test_the_consumer_names_the_mistake_of_an_implementation(small: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.mjs").write_text(MISTAKEN.format(consumer=(small / "attention.mjs").as_uri()), encoding="utf-8")
    code, text = consumed(small, "--with", str(tmp_path / "mine.mjs"))
    assert code == 1 and "Looks like: queries counted from 0 whatever is cached" in text, text


@needs_node
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--scheme", "rope"), "holds no vectors of rope"),
        (("--dtype", "int8"), "--dtype must be one of float64, float32"),
        (("--level", "attention"), "no vector was checked"),
        (("--lvel", "attention"), "--lvel: options are --scheme VALUE"),
    ],
)
def test_the_consumer_says_why_nothing_was_checked(small: Path, words: tuple[str, ...], says: str) -> None:
    code, text = consumed(small, *words)
    assert code == 2 and says in text and "Nothing was checked (exit 2)." in text, text
