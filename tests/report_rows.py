"""Rows of a run that nobody measured, with all that a report shows: modes, decoders, peers, gaps; and how to read one."""

import json
import re

import numpy as np

from relpos.perf.machine import machine_id
from relpos.perf.point import CONTROL, LIMIT, Variant
from relpos.perf.rows import OK, OOM, UNSTABLE, UNSUPPORTED, append, row
from relpos.perf.sweep import Sweep
from relpos.perf.variants import built_in

RECORD = {
    "processor": "A processor",
    "cores": 2,
    "affinity": 2,
    "threads": 2,
    "memory_gib": 24,
    "torch": "2.13.0",
    "container": True,
}
MACHINE = machine_id(RECORD)
RUN = {"run": "r", "machine": MACHINE, "version": "0.1.0", "commit": "0123456789ab", "dirty": False, "load": 0.5,
       "date": "2026-01-02"}  # fmt: skip
SWEEP = Sweep(lengths=(512, 1024, 2048, 4096), modes=("forward", "forward_backward", "decode"))
# Times of the limit at every length, bytes per L and per L².
VARIANTS = {
    LIMIT: (1.0, 2300, 0.0), CONTROL: (1.01, 2300, 0.0), "alibi/toeplitz": (1.1, 4500, 0.0), "alibi/bias": (3.0, 2300, 36.0),
    "t5/toeplitz": (1.5, 4600, 0.0), "t5/bias": (1.2, 2300, 64.0), "rope/rotate": (1.3, 9000, 0.0),
    "rope/Decoder": (1.4, 9000, 0.0), "sinusoidal/encode": (1.0, 4100, 0.0), "swin/bias": (4.0, 2300, 36.0),
    "deberta/attention": (9.0, 9000, 110.0), "alibi/torch-flex": (4.0, 2300, 0.0), "t5/transformers": (7.0, 2300, 64.0),
}  # fmt: skip
PEERS = {"alibi/torch-flex": "torch 2.13.0", "t5/transformers": "transformers 5.24.0"}
NO_DECODER, NO_ORDER = "it takes no single steps", "positions have several axes: nothing is causal"


def pretended_run():
    """Rows of all shapes of SWEEP."""
    drawn, sources = np.random.default_rng(0), {one.label: one.source for one in built_in()}
    return [_row(label, shape, drawn, sources) for shape in SWEEP.shapes() for label in VARIANTS]


def write(path, rows, record=RECORD):
    """A file of rows with the record of their machine beside it, as `perf` leaves them."""
    append(path, rows)
    beside = path.with_name(f"{path.stem}.machine-{MACHINE}.json")
    beside.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return path


def _row(label, shape, drawn, sources):
    scheme = label.split("/")[0] if "/" in label else "none"
    origin = PEERS.get(label, "relpos" if "/" in label else "torch")
    variant = Variant(label=label, spec="", scheme=scheme, origin=origin, source=sources.get(label, ""))
    status, figures = _figures(label, shape, drawn)
    return row(RUN, variant, shape, status, **figures)


def _figures(label, shape, drawn):
    L, (times, linear, square) = shape.key_length, VARIANTS[label]
    if label == "swin/bias" and (shape.causal or shape.mode == "decode"):
        return UNSUPPORTED, {"reason": NO_ORDER}
    if shape.mode == "decode" and label in ("t5/bias", "rope/rotate", *PEERS):
        return UNSUPPORTED, {"reason": NO_DECODER}
    if label == "rope/Decoder" and shape.mode != "decode":
        return UNSUPPORTED, {"reason": "it takes single steps"}
    if label == "deberta/attention" and L == 4096:
        return OOM, {"reason": "can't allocate memory"}
    ratios = [round(one, 5) for one in times * (1 + 0.02 * drawn.standard_normal(7))]
    limit_ms = 0.1 + (L * 1e-5 if shape.mode == "decode" else L**2 * 1e-5)
    samples, peak = [round(limit_ms * one, 5) for one in ratios], int(linear * L + square * L * L)
    figures = {
        "latency_ms": float(np.median(samples)), "samples_ms": samples, "ratios": ratios, "ratio_of_minima": min(ratios),
        "median_of_ratios": float(np.median(ratios)), "peak_bytes": peak, "extra_bytes": peak - 2048 * L,
        "tokens_per_second": shape.query_length / float(np.median(samples)) * 1000,
    }  # fmt: skip
    if shape.mode == "forward_backward":
        figures["backward_bytes"] = peak // 2
    if "/" in label:
        figures |= {"parameters": 256, "error_units": 0.25 + L * 1e-4, "error_allowed_units": 4.0, "claimed_memory": "L * L"}
    unstable = label == "t5/bias" and L == 4096
    return (UNSTABLE, figures | {"reason": "it drifts"}) if unstable else (OK, figures)


def point(rows, label, length, mode="forward", causal=False):
    """The row of a point."""
    return next(r for r in rows if (r["variant"], r["key_length"], r["mode"], r["causal"]) == (label, length, mode, causal))


def section(document, heading):
    """The text below a heading."""
    return re.search(rf"^#+ {re.escape(heading)}$\n(.*?)(?=^#+ |\Z)", document, re.MULTILINE | re.DOTALL).group(1)


def cells(text):
    """{first cell: the others by the head of their column} of the table in a text."""
    lines = [[cell.strip() for cell in line[2:-2].split(" | ")] for line in text.splitlines() if line.startswith("| ")]
    return {first: dict(zip(lines[0][1:], others, strict=True)) for first, *others in lines[2:]}
