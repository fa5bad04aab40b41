"""Certificates: what the schema accepts, what is in one, when its hashes change; and those of the built-ins, committed."""

import copy
import json
from pathlib import Path

import pytest

import culprits
import strangers as s
from judging import plugged
from relpos.conformance import certificate as c
from relpos.conformance.builtins import builtins
from relpos.conformance.errors import UsageError
from relpos.conformance.plan import Plan, inputs
from relpos.conformance.profiles import PROFILES
from relpos.conformance.subject import plug_in
from relpos.conformance.verdict import judge
from relpos.spec.registry import schemes

COMMITTED = Path(__file__).parents[1] / "conformance" / "certificates"


@pytest.fixture(scope="module")
def failing():
    return c.certificate(judge(plugged(culprits.clipped), PROFILES["smoke"], explain=False))


def refused(document) -> str:
    with pytest.raises(UsageError) as caught:
        c.checked(document)
    return str(caught.value)


def test_a_real_one_is_accepted_and_read_back(failing, tmp_path):
    path = tmp_path / "it.json"
    path.write_text(c.dumps(failing), encoding="utf-8")
    assert c.read(path) == failing == c.checked(failing)


def test_every_law_has_a_result(failing):
    assert [r["law"] for r in failing["results"]] == [one.name for one in PROFILES["smoke"].laws()]
    assert failing["footer"]["laws"] == len(PROFILES["smoke"].laws())


def test_a_failure_holds_an_input_that_can_be_built(failing):
    failed = [r for r in failing["results"] if r["verdict"] == "fail"]
    assert failed and failing["footer"]["failed"] == [r["law"] for r in failed]
    for result in failed:
        plan = Plan.from_json(json.dumps(result["smallest_input"]))
        assert inputs(plan, "alibi").settings.num_heads >= 1
    assert not any("smallest_input" in r for r in failing["results"] if r["verdict"] != "fail")


@pytest.mark.parametrize("part", ["header", "results", "footer"])
def test_a_missing_part_is_refused_in_words(failing, part):
    document = {name: value for name, value in failing.items() if name != part}
    assert refused(document) == f"not a relpos certificate: '{part}' is a required property at its top level."


@pytest.mark.parametrize("where", [(), ("header",), ("footer",), ("results", 0), ("header", "implementation")], ids=str)
def test_an_extra_key_is_refused_in_words(failing, where):
    document = copy.deepcopy(failing)
    part = document
    for step in where:
        part = part[step]
    part["speed"] = "fast"
    place = "/".join(map(str, where)) or "its top level"
    assert refused(document) == (
        f"not a relpos certificate: Additional properties are not allowed ('speed' was unexpected) at {place}."
    )


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [("footer", "verdict", "fine"), ("footer", "exit_code", 2), ("header", "scheme_hash", "abc"), ("header", "date", "today")],
)
def test_a_value_out_of_range_is_refused_and_placed(failing, part, name, value):
    document = copy.deepcopy(failing)
    document[part][name] = value
    assert refused(document).endswith(f" at {part}/{name}.") and repr(value) in refused(document)


def test_what_is_no_json_is_refused_in_words(tmp_path):
    path = tmp_path / "it.json"
    path.write_text("{", encoding="utf-8")
    with pytest.raises(UsageError, match=r"it\.json is not JSON: "):
        c.read(path)


# ---- hashes


@pytest.mark.parametrize("part", ["alibi", *c.SHARED_DEFINITIONS])
def test_the_hash_of_a_scheme_changes_with_every_file_that_defines_it(monkeypatch, part):
    before, source = {name: c.scheme_hash(name) for name in schemes()}, c._source
    monkeypatch.setattr(c, "_source", lambda module: source(module) + (b"#" if module == f"relpos.spec.{part}" else b""))
    changed = {name for name in schemes() if c.scheme_hash(name) != before[name]}
    assert changed == ({"alibi"} if part == "alibi" else set(schemes()))


def test_the_hash_of_an_implementation_changes_with_its_file(tmp_path, monkeypatch):
    subject = plug_in(s.by_positions, spec="m:f", scheme="alibi")
    before = c.source_hash(subject)
    copied = tmp_path / "copy.py"
    copied.write_bytes(Path(s.__file__).read_bytes() + b"\n")
    monkeypatch.setattr(c.inspect, "getsourcefile", lambda target: str(copied))
    assert before is not None and c.source_hash(subject) not in (None, before)


def test_an_instance_has_the_hash_of_its_class():
    assert c.source_hash(plug_in(s.Plain(8), spec="m:f", scheme="alibi")) == c.source_hash(
        plug_in(s.Plain, spec="m:f", scheme="alibi")
    )


# ---- the committed ones


@pytest.mark.parametrize("label", builtins())
def test_every_builtin_has_a_current_certificate(label):
    path = COMMITTED / c.certificate_name(label)
    assert path.exists(), f"{path.name} is missing: python -m relpos builtins --certificates conformance/certificates"
    document = c.read(path)
    assert document["footer"]["verdict"] == "conforms" and document["footer"]["complete"]
    header, spec = document["header"], builtins()[label]
    assert header["scheme"] == label.partition("/")[0] and header["implementation"]["name"] == spec
    from relpos.conformance.loading import load

    current = c.scheme_hash(header["scheme"]), c.laws_hash(), c.source_hash(plug_in(load(spec), spec=spec))
    stored = header["scheme_hash"], header["laws_hash"], header["implementation"]["source_hash"]
    assert stored == current, f"{path.name} is stale: python -m relpos builtins --certificates conformance/certificates"


def test_no_certificate_is_left_of_what_is_gone():
    assert {p.name for p in COMMITTED.glob("*.json")} == {c.certificate_name(label) for label in builtins()}
