"""The definitions against the outputs of other people's code: every array of every golden, by named settings.

One test per array, so the number of `test_array_is_what_the_spec_gives` that pass is the number of arrays matched.
"""

from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from golden_files import FOLDER, Golden, Match, assert_same, index, load, names
from relpos.spec.alibi import ALiBi
from relpos.spec.attention import allowed, logits, softmax
from relpos.spec.positions import Range
from relpos.spec.registry import schemes
from relpos.spec.rope import RoPE

EXPLAINING = [import_module(path.stem) for path in sorted(Path(__file__).parent.glob("golden_*.py"))]
# The beginning of a golden's name: who explains it, and of which scheme it speaks.
EXPLAINERS = {start: (module, scheme) for module in EXPLAINING for start, scheme in getattr(module, "FAMILIES", {}).items()}
NOT_EXPRESSIBLE = {pair: reason for module in EXPLAINING for pair, reason in getattr(module, "NOT_EXPRESSIBLE", {}).items()}


def explainer(name: str):
    """The longest beginning that fits: `rope_scaling_` is not `rope_`."""
    return EXPLAINERS[max((start for start in EXPLAINERS if name.startswith(start)), key=len)]


@cache
def explained(name: str) -> dict[str, Match]:
    return explainer(name)[0].explain(load(name))


def inputs(golden: Golden) -> set[str]:
    """Arrays that were put into the other code, and here into the spec."""
    known = explainer(golden.name)[0].INPUTS
    return (known.get(golden.name, set()) if isinstance(known, dict) else known) & set(golden.arrays)


def outputs() -> list[tuple[str, str]]:
    every = [(name, array) for name in names() for array in load(name).arrays if array not in inputs(load(name))]
    return [pair for pair in every if pair not in NOT_EXPRESSIBLE]


@pytest.mark.parametrize(("name", "array"), outputs(), ids=lambda part: part.removesuffix(".npz").removesuffix(".json"))
def test_array_is_what_the_spec_gives(name, array):
    assert_same(explained(name)[array], load(name)[array], f"{name}: {array}")


@pytest.mark.parametrize("name", names())
def test_the_comparison_sees_one_wrong_entry(name):
    """The largest finite entry of every array, off by 1/32 of itself (or by one), is seen."""
    for array, match in explained(name).items():
        got = np.array(match.got, dtype=np.float64)
        largest = np.unravel_index(np.argmax(np.where(np.isfinite(got), np.abs(got), -1.0)), got.shape)
        whole = load(name)[array].dtype.kind in "iub" or got[largest] == 0
        got[largest] += 1.0 if whole else got[largest] / 32
        with pytest.raises(AssertionError, match="apart"):
            assert_same(replace(match, got=got), load(name)[array], array)


@pytest.mark.parametrize("name", names())
def test_no_array_is_skipped_in_silence(name):
    golden = load(name)
    excused = {array for file, array in NOT_EXPRESSIBLE if file == name}
    assert set(golden.arrays) == set(explained(name)) | inputs(golden) | excused
    assert not (set(explained(name)) & (inputs(golden) | excused))


@pytest.mark.parametrize(("name", "array"), NOT_EXPRESSIBLE)
def test_an_excused_array_exists_and_has_a_reason(name, array):
    assert array in load(name).arrays
    assert NOT_EXPRESSIBLE[name, array]


def test_index_lists_the_folder():
    there = {path.name for path in FOLDER.iterdir() if path.suffix in (".npz", ".json")} - {"index.json"}
    assert names() == sorted(there)


@pytest.mark.parametrize("entry", [entry for entry in index() if "arrays" in entry], ids=lambda entry: entry["file"])
def test_index_tells_shapes_and_dtypes(entry):
    stored = {name: [list(array.shape), str(array.dtype)] for name, array in load(entry["file"]).arrays.items()}
    assert stored == entry["arrays"]


@pytest.mark.parametrize("scheme", sorted({scheme for _, scheme in EXPLAINERS.values()}))
def test_every_explained_scheme_has_a_golden(scheme):
    assert scheme in schemes()
    assert any(explainer(name)[1] == scheme for name in names())


# ---- forms that are the same attention only under a causal softmax

ROW_CONSTANT = ("press", "bloom_H", "hf_mpt", "mpt_causal", "fa_causal")
SHIFTED = [name for name in load("alibi__bias.npz").arrays if name.startswith(ROW_CONSTANT)]


def shifted(array: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A golden bias, the symmetric one and who sees whom, all [1, H, 7, 7]."""
    L = Range(0, 7)
    golden = load("alibi__bias.npz")[array].astype(np.float64)
    golden = golden if golden.ndim == 4 else golden[None]
    symmetric = ALiBi(golden.shape[1]).bias({}, L, L)[None]
    return np.broadcast_to(golden, symmetric.shape), symmetric, allowed(symmetric.shape, L, L, causal=True)


@pytest.mark.parametrize("array", SHIFTED)
def test_key_only_differs_from_distance_by_a_constant_per_query(array):
    golden, symmetric, visible = shifted(array)
    difference = np.where(visible, golden - symmetric, np.nan)
    spread = np.nanmax(difference, axis=-1) - np.nanmin(difference, axis=-1)
    # the difference of two float32 biases, the larger at most m·6
    assert_same(Match(array, spread, "float32 power", magnitude=6.0), np.zeros(spread.shape), array)


@pytest.mark.parametrize("array", SHIFTED)
def test_key_only_is_distance_under_a_causal_softmax(array):
    golden, symmetric, visible = shifted(array)
    same = Match(array, softmax(symmetric, visible), "float32 power", magnitude=6.0)
    assert_same(same, softmax(golden, visible), array)


@pytest.mark.parametrize("array", [name for name in SHIFTED if name.startswith("bloom_H")])
def test_key_only_is_not_distance_without_a_causal_mask(array):
    golden, symmetric, visible = shifted(array)
    everything = np.ones_like(visible)
    with pytest.raises(AssertionError, match="apart"):
        assert_same(Match(array, softmax(symmetric, everything), "float32 power", 6.0), softmax(golden, everything), array)


# ---- particular to one code

FAIRSEQ = [name for name in names() if name.startswith("sinusoidal_fairseq")]
FAIRSEQ_PADDED = [name for name in FAIRSEQ if load(name).params["padding_idx"] is not None]


@pytest.mark.parametrize("name", FAIRSEQ_PADDED)
def test_fairseq_zeroes_the_row_of_padding(name):
    golden = load(name)
    assert not golden["pe"][golden.params["padding_idx"]].any()


@pytest.mark.parametrize("name", [name for name in names() if name.startswith("rope_half_neox")])
def test_half_is_interleaved_after_permuting_columns(name):
    golden = load(name)
    permutation, positions = golden["perm_half_to_interleaved"], Range(0, golden["q"].shape[2])
    q, k = np.empty_like(golden["q"]), np.empty_like(golden["k"])
    q[..., permutation], k[..., permutation] = golden["q"], golden["k"]
    settings = RoPE(golden.params["d"], layout="interleaved")
    turned = settings.rotate(q, positions, "query")[..., permutation]
    stated = explained(name)
    assert_same(Match(settings, turned, magnitude=stated["q_rot"].magnitude), golden["q_rot"], name)
    score = logits(settings, {}, q, k, positions, positions)
    assert_same(Match(settings, score, magnitude=stated["logits"].magnitude), golden["logits"], name)


def test_falcon_scales_the_bias_with_the_content():
    falcon, bloom = explained("alibi__bias.npz")["falcon_pad_H4_f32"].settings, ALiBi(4, distance="key_only")
    nothing, where = np.zeros((1, 4, 3, 16)), (Range(0, 3), Range(0, 3))
    scaled, plain = (logits(s, {}, nothing, nothing, *where) for s in (falcon, bloom))
    assert np.array_equal(scaled, plain / 4)
