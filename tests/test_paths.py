"""L28: paths of one implementation against each other; the claim of variants; who has no second path."""

import shlex

import pytest
import torch

import culprits_paths
import strangers_paths
from judging import complaint, plugged, tried
from relpos.conformance.documents import ways
from relpos.conformance.errors import UsageError
from relpos.conformance.faults.registry import faults
from relpos.conformance.laws import law
from relpos.conformance.laws.l28_paths import PATHS
from relpos.conformance.message import again
from relpos.conformance.plan import Plan
from relpos.conformance.planting import plant
from relpos.conformance.profiles import profile
from relpos.conformance.runner import FAIL, NOT_APPLICABLE, PASS, replay, run_law
from relpos.conformance.subject import plug_in
from relpos.impls._variants import read_variants, written_variants
from relpos.impls.card import Card, CardError, parse_claim
from strangers_attention import masked, padded, plain

L28 = law("L28")


def paths_of(target, **claims) -> set[str]:
    subject = plugged(target, **claims)
    return {name for name, path in PATHS.items() if path.there(subject)}


@pytest.mark.parametrize("target", strangers_paths.RIGHT, ids=lambda target: target.__name__)
def test_right_paths_agree(target):
    found = tried(plugged(target), "L1", "L3", "L20", "L28", profile_name="smoke")
    assert {name: r.reason for name, r in found.items() if r.verdict == FAIL} == {}
    assert found["L28"].verdict == PASS and found["L28"].inputs


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (plain, {"modes"}),
        (masked, {"modes", "documents"}),
        (strangers_paths.fast_paths, {"modes", "documents", "left out", "causal", "scale"}),
        (strangers_paths.padding_or_none, {"modes", "documents", "left out"}),
        (strangers_paths.ToldOfAll, {"modes", "steps"}),
        (strangers_paths.Options, {"modes", "variants"}),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_every_path_there_is_gone_through(target, expected):
    assert paths_of(target, scheme="none" if target is plain else None) == expected


def test_documents_go_where_the_implementation_can_be_told_so():
    assert ways(plugged(masked)) == ("left", "packed")  # of one length, so that no step can be asked for
    assert ways(plugged(padded)) == ("left",)
    assert ways(plugged(strangers_paths.offset_and_mask)) == ("left", "packed", "cached")


def test_who_has_one_path_is_not_passed_in_silence():
    def of_positions(num_heads, query_positions, key_positions):
        return strangers_paths.penalty(num_heads, query_positions, key_positions)

    result = tried(plugged(of_positions, "alibi"), "L28")["L28"]
    assert result.verdict == NOT_APPLICABLE and result.reason.startswith("it has one way to be asked: no mask, flag, ")


def test_packed_documents_that_see_each_other_are_told_from_padded_ones():
    result = run_law(L28, plugged(culprits_paths.neighbours_seen), profile("quick"), shrink=False)
    assert result.verdict == FAIL
    assert result.reason.startswith("packed into one row with other documents, a document gets another output than in a padded")


def caught(scheme: str, name: str):
    (fault,) = [fault for fault in faults(scheme) if fault.name == name]
    return run_law(L28, plant(scheme, "itself", fault), profile("smoke"), shrink=False)


@pytest.mark.parametrize(
    ("scheme", "name", "says"),
    [
        ("none", "unmasked-in-half", "without a mask, it differs from a mask that hides nothing; the latter is right"),
        ("none", "half-inference", "under torch.inference_mode, it differs from torch.no_grad; the latter is right"),
        ("none", "fused-backward", "with backend=fused, the gradient of `k` differs from that with backend=eager"),
        ("none", "padding-counted", "padded on the left, a document gets another output than padded on the right; the latter"),
        ("alibi", "first-row-of-samples", "with positions of its own, a sample in a batch differs from that sample alone; the"),
        (
            "alibi",
            "prefill-and-decode",
            "in steps of 1 + 1 + 1 + 1 + 1 + 1 + 1 tokens, it differs from all tokens at once;",
        ),
        (
            "alibi",
            "cached-from-zero",
            "its last token from a cache, a document gets another output than in a padded batch;",
        ),
    ],
)
def test_each_path_has_its_words(scheme, name, says):
    result = caught(scheme, name)
    assert result.verdict == FAIL and result.reason.startswith(says)


def test_an_answer_that_holds_without_gradients_only_is_told():
    class HalfTable(torch.nn.Module):
        """Without gradients a table in float16 is good enough."""

        def forward(self, q, k, v):
            return plain(q if torch.is_grad_enabled() else q.half().float(), k, v)

    result = tried(plugged(HalfTable, "none"), "L28", profile_name="smoke")["L28"]
    says = "with gradients required in evaluation mode, it differs from the same under torch.no_grad; the former is right"
    assert (result.verdict, result.reason) == (FAIL, says)


def test_a_variant_that_agrees_with_a_wrong_one_is_wrong_itself():
    def both_wrong(num_heads, query_positions, key_positions, backend):
        del backend
        return strangers_paths.penalty(num_heads, query_positions, key_positions) * 2

    result = tried(plugged(both_wrong, "alibi", variants={"backend": ("a", "b")}), "L28")["L28"]
    assert (result.verdict, result.reason) == (FAIL, "with backend=b, the bias is wrong")


def test_a_failing_path_is_repeated_by_its_line():
    def fused(num_heads, query_positions, key_positions, backend):
        return strangers_paths.penalty(num_heads, query_positions, key_positions) * (2 if backend == "fused" else 1)

    subject = plugged(fused, "alibi", variants={"backend": ("eager", "fused")})
    result = run_law(L28, subject, profile("quick"))
    words = shlex.split(again(subject, L28, result.failure))
    assert "variants=backend:eager|fused" in words
    plan = Plan.from_json(words[words.index("--case") + 1])
    assert (plan.query_length, plan.key_length, plan.settings["num_heads"]) == (1, 1, 1) or plan.key_length <= 2
    assert replay(L28, subject, plan).reason == result.reason


# ---- the claim


def test_variants_are_written_and_read():
    variants = {"backend": ("eager", "fused"), "chunked": (True, False, None), "block": (16, 0.5)}
    text = written_variants(variants)
    assert text == "backend:eager|fused,chunked:true|false|none,block:16|0.5"
    assert read_variants(text) == variants
    assert parse_claim(f"variants={text}") == ("variants", variants)


@pytest.mark.parametrize("text", ["backend", "backend:", ":eager|fused", ""])
def test_what_is_no_variant_on_the_command_line_is_refused(text):
    said = complaint(lambda: parse_claim(f"variants={text}"), CardError)
    assert said.startswith("claim `variants` is written parameter:value|value, as in variants=backend:eager|fused,")
    assert said.endswith(f"got {text!r}.")


@pytest.mark.parametrize(
    "value",
    [
        ("eager", "fused"),
        {"backend": "eager"},
        {"backend": ("eager",)},
        {"backend": ("eager", "eager")},
        {"backend": (torch.float32, torch.float16)},
        {"a": tuple(range(9)), "b": tuple(range(8))},
    ],
)
def test_what_is_no_variant_is_refused(value):
    said = complaint(lambda: Card.of({"variants": value}), CardError)
    assert said.startswith("claim `variants` must be a mapping {their parameter: (two or more different values)} of texts, ")
    assert said.endswith(f"got {value!r}.")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("back_end", "it: claim `variants` names 'back_end', but it takes backend, num_heads, query_positions, key"),
        ("num_heads", "it: claim `variants` names 'num_heads', which the judge gives a value itself. Variants are options of "),
    ],
)
def test_a_variant_must_be_an_option_of_its_own(name, says):
    def it(num_heads, query_positions, key_positions, backend): ...

    said = complaint(lambda: plug_in(it, spec="it", scheme="alibi", claims={"variants": {name: (1, 2)}}), UsageError)
    assert said.startswith(says[:60]), said
