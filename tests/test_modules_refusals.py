"""What modules refuse, word for word: which argument, what was required, what came, what to do."""

from dataclasses import dataclass

import pytest
import torch

from modules_by_definition import LK, LQ, B, D, E, H, module, tokens
from relpos.impls.modules import MultiHeadAttention, RelativePositionBias
from relpos.spec.alibi import ALiBi
from relpos.spec.none import NoPE
from relpos.spec.rope import RoPE
from relpos.spec.shaw import Shaw
from relpos.spec.sinusoidal import Sinusoidal
from relpos.spec.t5 import T5


@dataclass(frozen=True)
class Unmade:
    """Settings of a scheme that nobody has made fast."""

    form = "rotation"

    def parameters(self) -> dict:
        return {}


CLASS = 'relpos.settings_class("alibi") finds the class by name.'
BUILT = {
    "a name": (lambda: made("t5"), f"`schemes` must be settings of a scheme, such as ALiBi(num_heads=8), got 't5'. {CLASS}"),
    "a class": (
        lambda: made(T5),
        f"`schemes` must be settings of a scheme, such as ALiBi(num_heads=8), got T5, a class. {CLASS}",
    ),
    "the same twice": (
        lambda: made([ALiBi(H), RoPE(D), ALiBi(H)]),
        "`schemes` must be different from one another, got ['alibi', 'rope', 'alibi']. Give each once.",
    ),
    "other heads": (
        lambda: made(ALiBi(8)),
        "`num_heads` must be 6 in the settings of alibi, got 8. It follows from the sizes of the module.",
    ),
    "another width": (
        lambda: made(RoPE(8)),
        "`head_dim` must be 4 in the settings of rope, got 8. It follows from the sizes of the module.",
    ),
    "another embedding": (
        lambda: made(Sinusoidal(D)),
        "`embed_dim` must be 24 in the settings of sinusoidal, got 4. It follows from the sizes of the module.",
    ),
    "heads that do not divide": (lambda: made(NoPE(), num_heads=5), "`num_heads` must be a divisor of embed_dim = 24, got 5."),
    "groups that do not divide": (
        lambda: made(NoPE(), num_kv_heads=4),
        "`num_kv_heads` must be a divisor of num_heads = 6, got 4.",
    ),
    "dropout of all": (lambda: made(NoPE(), dropout=1.0), "`dropout` must be at least 0 and less than 1, got 1.0."),
    "negative deviation": (lambda: made(NoPE(), init_std=-0.02), "`init_std` must be 0 or more, got -0.02."),
    "negative weights": (lambda: made(NoPE(), weight_std=-1), "`weight_std` must be 0 or more, or None, got -1."),
}
X, CONTEXT, TRUE = tokens(), tokens(LK, seed=3), torch.ones(B, 1, LQ, dtype=torch.bool)
SENSES = "one of 'true_keeps', 'true_drops', 'additive' when a mask is given"
SHAPES = "`mask` must be of shape [B, Lk], [B, Lq, Lk] or [B, H, Lq, Lk] with B, H, Lq, Lk = 2, 6, 5, 5"
SHARED = (
    "An axis of size 1 is shared: mask[:, None] ([2, 1, 5]) for padding, mask[None] ([1, 5, 5]) for one mask of all samples."
)
CALLED = {
    "two axes": (lambda it: it(X[0]), "`x` must be of shape [B, L, E] = [B, L, 24], got [5, 24]."),
    "another context": (
        lambda it: it(X, context=CONTEXT[:1], positions=torch.arange(LQ), context_positions=torch.arange(LK)),
        "`context` must be of shape [B, L, E] = [2, L, 24], got [1, 7, 24].",
    ),
    "positions of nothing": (
        lambda it: it(X, context_positions=torch.arange(LQ)),
        "`context_positions` must be left out without a context, got [5].",
    ),
    "unplaced context": (
        lambda it: it(X, context=CONTEXT, positions=torch.arange(LQ)),
        "with a context, `positions` and `context_positions` must both be given, because alibi looks at the distance between "
        "them. To count both from 0 give torch.arange(Lq) and torch.arange(Lk).",
    ),
    "a list": (
        lambda it: it(X, positions=[0, 1, 2, 3, 4]),
        "`positions` must be a tensor of whole numbers, got list. torch.arange(L) counts from 0.",
    ),
    "fractions": (
        lambda it: it(X, positions=torch.arange(5.0)),
        "`positions` must be whole numbers, got torch.float32. Convert them with .long(); float16 and bfloat16 have merged far "
        "ones before.",
    ),
    "too few positions": (
        lambda it: it(X, positions=torch.arange(4)),
        "`positions` must be of shape [L] = [5] or [B, L] = [2, 5], got [4]. Give every token one position.",
    ),
    "positions of three": (
        lambda it: it(X, positions=torch.zeros(3, 5).long()),
        "`positions` must be of shape [L] = [5] or [B, L] = [2, 5], got [3, 5]. Give every token one position.",
    ),
    "no sense": (
        lambda it: it(X, mask=TRUE),
        f"`mask_sense` must be {SENSES}, got None. PyTorch's own modules disagree on what True means: say it.",
    ),
    "another sense": (
        lambda it: it(X, mask=TRUE, mask_sense="keep"),
        f"`mask_sense` must be {SENSES}, got 'keep'. PyTorch's own modules disagree on what True means: say it.",
    ),
    "sense of nothing": (
        lambda it: it(X, mask_sense="additive"),
        "`mask_sense` must be left out without a mask, got 'additive'.",
    ),
    "booleans added": (
        lambda it: it(X, mask=TRUE, mask_sense="additive"),
        '`mask` must be of a floating dtype under mask_sense="additive", got torch.bool. 0 keeps and −inf drops; a boolean '
        "mask has another sense.",
    ),
    "zeros and ones": (
        lambda it: it(X, mask=TRUE.long(), mask_sense="true_keeps"),
        '`mask` must be boolean under mask_sense="true_keeps", got torch.int64. Convert 0 and 1 with .bool(); numbers to be '
        'added have the sense "additive".',
    ),
    "mask of queries and keys": (
        lambda it: it(X, mask=torch.ones(5, 5).bool(), mask_sense="true_keeps"),
        f"{SHAPES}, got [5, 5]. {SHARED}",
    ),
    "mask of heads": (
        lambda it: it(X, mask=torch.ones(6, 5, 5).bool(), mask_sense="true_keeps"),
        f"{SHAPES}, got [6, 5, 5]. {SHARED}",
    ),
    "mask of two meanings": (
        lambda it: it(X[:, :2], mask=torch.ones(2, 2).bool(), mask_sense="true_keeps"),
        "`mask` of shape [2, 2] could be [B, Lk] or [Lq, Lk], because B = Lq = 2. Write mask[:, None] ([2, 1, 2]) for padding, "
        "mask[None] ([1, 2, 2]) for one mask of all samples.",
    ),
}
BEFORE = "`x` must be of the batch size, dtype and device of the steps before, 2, torch.float64, cpu"
STEPPED = {
    "another batch": (
        lambda it: it.step(X[:1]),
        f"{BEFORE}, got 1, torch.float64, cpu. reset() begins another sequence.",
    ),
    "cast between": (
        lambda it: it.float().step(X.float()),
        f"{BEFORE}, got 2, torch.float32, cpu. reset() begins another sequence.",
    ),
    "positions from now on": (
        lambda it: it.step(X, positions=torch.arange(LQ)),
        "`positions` must be left out, as in the steps before, got given. They are listed in every step of a sequence or in "
        "none; reset() begins another.",
    ),
    "mask of the new tokens": (
        lambda it: it.step(X[:, :1], mask=torch.ones(B, 1).bool(), mask_sense="true_keeps"),
        "`mask` must be of shape [B, Lk], [B, Lq, Lk] or [B, H, Lq, Lk] with B, H, Lq, Lk = 2, 6, 1, 6, got [2, 1]. An axis of "
        "size 1 is shared: mask[:, None] ([2, 1, 6]) for padding, mask[None] ([1, 1, 6]) for one mask of all samples.",
    ),
}


def made(schemes, **options) -> MultiHeadAttention:
    return MultiHeadAttention(E, schemes, **{"num_heads": H, **options})


def words(call) -> str:
    with pytest.raises(ValueError) as caught:
        call()
    return str(caught.value)


@pytest.mark.parametrize("case", BUILT)
def test_refused_when_built(case):
    build, text = BUILT[case]
    assert words(build) == f"MultiHeadAttention: {text}"


@pytest.mark.parametrize("case", CALLED)
def test_refused_when_called(case):
    call, text = CALLED[case]
    assert words(lambda: call(module(ALiBi(H)))) == f"MultiHeadAttention: {text}"


@pytest.mark.parametrize("case", STEPPED)
def test_refused_in_a_step(case):
    call, text = STEPPED[case]
    it = module(T5(H), causal=True)
    it.step(X)
    assert words(lambda: call(it)) == f"MultiHeadAttention.step: {text}"


def test_two_scales():
    class Other(T5):
        """A second scheme with a scale of its own."""

    Other.__module__ = "theirs.other"
    assert words(lambda: made([T5(H), Other(H)])) == (
        "MultiHeadAttention: `schemes` must be at most one that has a scale of its own, got ['t5', 'other']. q·k is scaled "
        "once: which of them is meant cannot be told."
    )


def test_step_that_would_not_last():
    assert words(lambda: module(ALiBi(H)).step(X)) == (
        "MultiHeadAttention.step: `causal` must be True, got False. Otherwise every new token would change earlier outputs."
    )


def test_positions_listed_and_left_out():
    it = module(T5(H), causal=True)
    it.step(X, positions=torch.arange(LQ))
    assert words(lambda: it.step(X)) == (
        "MultiHeadAttention.step: `positions` must be listed, as in the steps before, got left out. They are listed in every "
        "step of a sequence or in none; reset() begins another."
    )


def test_context_under_a_causal_mask():
    assert "because causal looks at the distance" in words(lambda: module(NoPE(), causal=True)(X, context=CONTEXT))


def test_bias_of_another_form():
    assert words(lambda: RelativePositionBias(Shaw(D, 2))) == (
        'RelativePositionBias: `settings` must be of form "bias", got shaw of form "logits". MultiHeadAttention takes schemes '
        "of every form."
    )


def test_bias_of_negative_deviation_and_fractions():
    assert (
        words(lambda: RelativePositionBias(T5(H), init_std=-1)) == "RelativePositionBias: `init_std` must be 0 or more, got -1."
    )
    called = words(lambda: RelativePositionBias(T5(H))(torch.arange(3.0), torch.arange(3)))
    assert called.startswith("RelativePositionBias: `query_positions` must be whole numbers, got torch.float32.")


def test_scheme_that_nobody_has_made_fast():
    Unmade.__module__ = "theirs.unmade"
    with pytest.raises(NotImplementedError) as caught:
        made(Unmade())
    assert str(caught.value) == (
        "unmade: modules need a function `rotate` in impls/unmade.py; there is none. See impls/README.md."
    )


def test_refusal_of_a_scheme_itself_comes_through():
    it = module(Shaw(D, 2, tables="relative_key"))
    assert words(lambda: it(X)).startswith('shaw: with tables="relative_key" a distance must be at most max_distance = 2.')
