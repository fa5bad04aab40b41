"""Every claim of spec/errata.md that somebody could implement is a planted fault, or says why it is none."""

import re

import pytest

from documents import HERE
from relpos.conformance.faults.registry import faults

TEXT = (HERE / "spec/errata.md").read_text(encoding="utf-8").partition("## Not settled by a counterexample")[0]
CLAIMS = [
    (section.partition("\n")[0], claim.partition("\n")[0])
    for section in re.split(r"^## ", TEXT, flags=re.MULTILINE)[1:]
    for claim in re.split(r"^### ", section, flags=re.MULTILINE)[1:]
]

# scheme and fault, or why nothing is planted: by the beginning of what is claimed.
PLANTED = {
    "A large negative bias": ("t5", "subtracted"),
    "A causal query sees the keys j < i": ("none", "causal-strict"),
    "Logits may be clamped": ("clipped", "article-clamped"),
    "A mask [B, L, L]": ("clipped", "article-mask-along-heads"),
    "`mask == 0` hides": ("clipped", "article-mask-numbers"),
    "A row without any visible key": ("clipped", "article-empty-rows"),
    "One length describes a bias": ("clipped", "article-positions"),
    "i is the index of the embedding's dimension": ("sinusoidal", "index-of-column"),
    "It is defined up to the training length": ("sinusoidal", "short-table"),
    "θ_i = 10000^(−2i/d) for i = 1": ("rope", "pair-from-one"),
    "Dimensions are turned in pairs": ("rope", "neighbours-paired"),
    "softmax(q·k − m·|i − j|)": ("alibi", "scale-missing"),
    "Head 1 has slope 1": ("alibi", "slopes-from-zero"),
    "m_h = 2^(−8h/n)": ("alibi", "one-series"),
    "m·j and −m·|i − j| are the same": ("alibi", "last-key"),
    "δ = i − j, so the previous token is −1": ("clipped", "exchanged"),
    "A bias is computed once and kept": ("clipped", "gathered-kept"),
    "Nothing is learned, and nothing depends on": ("t5", "first-head"),
    "Buckets are 1, 2, 3–4": ("t5", "article-boundaries"),
    "b(d) = clip(d, −k, k) + k": ("t5", "article-clip"),
    "The table is read at b(i − j)": ("t5", "exchanged"),
    "The first 16 distances": ("t5", "all-one-wide"),
    "softmax(q·kᵀ / √d + B)": ("t5", "divided"),
    "The vectors meet the query and the key": ("shaw", "keys-asked-as-well"),
    "The vectors are in the score only": ("shaw", "no-value-term"),
    "The index depends on i − j": ("shaw", "reversed"),
    "Distances beyond 2 share": ("shaw", "clip-lopsided"),
    "Skewing gives exactly the same": ("music_transformer", "skewed-unmasked"),
    "It adds a learned number per distance": ("transformer_xl", "scalar"),
    "A = q·k/√d + b": ("transformer_xl", "position-unscaled"),
    "It sees texts of any length": ("transformer_xl", "clamp-ignored"),
    "Divide by √(2d)": ("deberta", "article-scale"),
    "Q^r at i − j, K^r at j − i": ("deberta", "article-indices"),
    "Every token has a relative position vector": ("deberta", "clip-symmetric"),
    "The row is dy × (2M − 1) + dx": ("swin", "diagram-parentheses"),
    "Windows are M × M": ("swin", "multiplier-height"),
}
A_PROPERTY, A_COST, A_SETTING = (
    "a property, not a computation",
    "a number of bytes or parameters",
    "a choice that settings name",
)
NOT_PLANTED = {
    "Attention cannot tell two orders": A_PROPERTY,
    "A causal mask alone gives every token": A_PROPERTY,
    "It is cheaper because": A_COST,
    "The example with 2K + 1 rows": A_SETTING,
    "The entry may be a number or a vector": A_SETTING,
    "It adds a vector for every distance": A_COST,
    "Buckets save the L × L memory": A_COST,
    "Padding tokens need positions": A_PROPERTY,
    "Every head needs O(L²·d) memory": A_COST,
    "It handles sequences of any length": A_PROPERTY,
    "Memory falls from": A_COST,
    "A_ij = softmax(a number)": A_PROPERTY,
}


@pytest.mark.parametrize(("section", "claim"), CLAIMS, ids=[claim for _, claim in CLAIMS])
def test_an_erratum_is_planted_or_says_why_not(section, claim):
    told = [start for start in (*PLANTED, *NOT_PLANTED) if claim.startswith(start)]
    assert len(told) == 1, f"{section}: what of {claim!r}?"


def test_nothing_is_told_that_is_not_claimed():
    assert not [start for start in (*PLANTED, *NOT_PLANTED) if not any(claim.startswith(start) for _, claim in CLAIMS)]


@pytest.mark.parametrize(("scheme", "name"), PLANTED.values(), ids=list(PLANTED))
def test_what_is_planted_is_there_under_its_name(scheme, name):
    """tests/test_faults.py kills it, by the law it names."""
    assert name in {fault.name for fault in faults(scheme)}
