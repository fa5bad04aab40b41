"""learned: what has no vector is refused, not read from somewhere; the table learns; absolute and relative go together."""

import numpy as np
import pytest
import torch

from judging import failing, plugged, tried
from modules_by_definition import LK, LQ, D, E, H, expected, module, tokens
from relpos.conformance.laws import law, laws
from relpos.conformance.planting import plant
from relpos.conformance.runner import FAIL
from relpos.impls import learned
from relpos.spec import attention as spec
from relpos.spec.alibi import ALiBi
from relpos.spec.contract import PositionError
from relpos.spec.learned import Learned
from relpos.spec.positions import Explicit, Range
from relpos.spec.sinusoidal import Sinusoidal
from relpos.spec.t5 import T5

NAMES = [one.name for one in laws()]
BEYOND = (
    "learned: a position must be less than max_position = 4{got}. There is no vector beyond the table: use a longer one, or a "
    "scheme without a table of positions."
)
BEFORE = "learned: a position must be 0 or more{got}. Count from the first token."
OUTSIDE = [([0, 4], BEYOND, ", got 4"), ([3, -1], BEFORE, ", got -1"), ([-2], BEFORE, ", got -2")]


def says(message: str, call) -> None:
    with pytest.raises(ValueError) as caught:
        call()
    assert str(caught.value) == message


# ---- outside of the table


@pytest.mark.parametrize("first_row", [0, 2])
@pytest.mark.parametrize(("positions", "message", "got"), OUTSIDE, ids=str)
def test_a_position_without_a_vector_is_refused_in_words(positions, message, got, first_row):
    settings = Learned(2, 4, first_row)
    table = np.zeros(settings.parameters()["table"])
    says(message.format(got=got), lambda: settings.encode({"table": table}, Explicit(positions)))
    at = torch.tensor(positions)
    says(message.format(got=""), lambda: learned.encode(settings, torch.tensor(table), at))


def test_a_slice_and_a_step_that_end_beyond_the_table_are_refused_in_words():
    settings, table, x = Learned(2, 4), torch.zeros(4, 2), torch.zeros(1, 1, 3, 2)
    says(BEYOND.format(got=""), lambda: learned.added(settings, table, x[0], 2))
    says(BEFORE.format(got=""), lambda: learned.added(settings, table, x[0], -1))
    decoder = learned.Decoder(settings, table)
    decoder.step(x, x, x)
    says(BEYOND.format(got=""), lambda: decoder.step(x, x, x))
    assert decoder.step(x[:, :, :1], x[:, :, :1], x[:, :, :1]).shape == (1, 1, 1, 2)  # the refused step left no trace


def test_a_module_refuses_what_its_table_cannot_place():
    it, x = module(Learned(E, LQ - 1)), tokens()
    says(BEYOND.replace("= 4", f"= {LQ - 1}").format(got=""), lambda: it(x))


def test_a_spec_refuses_in_attention_as_well():
    settings, x = Learned(2, 4), np.zeros((1, 1, 3, 2))
    params = {"table": np.zeros((4, 2))}
    for queries, keys in ((Range(2, 3), Range(0, 3)), (Range(0, 3), Range(2, 3))):
        with pytest.raises(PositionError):
            spec.attention(settings, params, x, x, x, queries, keys)


@pytest.mark.parametrize("position", [-1, 4])
def test_a_lookup_fails_by_itself_where_values_cannot_be_asked(position):
    """Under vmap; −1 must not find one of the rows before position 0."""
    settings, table = Learned(2, 4, first_row=2), torch.zeros(6, 2)
    looked = torch.vmap(lambda at: learned.encode(settings, table, at))
    assert looked(torch.arange(4).view(2, 2)).shape == (2, 2, 2)
    with pytest.raises((RuntimeError, IndexError), match="range"):
        looked(torch.tensor([[0, 1], [2, position]]))


def clamped(table, positions, max_position):
    return table[positions.clamp(max=max_position - 1)]


def looked_up(table, positions):
    return torch.nn.functional.embedding(positions, table)


def test_a_lookup_that_fails_is_no_fault_and_one_that_answers_is():
    given = {"first_row": 0}
    assert not failing(plugged(looked_up, "learned", given=given), *NAMES)
    result = tried(plugged(clamped, "learned", given=given), "L26")["L26"]
    assert (result.verdict, result.reason) == (FAIL, "a position beyond the table is answered, not refused")


# ---- not relative


def test_learned_positions_claim_no_distance_and_have_none():
    for level in ("contribution", "logits", "attention"):
        assert law("L2").applies(plant("learned", level)) == "the scheme is not relative at this level"
    table = {"table": np.random.default_rng(0).standard_normal((9, 4))}
    here, there = (Learned(4, 9).encode(table, Range(start, 4)) for start in (0, 1))
    assert np.abs(here @ here.T - there @ there.T).max() > 0.5


# ---- rows before position 0


def test_rows_before_position_0_are_read_by_no_position_and_learn_nothing():
    table = torch.randn(6, 2, requires_grad=True)
    learned.encode(Learned(2, 4, first_row=2), table, torch.arange(4)).sum().backward()
    assert table.grad is not None and table.grad.tolist() == [[0.0, 0.0]] * 2 + [[1.0, 1.0]] * 4


def test_a_table_with_rows_before_is_the_table_behind_them():
    """fairseq's padding_idx + 1, OPT's 2."""
    table = np.random.default_rng(0).standard_normal((6, 3))
    np.testing.assert_array_equal(
        Learned(3, 4, first_row=2).encode({"table": table}, Range(0, 4)),
        Learned(3, 4).encode({"table": table[2:]}, Range(0, 4)),
    )


# ---- absolute and relative together


@pytest.mark.parametrize("absolute", [Learned(E, 64), Sinusoidal(E)], ids=str)
@pytest.mark.parametrize("relative", [T5(H), ALiBi(H)], ids=str)
@pytest.mark.parametrize("causal", [False, True])
def test_absolute_and_relative_are_the_definitions_composed(absolute, relative, causal):
    it, x, start = module([absolute, relative], causal=causal), tokens(), 9
    at = Range(start, LQ)
    learns = [{n: p.detach().numpy() for n, p in part.named_parameters()} for part in it.schemes.values()]
    e = torch.from_numpy(spec.encoded(absolute, learns[0], at))
    q, k, v = (f(x + e).unflatten(-1, (H, D)).transpose(1, 2).detach().numpy() for f in (it.query, it.key, it.value))
    out = spec.attention(relative, learns[1], q, k, v, at, at, causal=causal)
    wanted = it.output(torch.from_numpy(out).transpose(1, 2).flatten(2))
    torch.testing.assert_close(it(x, positions=torch.arange(start, start + LQ)), wanted, rtol=1e-9, atol=1e-11)


def test_absolute_positions_of_a_context_are_its_own():
    it, x, context = module([Learned(E, 64), ALiBi(H)]), tokens(), tokens(LK, seed=3)
    at = {"positions": torch.arange(LQ) + 20, "context_positions": torch.arange(LK) + 3}
    torch.testing.assert_close(it(x, context=context, **at), expected(it, x, context, **at), rtol=1e-9, atol=1e-11)


def test_nothing_is_added_twice():
    """A table of zeros leaves what the relative scheme alone gives."""
    both, alone = module([Learned(E, 64), T5(H)]), module(T5(H))
    alone.load_state_dict(both.state_dict(), strict=False)
    with torch.no_grad():
        both.schemes["learned"].table.zero_()
    torch.testing.assert_close(both(tokens()), alone(tokens()))
