"""Implementations from PyPI come out as recorded, and a record that is wrong is told so."""

from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest
import torch

from relpos.conformance.many import judge_many
from relpos.conformance.peers import run
from relpos.conformance.peers.record import Peer
from relpos.conformance.plan import Plan
from relpos.spec.alibi import ALiBi
from relpos.spec.positions import Explicit

PACKAGES = ("transformers", "x_transformers", "rotary_embedding_torch")
MISSING = [name for name in PACKAGES if find_spec(name) is None]
# Theirs, on import: torch.jit.script in x-transformers.
pytestmark = [
    pytest.mark.skipif(bool(MISSING), reason=f"needs {', '.join(MISSING)} (the extra `peers`): nox -s peers"),
    pytest.mark.filterwarnings("ignore"),
]


def peers() -> dict[str, Peer]:
    """All peers by name; nobody here knows them where a package is missing."""
    return {} if MISSING else {peer.name: peer for peer in run.recorded()[0]}


@pytest.fixture(scope="module")
def verdicts():
    """Two peers that are judged in seconds, and their verdicts: the session `peers` judges all of them."""
    few = {name: peers()[name] for name in ("falcon/bias, float32", "bloom/bias, exact")}
    rows, complete = judge_many({name: (p.implementation, p.options) for name, p in few.items()}, "smoke")
    assert complete
    return {name: (peer, rows[name]) for name, peer in few.items()}


@pytest.fixture(scope="module")
def falcon(verdicts):
    """A deviation with a bound, and its verdict."""
    return verdicts["falcon/bias, float32"]


def test_a_peer_as_recorded_surprises_nobody(verdicts):
    assert [run.held(*row).surprises for row in verdicts.values()] == [(), ()]


def test_every_witness_still_shows_its_deviation():
    for peer in peers().values():
        for deviation in peer.deviations:
            assert not run.stale(deviation, run.shown(deviation, peer)), peer.name


def test_names_are_unique():
    names = [peer.name for peer in run.recorded()[0]]
    assert len(set(names)) == len(names)


def test_recorded_versions_are_those_of_the_extra():
    assert run.other_versions(run.recorded()[0]) == []


def test_a_stale_deviation_is_told(falcon):
    peer, verdict = falcon
    (deviation,) = peer.deviations
    exact = Plan.from_json(deviation.witness).but(settings={"num_heads": 8}, heads=8)
    stale = replace(peer, deviations=(replace(deviation, witness=exact.to_json()),))
    assert run.held(stale, verdict).surprises == (
        "the deviation 'bfloat16 slopes in float32' is stale: L10 holds on its witness; remove it",
    )


def test_another_failure_of_the_same_law_is_told(falcon):
    peer, verdict = falcon
    other = replace(peer, deviations=(replace(peer.deviations[0], says="the tangents"),))
    stale, undeclared = run.held(other, verdict).surprises
    assert "fails otherwise (the slopes of 9 heads are not those of the rule)" in stale
    assert undeclared == "L10 fails and no deviation on record says so: the slopes of 9 heads are not those of the rule"


def test_an_exceeded_bound_is_told(falcon):
    peer, verdict = falcon
    tight = replace(peer, deviations=(replace(peer.deviations[0], units=100.0),))
    assert "exceeds its bound of 100 units on its witness (333)" in run.held(tight, verdict).surprises[0]


def test_a_failure_without_a_deviation_is_told(falcon):
    peer, verdict = falcon
    undeclared, word = (*run.held(replace(peer, deviations=()), verdict).surprises, "")[:2]
    assert undeclared == "L10 fails and no deviation on record says so: the slopes of 9 heads are not those of the rule"
    assert not word


def test_an_undecided_peer_that_is_decided_is_told(verdicts):
    peer, verdict = verdicts["bloom/bias, exact"]
    wrong: Peer = replace(peer, instead="distance=causal")
    assert run.held(wrong, verdict).surprises == ("recorded as undecided with distance=causal; it is: conforms",)


def test_bloom_counts_real_tokens_under_left_padding():
    from relpos.conformance.peers.transformers_bloom import build_alibi_tensor

    mask = torch.tensor([[0, 0, 1, 1, 1], [0, 1, 1, 1, 1]])
    positions = Explicit(((mask.cumsum(-1) - 1) * mask).numpy())
    got = build_alibi_tensor(mask, 4, torch.float32).reshape(2, 4, 1, 5).numpy()
    want = [ALiBi(num_heads=4, distance="key_only").bias({}, positions.row(b), positions.row(b))[:, :1] for b in range(2)]
    np.testing.assert_array_equal(got, np.stack(want))


def test_falcon_refuses_an_odd_width_that_it_does_not_rotate():
    from relpos.conformance.peers.transformers_falcon import FalconConfig

    with pytest.raises(Exception, match="RoPE requires an even rotary dimension"):
        FalconConfig(hidden_size=5, num_attention_heads=1, alibi=True)


def test_falcon_eager_is_sdpa_with_every_slope_doubled():
    from relpos.conformance.peers.transformers_falcon import eager, sdpa

    q, k, v = (torch.randn(1, 2, 6, 4, generator=torch.Generator().manual_seed(n)) for n in range(3))
    slopes = torch.tensor([2.0**-4, 2.0**-8])
    distance = torch.arange(6) - torch.arange(6)[:, None]
    logits = (q @ k.mT + 2 * slopes[:, None, None] * distance) / 2
    doubled = torch.softmax(logits.masked_fill(distance > 0, -torch.inf), -1) @ v
    torch.testing.assert_close(eager(q, k, v), doubled)
    assert (sdpa(q, k, v) - doubled).abs().max() > 1e-2


def test_a_missing_package_names_the_extra_and_the_session(monkeypatch, capsys):
    def absent(name):
        raise ModuleNotFoundError(f"No module named {name!r}", name="transformers.models")

    monkeypatch.setattr(run, "import_module", absent)
    assert run.run("smoke") == 2
    said = " ".join(capsys.readouterr().err.split())
    assert said.startswith("package missing: in conformance/peers, ")
    assert "transformers_bloom.py needs transformers, " in said
    assert "nox -s peers" in said and "pip install 'relpos[peers]'" in said
