"""Measures the variants of one shape: gate, output against the definition, latency in rounds, output again, memory."""

import gc
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from relpos.perf.accuracy import error_units
from relpos.perf.memory import footprint, kept_for_backward
from relpos.perf.point import CONTROL, LIMIT, THE_CONTROL, THE_LIMIT, Shape, Variant
from relpos.perf.rows import FAILED, OK, OOM, TOO_SLOW, UNSTABLE, UNSUPPORTED
from relpos.perf.timing import Timed, interleaved, ratio
from relpos.perf.workload import Call, Data, Unsupported, Workload, limit
from relpos.spec.contract import SettingsError

SETS = 3  # of inputs, taken in turn: no round repeats what a cache keyed by the input has seen just before
NO_MEMORY = ("can't allocate memory", "out of memory", "not enough memory", "Cannot allocate memory")

Found = tuple[Variant, str, dict[str, Any]]  # what was measured, its status, its figures
Note = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Options:
    """How a shape is measured.

    rounds     interleaved rounds
    most_ms    a variant whose single call takes longer is reported as too slow, with that call as its figure
    memory     whether memory is measured too; accuracy: whether the output is held against the definition
    """

    rounds: int = 5
    seed: int = 0
    threads: int = 2
    most_ms: float = 4000.0
    memory: bool = True
    accuracy: bool = True


def measure(shape: Shape, variants: list[Variant], options: Options, note: Note = lambda label: None) -> list[Found]:
    """Rows of a shape, the limit and its control first; `note` is told which variant is in hand, and "" when none is."""
    torch.set_num_threads(options.threads)
    sets = [Data(shape, options.seed + n) for n in range(SETS)]
    found: dict[str, Found] = {}
    calls: dict[str, Callable[[int], Call]] = {
        label: lambda number: limit(shape, sets[number % SETS]) for label in (LIMIT, CONTROL)
    }
    works: dict[str, Workload] = {}
    outputs: dict[str, Tensor] = {}
    for variant in variants:
        note(variant.label)
        try:
            work = Workload(variant, shape)
            outputs[variant.label] = work.call(sets[0])()
            works[variant.label] = work
            calls[variant.label] = lambda number, work=work: work.call(sets[number % SETS])
        except Exception as error:  # noqa: BLE001 - whatever a variant raises is its row, and the others go on
            found[variant.label] = (variant, *_reason(error))
    note("")
    timed = interleaved(calls, rounds=options.rounds, seed=options.seed, device=shape.device, most_ms=options.most_ms)
    for variant in (THE_LIMIT, THE_CONTROL, *variants):
        if variant.label not in found:
            note(variant.label)
            work = works.get(variant.label)
            found[variant.label] = (variant, *_figures(variant, shape, work, timed, sets, outputs, options))
    note("")
    return [found[v.label] for v in (THE_LIMIT, THE_CONTROL, *variants)]


def _figures(
    variant: Variant,
    shape: Shape,
    work: Workload | None,
    timed: Mapping[str, Timed],
    sets: list[Data],
    outputs: dict[str, Tensor],
    options: Options,
) -> tuple[str, dict[str, Any]]:
    one = timed[variant.label]
    if not one.samples_ms:
        took = f"one call took {one.warm_ms:.0f} ms, more than {options.most_ms:.0f}"
        return TOO_SLOW, {"latency_ms": one.warm_ms, "reason": took}
    by_minima, by_pairs = ratio(timed, variant.label)
    figures: dict[str, Any] = {
        "latency_ms": one.median_ms,
        "samples_ms": [round(sample, 5) for sample in one.samples_ms],
        "ratio_of_minima": by_minima,
        "median_of_ratios": by_pairs,
    }
    status, unstable = OK, one.reasons
    try:
        if work is not None:
            figures |= {
                "parameters": work.parameters,
                "settings": _plain(work.settings),
                **_checked(work, sets, outputs, options),
            }
        if options.memory:
            figures |= _memory(shape, work, sets)
    except Exception as error:  # noqa: BLE001 - as above
        return _reason(error)
    if "wrong" in figures:
        return FAILED, figures | {"reason": figures.pop("wrong")}
    if unstable:
        status, figures["reason"] = UNSTABLE, "; ".join(unstable)
    return status, figures


def _checked(work: Workload, sets: list[Data], outputs: dict[str, Tensor], options: Options) -> dict[str, Any]:
    """The output against the definition, and, after the timed loop, against itself before it."""
    before = outputs[work.variant.label]
    after = work.call(sets[0])()
    if not torch.equal(before, after) and not torch.allclose(before, after, rtol=torch.finfo(before.dtype).eps * 64):
        return {"wrong": "after the timed loop the same inputs give another output"}
    if not options.accuracy:
        return {}
    units, allowed = error_units(work, sets[0], before, seed=options.seed)
    found: dict[str, Any] = {"error_units": units, "error_allowed_units": allowed}
    return found if units <= allowed else found | {"wrong": f"the output is off by {units:.3g} units, allowed are {allowed:g}"}


def _memory(shape: Shape, work: Workload | None, sets: list[Data]) -> dict[str, Any]:
    gc.collect()
    data = sets[0]
    output_bytes = data.q.nbytes
    fresh = (lambda: work.call(data)) if work is not None else (lambda: limit(shape, data))
    found = footprint(fresh, shape, output_bytes)
    figures = asdict(found) | {"output_bytes": output_bytes}
    if shape.mode == "forward_backward":
        ahead = _forward_only(shape, work, data)
        figures["backward_bytes"] = kept_for_backward(ahead)
    return figures


def _forward_only(shape: Shape, work: Workload | None, data: Data) -> Callable[[], Any]:
    return work.recorded(data) if work is not None else limit(shape, data, backward=False)


def _reason(error: Exception) -> tuple[str, dict[str, Any]]:
    said = (str(error).strip().splitlines() or [type(error).__name__])[0]
    if isinstance(error, (Unsupported, SettingsError, NotImplementedError)):
        return UNSUPPORTED, {"reason": said}
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)) or any(words in str(error) for words in NO_MEMORY):
        return OOM, {"reason": said}
    return FAILED, {"reason": f"{type(error).__name__}: {said}"}


def _plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in settings.items()}
