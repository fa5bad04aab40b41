"""Rows that nobody measured: a limit and a dozen variants that grow as they should, unstable and missing points among them."""

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


def pretended(*, seed=0, machine="a1b2c3d4", lengths=LENGTHS, slower=1.0):
    """Rows of a sweep, both directions."""
    drawn, rows = np.random.default_rng(seed), []
    for causal in (False, True):
        for length in lengths:
            for label, growth in GROWTHS.items():
                rows.append(_row(label, growth, Shape(key_length=length, causal=causal), drawn, machine, slower))
    return rows


def _row(label, growth, shape, drawn, machine, slower):
    times, linear, square = growth
    variant = Variant(label=label, spec="", scheme=label.split("/")[0] if "/" in label else "none")
    run, L = {**RUN, "machine": machine}, shape.key_length
    if label == "deberta/attention" and shape.causal and L == 4096:
        return row(run, variant, shape, OOM, reason="can't allocate memory")
    factor = times * (slower if "/" in label else 1.0)
    ratios = list(factor * (1 + 0.02 * drawn.standard_normal(15)))
    limit_ms = (0.1 + L**2 * 1e-5) * (0.6 if shape.causal else 1.0)
    samples = [limit_ms * one for one in ratios]
    status = UNSTABLE if label in ("swin/bias", "xpos/rotate") and L == 512 else OK
    peak = int(linear * L + square * L * L)
    return row(run, variant, shape, status, latency_ms=float(np.median(samples)), samples_ms=samples, ratios=ratios,
               ratio_of_minima=min(ratios), median_of_ratios=float(np.median(ratios)), peak_bytes=peak,
               extra_bytes=peak - 2048 * L)  # fmt: skip
