"""Rows that nobody measured: a limit and variants that grow as they should, unstable and missing points among them."""

import numpy as np

from relpos.perf.point import CONTROL, LIMIT, Shape, Variant
from relpos.perf.rows import OK, OOM, UNSTABLE, row

RUN = {"run": "r", "machine": "a1b2c3d4", "version": "0.1.0", "commit": "0123456789ab", "dirty": False, "load": 0.0,
       "date": "2026-01-01"}  # fmt: skip
LENGTHS = (512, 1024, 2048, 4096)
# Times of the limit at every length, bytes per L and per L².
GROWTHS = {
    LIMIT: (1.0, 2300, 0.0), CONTROL: (1.01, 2300, 0.0), "alibi/toeplitz": (1.1, 4500, 0.0), "alibi/bias": (3.0, 2300, 36.0),
    "t5/toeplitz": (1.15, 4600, 0.0), "t5/bias": (5.0, 2300, 64.0), "rope/rotate": (1.3, 9000, 0.0),
    "xpos/rotate": (1.45, 9400, 0.0), "shaw/attention_skew": (1.9, 9000, 1.0), "transformer_xl/Attention": (2.0, 8000, 48.0),
    "deberta/attention": (9.0, 9000, 110.0), "sinusoidal/encode": (1.05, 4100, 0.0), "swin/bias": (4.0, 2300, 36.0),
}  # fmt: skip
# As many schemes as there may be in one panel, and a library's own names; what comes close to another is meant to.
CROWD = GROWTHS | {
    "transformer_xl/attention_aligned": (2.02, 8100, 47.0), "music_transformer/attention_skew": (1.95, 9100, 1.1),
    "learned/Table": (1.04, 4100, 0.0), "swin_v2/WindowAttention": (4.2, 2400, 37.0), "beit/attention": (4.1, 2350, 36.0),
    "clipped/toeplitz": (1.12, 4550, 0.0), "none/attention": (1.0, 2310, 0.0),
    "t5/transformers.models.t5:eager": (11.0, 9000, 100.0), "alibi/x-transformers:flash": (3.4, 2300, 37.0),
}  # fmt: skip
CROWD_LENGTHS = (512, 1024, 2048, 4096, 16384)
BACKWARD, DECODE = "forward_backward", "decode"
MOST_BYTES = 20 * 2**30  # what the machine that these rows are of has


def pretended(*, seed=0, machine="a1b2c3d4", lengths=LENGTHS, slower=1.0, growths=None, modes=("forward",), dtype="float32"):
    """Rows of a sweep, both directions."""
    drawn, rows = np.random.default_rng(seed), []
    shapes = [
        Shape(key_length=length, causal=causal, mode=mode, dtype=dtype)
        for mode in modes
        for causal in ((True,) if mode == DECODE else (False, True))
        for length in lengths
    ]
    for shape in shapes:
        for label, growth in (growths or GROWTHS).items():
            rows.append(_row(label, growth, shape, drawn, machine, slower))
    return rows


def crowd():
    """Rows of a whole run: every mode, lengths to 16384, more variants than are drawn in other tests."""
    return pretended(growths=CROWD, lengths=CROWD_LENGTHS, modes=("forward", BACKWARD, DECODE))


def _row(label, growth, shape, drawn, machine, slower):
    times, linear, square = growth
    origin = "transformers 5.24.0" if "transformers" in label else "relpos"
    variant = Variant(label=label, spec="", scheme=label.split("/")[0] if "/" in label else "none", origin=origin)
    run, L = {**RUN, "machine": machine}, shape.key_length
    square = square if shape.mode != DECODE else 0.0
    peak = int(linear * L + square * L * L) * (3 if shape.mode == BACKWARD else 1)
    if (label == "deberta/attention" and shape.causal and L == 4096) or peak > MOST_BYTES:
        return row(run, variant, shape, OOM, reason="can't allocate memory")
    factor = times * (slower if "/" in label else 1.0) * (1.3 if shape.mode == BACKWARD and "/" in label else 1.0)
    ratios = list(factor * (1 + 0.02 * drawn.standard_normal(15)))
    limit_ms = (0.1 + L**2 * 1e-5) * (0.6 if shape.causal else 1.0) * (3 if shape.mode == BACKWARD else 1)
    limit_ms = 0.02 + L * 1e-5 if shape.mode == DECODE else limit_ms
    samples = [limit_ms * one for one in ratios]
    status = UNSTABLE if label in ("swin/bias", "xpos/rotate") and L == 512 else OK
    error = {} if "/" not in label else {"error_units": 0.0 if "learned" in label else 0.02 * times * L**0.2,
                                         "error_allowed_units": 4.0}  # fmt: skip
    return row(run, variant, shape, status, latency_ms=float(np.median(samples)), samples_ms=samples, ratios=ratios,
               ratio_of_minima=min(ratios), median_of_ratios=float(np.median(ratios)), peak_bytes=peak,
               extra_bytes=peak - 2048 * L, **error)  # fmt: skip
