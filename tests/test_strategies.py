"""Drawn inputs: legal for every built-in, within its claims, mostly of distinct sizes, shrinking to the smallest."""

from math import prod

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st

from relpos.conformance.builtins import builtins
from relpos.conformance.errors import UsageError
from relpos.conformance.laws import laws
from relpos.conformance.loading import load
from relpos.conformance.placing import flat
from relpos.conformance.plan import Plan, inputs
from relpos.conformance.settings import smallest as smallest_settings
from relpos.conformance.strategies import plans
from relpos.conformance.subject import plug_in

CARDS = {label: plug_in(load(spec), spec=spec) for label, spec in builtins().items()}
every_card = pytest.mark.parametrize("label", CARDS)
FIRST = {label.split("/")[0]: label for label in reversed(CARDS)}  # of every scheme; the others take minutes together
one_card_a_scheme = pytest.mark.parametrize(
    "label", [pytest.param(n, marks=() if n in FIRST.values() else pytest.mark.exhaustive) for n in CARDS]
)
LOOSE = (HealthCheck.too_slow, HealthCheck.data_too_large)


def drawn(strategy: st.SearchStrategy, count: int) -> list[Plan]:
    """Some plans, the same every time."""
    found: list[Plan] = []
    options = settings(
        max_examples=count,
        derandomize=True,
        database=None,
        deadline=None,
        phases=(Phase.generate,),
        suppress_health_check=LOOSE,
    )
    options(given(strategy)(lambda plan: found.append(plan)))()
    return found


def smallest(strategy: st.SearchStrategy, condition) -> Plan:
    options = settings(max_examples=40, derandomize=True, database=None, deadline=None, suppress_health_check=LOOSE)
    return find(strategy, condition, settings=options)


@every_card
def test_plans_are_legal_and_within_the_claims(label):
    subject = CARDS[label]
    for plan in drawn(plans(subject), 40):
        made = inputs(plan, subject.scheme)
        assert made.q.shape == (plan.batch, plan.heads, plan.query_length, plan.head_dim)
        assert len(made.query_positions) == plan.query_length and len(made.key_positions) == plan.key_length
        positions = flat(plan.query_positions) + flat(plan.key_positions) + (plan.offset + plan.query_length - 1,)
        assert min(positions) >= 0 and max(positions) <= subject.card.max_position
        assert plan.dtype in subject.dtypes and max(plan.query_length, plan.key_length) <= (subject.card.max_length or 10**9)
        for name, axis in (("num_heads", plan.heads), ("head_dim", plan.head_dim), ("embed_dim", plan.head_dim)):
            assert getattr(made.settings, name, axis) == axis


@one_card_a_scheme
def test_sizes_lean_to_pairwise_distinct(label):
    subject = CARDS[label]
    found = drawn(plans(subject), 100)
    distinct = [len(set(_sizes(subject, plan))) == len(_sizes(subject, plan)) for plan in found]
    assert np.mean(distinct) > 0.5


def _sizes(subject, plan):
    """Sizes of the axes that there are: queries and keys are one where it takes one length."""
    whole = subject.on_grid and subject.positions == "contiguous"  # its tokens are those of the window
    sizes = [plan.heads, plan.head_dim, *([] if whole else [plan.key_length])]
    sizes += [] if subject.one_length or subject.kind == "decoder" else [plan.query_length]
    has_samples = {"q", "x"} & subject.asks or subject.card.positions == "per_row"
    return sizes + ([plan.batch] if has_samples else [])


def _fewest(subject) -> int:
    """Tokens of the smallest input: of a grid that is whole, all of them."""
    if not subject.on_grid or subject.positions != "contiguous":
        return 1
    window = (1,) if "grid" in subject.asks else subject.cls(**smallest_settings(subject.cls)).window_size
    return prod(window) + getattr(subject.cls, "special", 0)


@one_card_a_scheme
def test_sizes_shrink_to_one(label):
    plan = smallest(plans(CARDS[label]), lambda plan: True)
    assert (plan.batch, plan.query_length, plan.key_length) == (1, *(_fewest(CARDS[label]),) * 2)
    assert plan.heads == 1 and plan.head_dim <= 2 and plan.seed == 0
    subject = CARDS[label]
    causal = subject.kind == "decoder" or (subject.level == "attention" and subject.card.softmax == "causal")
    assert (plan.content, plan.mask, plan.scale, plan.causal) == ("normal", "none", None, causal)


@one_card_a_scheme
def test_a_failure_from_three_keys_on_shrinks_to_about_three_keys(label):
    plan = smallest(plans(CARDS[label]), lambda plan: plan.key_length >= 3)
    assert plan.key_length <= max(4, _fewest(CARDS[label]))  # one more where sizes were raised to differ


@one_card_a_scheme
def test_plans_of_every_law_survive_json(label):
    subject = CARDS[label]
    for law in laws():
        if law.applies(subject) is None and law.claimed(subject) is None:
            for plan in (*law.pinned(subject)[:20], *drawn(law.plans(subject), 2)):
                assert Plan.from_json(plan.to_json()) == plan
                assert "\n" not in plan.to_json()


@pytest.mark.parametrize("text", ["", "[]", "3", "nonsense", '{"sizes": 3}', '{"batch": 1} x', '{"batch": "x"}'])
def test_what_is_no_plan_is_refused_in_words(text):
    with pytest.raises(UsageError) as caught:
        Plan.from_json(text)
    assert str(caught.value).startswith(f"--case must be the JSON that a failure printed, got {text!r}")
    assert "__init__" not in str(caught.value) and "attribute" not in str(caught.value)


def test_a_plan_stands_for_the_same_tensors_every_time():
    plan = Plan(batch=2, heads=3, query_length=4, key_length=5, mask="random", seed=9, dtype="bfloat16")
    one, other = inputs(plan, "none"), inputs(Plan.from_json(plan.to_json()), "none")
    for name in ("q", "k", "v", "mask"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_nothing_is_drawn_from_a_global_generator():
    state = np.random.get_state()[1].copy()
    inputs(Plan(heads=2, seed=4), "none")
    np.testing.assert_array_equal(np.random.get_state()[1], state)
