"""spec/errata.md: every counterexample runs, every section has one, and its schemes are named as they are here."""

import doctest
import re

import pytest

from documents import HERE
from relpos.spec.registry import schemes, settings_class
from relpos.spec.sizes import byte_count, parameter_count, plain_tensors

DOCUMENT = "spec/errata.md"
TEXT = (HERE / DOCUMENT).read_text(encoding="utf-8")
COMMON, *SECTIONS = re.split(r"^(?=## )", TEXT, flags=re.MULTILINE)
TOLD = {section[3:].partition("\n")[0]: section for section in SECTIONS}
EXECUTED = {name: text for name, text in TOLD.items() if name != "Not settled by a counterexample"}


def examples(text: str) -> str:
    return "".join(re.findall(r"^```python\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL))


@pytest.mark.parametrize("name", EXECUTED)
def test_counterexamples_are_true(name):
    test = doctest.DocTestParser().get_doctest(examples(COMMON) + examples(EXECUTED[name]), {}, name, DOCUMENT, 0)
    said: list[str] = []
    result = doctest.DocTestRunner().run(test, out=said.append)
    assert result.failed == 0, "".join(said)


@pytest.mark.parametrize("name", EXECUTED)
def test_every_erratum_says_what_is_right_and_runs(name):
    for erratum in re.split(r"^### ", EXECUTED[name], flags=re.MULTILINE)[1:]:
        title = erratum.partition("\n")[0]
        assert "*Said*: " in erratum and "*Right*: " in erratum and ">>> " in erratum, title


def test_every_scheme_here_has_its_errata_under_its_name():
    others = {"Around the position term", "music_transformer", "transformer_xl", "deberta", "swin"}
    assert set(EXECUTED) - others <= set(schemes())


# ---- the figures of the articles, by the functions of spec/sizes.py


def test_parameters_of_a_clipped_table():
    cls = settings_class("clipped")
    for K, H in ((128, 12), (0, 1), (4, 3)):
        assert parameter_count(cls(num_heads=H, max_distance=K)) == (2 * K + 1) * H
    assert parameter_count(cls(num_heads=12, max_distance=128)) == 3084


def test_parameters_of_other_schemes():
    assert parameter_count(settings_class("t5")(num_heads=12)) == 32 * 12
    for tables, count in (("separate", 2), ("tied", 1)):
        assert parameter_count(settings_class("shaw")(head_dim=64, max_distance=16, tables=tables)) == count * 33 * 64
    nothing = {"none": {}, "rope": {"head_dim": 64}, "alibi": {"num_heads": 8}, "sinusoidal": {"embed_dim": 512}}
    assert {parameter_count(settings_class(name)(**sizes)) for name, sizes in nothing.items()} == {0}


def test_parameters_of_transformer_xl():
    if "transformer_xl" not in schemes():
        pytest.skip("there is no definition of transformer_xl yet")
    assert parameter_count(settings_class("transformer_xl")(num_heads=12, head_dim=64)) == 589_824 + 1_536


def test_vectors_of_every_pair():
    settings = settings_class("shaw")(head_dim=512, max_distance=2047, tables="tied")
    tensors = plain_tensors(settings, query_length=2048, key_length=2048)
    assert byte_count(tensors["rel_k of every pair"]) == 8_589_934_592  # the article's 8.59 GB
    assert byte_count((2048, 512)) == 4_194_304  # its 4.19 MB, the table alone
    assert byte_count(tensors["position term"]) == 16_777_216  # and what it leaves out


@pytest.mark.parametrize(
    ("scheme", "sizes", "expected"),
    [
        ("none", {}, {}),
        ("sinusoidal", {"embed_dim": 8}, {"embedding": (7, 8)}),
        ("rope", {"head_dim": 4}, {"turned q": (2, 5, 4), "turned k": (2, 7, 4)}),
        ("t5", {"num_heads": 3}, {"bias": (3, 5, 7)}),
    ],
)
def test_tensors_of_the_plain_evaluation(scheme, sizes, expected):
    assert plain_tensors(settings_class(scheme)(**sizes), query_length=5, key_length=7, num_heads=2) == expected
