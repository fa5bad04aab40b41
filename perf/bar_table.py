"""The table of bars, and the variants that they are of."""

from collections.abc import Iterable, Iterator

from relpos.perf.bars import AT, LONG, LONGER, Bar, exponent, faster, largest, over_limit, peak
from relpos.perf.point import Shape, Variant
from relpos.perf.variants import built_in

ENGINES = ("toeplitz", "streamed", "panels")  # names of variants that never form all scores
LINES, SKEWS, TABLES = ("alibi/toeplitz", "t5/toeplitz", "clipped/toeplitz"), ("music_transformer/streamed",), ("swin/panels",)
ROTATIONS = ("rope/Rotary", "rope/Fused")
HALVES = ("rope/Rotary[half]", "rope/Fused[half]")
STEPS = ("alibi/Decoder", "t5/Decoder", "clipped/Decoder")
# A clipped term of queries alone, without vectors for the values, is DeBERTa's c2p at its clip.
BAND, BAND_VALUES = "deberta/streamed[c2p, 64]", "shaw/streamed"
V1, V2 = "deberta/streamed[v1, 512]", "deberta/streamed[v2, 512]"
SETTINGS = {
    **dict.fromkeys(HALVES, (("layout", "half"),)),
    BAND: (("max_distance", 64), ("terms", "c2p")),
    V1: (("max_distance", 512),),
    V2: (("max_distance", 512), ("version", "v2"), ("num_buckets", 256)),
}
FULL_SIGHT, CAUSAL = AT, AT.but(causal=True)
TRAINING = AT.but(mode="forward_backward")


def table() -> list[Bar]:
    """All bars: what, of whom, where, and how much."""
    return [*_toeplitz(), *_training(), *_content(), *_others(), *_memory(), *_peers()]


def variants(bars: Iterable[Bar], others: Iterable[Variant]) -> dict[str, Variant]:
    """Variants by label, ours and those from elsewhere that a bar names; some under fixed settings have labels of their own."""
    every = {one.label: one for one in (*built_in(), *others)}
    named = dict.fromkeys(label for bar in bars for label in (*bar.labels, bar.against))
    found = {}
    for label in named:
        plain = every.get(label.partition("[")[0])
        if plain is not None:
            found[label] = Variant(**{**vars(plain), "label": label, "settings": SETTINGS.get(label, plain.settings)})
    return found


def _time(what: str, labels: tuple[str, ...] | str, shape: Shape, must: float, aim: float) -> Bar:
    labels = (labels,) if isinstance(labels, str) else labels
    return Bar(what=what, labels=labels, shape=shape, must=must, aim=aim, statistic=over_limit)


def _toeplitz() -> Iterator[Bar]:
    for L in (LONG // 2, LONG):
        for dtype, seen, past in (("float32", (1.20, 1.05), (1.25, 1.05)), ("bfloat16", (1.35, 1.12), (1.45, 1.15))):
            for label in LINES[:2]:
                yield _time("Toeplitz forward", label, AT.but(key_length=L, dtype=dtype), *seen)
                yield _time("Toeplitz forward", label, CAUSAL.but(key_length=L, dtype=dtype), *past)


def _training() -> Iterator[Bar]:
    for L in (LONG // 2, LONG):
        shape = TRAINING.but(key_length=L)
        yield _time("fixed bias, forward + backward", LINES[0], shape, 1.15, 1.05)
        yield _time("learned table, forward + backward", LINES[1], shape, 1.50, 1.15)
        yield _time("skew, forward + backward", SKEWS, shape, 2.5, 1.7)


def _content() -> Iterator[Bar]:
    for L in (LONG // 2, LONG):
        for dtype, seen, past in (("float32", (2.0, 1.6), (2.3, 1.65)), ("bfloat16", (2.5, 1.8), (3.1, 2.0))):
            yield _time("skew forward", SKEWS, AT.but(key_length=L, dtype=dtype), *seen)
            yield _time("skew forward", SKEWS, CAUSAL.but(key_length=L, dtype=dtype), *past)
    for shape in (FULL_SIGHT, CAUSAL):
        yield _time("clipped, k = 64, without a value term", BAND, shape, 1.9, 1.2)
        yield _time("clipped, k = 64, with a value term", BAND_VALUES, shape, 2.3, 1.4)
    yield _time("deberta v1, clip 512", V1, FULL_SIGHT, 6.0, 1.6)
    yield _time("deberta v2, 256 buckets to 512", V2, FULL_SIGHT, 6.0, 1.6)


def _others() -> Iterator[Bar]:
    yield _time("table of a 64 × 64 grid", TABLES, FULL_SIGHT, 2.0, 1.25)
    for label in STEPS:
        yield _time("decode step", label, CAUSAL.but(mode="decode"), 1.12, 1.05)
    for dtype, marks in (("float32", (1.3, 1.0)), ("bfloat16", (3.0, 1.5))):
        for labels in (ROTATIONS, HALVES):
            yield _time("rope against copies of q and k", labels, AT.but(mode="rotation", dtype=dtype), *marks)


def _memory() -> Iterator[Bar]:
    for what, label, shape, must, aim in (
        ("Toeplitz", LINES[0], FULL_SIGHT, 2.0, 1.1), ("Toeplitz", LINES[0], CAUSAL, 1.0, 0.9),
        ("skew", SKEWS[0], FULL_SIGHT, 5.0, 2.5), ("skew", SKEWS[0], CAUSAL, 5.0, 2.5),
        ("band", BAND, FULL_SIGHT, 5.0, 2.5), ("band", BAND_VALUES, FULL_SIGHT, 5.0, 2.5),
        ("learned table, training", LINES[1], TRAINING, 1.8, 1.3),
    ):  # fmt: skip
        yield Bar(what=f"peak memory, {what}", labels=(label,), shape=shape, must=must, aim=aim, statistic=peak)
    for one in built_in():
        if one.label.split("/")[1] not in ENGINES:
            continue
        for shape in (FULL_SIGHT,) if one.scheme in ("swin", "beit") else (FULL_SIGHT, CAUSAL):
            yield Bar(what="memory exponent to 16384", labels=(one.label,), shape=shape, must=1.10, aim=1.05,
                      statistic=exponent, also=shape.but(key_length=LONGER))  # fmt: skip
            yield Bar(what="largest allocation × 8 / all scores", labels=(one.label,), shape=shape, must=1.0, aim=1.0,
                      statistic=largest)  # fmt: skip


def _peers() -> Iterator[Bar]:
    for labels, against, shape, must, aim in (
        ("t5/toeplitz", "t5/transformers-sdpa", FULL_SIGHT, 5.0, 8.0),
        ("alibi/toeplitz", "alibi/transformers-bloom", CAUSAL, 6.0, 9.0),
        ("alibi/toeplitz", "alibi/x-transformers-flash", FULL_SIGHT, 3.0, 4.5),
        ("alibi/toeplitz", "alibi/x-transformers-flash", CAUSAL, 3.0, 4.5),
        ("transformer_xl/streamed", "transformer_xl/transformers-xlnet", AT.but(key_length=LONG // 2), 10.0, 15.0),
    ):
        yield Bar(what=f"faster than {against}", labels=(labels,), shape=shape, must=must, aim=aim, statistic=faster,
                  against=against, at_least=True)  # fmt: skip
