"""Measures the variants of one shape: output against the definition, latency in rounds, output again, memory."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from relpos.perf.accuracy import Known, error_units
from relpos.perf.checking import Wrong, alike, check_rounds, well_formed
from relpos.perf.data import Call, Data, limit
from relpos.perf.guarded import Guarded
from relpos.perf.memory import First, first_call, footprint, kept_for_backward, leaked_bytes
from relpos.perf.outcome import status_of
from relpos.perf.point import CONTROL, LIMIT, THE_CONTROL, THE_LIMIT, Shape, Variant
from relpos.perf.rows import OK, SIZED, TOO_SLOW, UNSTABLE
from relpos.perf.scaling import claimed_exponent
from relpos.perf.timing import RAISED, Timed, interleaved, ratio, ratios, uneven
from relpos.perf.workload import Workload

LONG = 2048  # keys; beyond it a call takes as long as many short ones
AHEAD = 2  # seeds before that of the first round: of the first call, and of warming

Found = tuple[Variant, str, dict[str, Any]]  # what was measured, its status, its figures
Note = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Options:
    """How a shape is measured.

    rounds     interleaved rounds; long_rounds: where there are more than `LONG` keys, if not as many
    most_ms    a variant whose single call takes longer is reported as too slow, with that call as its figure; long_most_ms:
               where there are more than `LONG` keys and no backward, if another
    most_s     the same for building a variant, filling its cache and its first call
    memory     whether memory is measured too; accuracy: whether the output is held against the definition; time: whether there
               are rounds at all
    """

    rounds: int = 5
    long_rounds: int | None = None
    seed: int = 0
    threads: int = 2
    most_ms: float = 4000.0
    long_most_ms: float | None = None
    most_s: float = 60.0
    memory: bool = True
    accuracy: bool = True
    time: bool = True

    def at(self, shape: Shape) -> "Options":
        """These options with rounds and patience of that shape."""
        if shape.key_length <= LONG:
            return self
        patience_ms = self.long_most_ms if shape.mode != "forward_backward" else None
        return replace(self, rounds=self.long_rounds or self.rounds, most_ms=patience_ms or self.most_ms)


def measure(shape: Shape, variants: list[Variant], options: Options, note: Note = lambda label: None) -> list[Found]:
    """Rows of a shape, the limit and its control first; `note` is told which variant is in hand, and "" when none is."""
    torch.set_num_threads(options.threads)
    race = Race(shape, options, note)
    for variant in variants:
        race.enter(variant)
    race.run()
    found = [race.found(variant) for variant in (THE_LIMIT, THE_CONTROL, *variants)]
    note("")
    return found


class Race:
    """The variants of one shape on the same inputs."""

    def __init__(self, shape: Shape, options: Options, note: Note) -> None:
        self.shape, self.options, self.note = shape, options, note
        self.inputs, self.number, self.in_hand = Guarded(shape, options.seed), -AHEAD, ""
        self.works: dict[str, Workload] = {}
        self.firsts: dict[str, First] = {}
        self.failed: dict[str, tuple[str, dict[str, Any]]] = {}
        self.prepared_s: dict[str, float] = {}
        self.known: tuple[Known, Known] = ({}, {})
        self.timed: dict[str, Timed] = {}

    def enter(self, variant: Variant) -> None:
        """Build a variant and call it for the first time; what it raises is its row, and the others go on."""
        self.note(variant.label)
        began = perf_counter()
        try:
            self.works[variant.label] = Workload(variant, self.shape)
            traced = self.options.memory and not self.shape.device.startswith("cuda")
            first = first_call(self.call(variant.label, self.inputs.data), traced=traced)
            # A copy: it may be a buffer that later calls write into.
            self.firsts[variant.label] = replace(first, output=well_formed(first.output, self.shape).clone())
        except RAISED as error:
            self.failed[variant.label] = status_of(error)
        self.prepared_s[variant.label] = perf_counter() - began
        self.settle()

    def settle(self) -> None:
        """Put right what the last call has written into; whose call that was has no figure."""
        label, self.in_hand = self.in_hand, ""
        mine = self.works[label].written() if label in self.works else []
        guarded = (self.inputs, *(self.others if "others" in self.__dict__ else ()))
        if written := dict.fromkeys([*(name for one in guarded for name in one.written()), *mine]):
            self.failed[label] = status_of(Wrong(f"it writes into its input {', '.join(written)}"))

    def run(self) -> None:
        """Time all that could be called."""
        if not self.options.time:
            return
        able = [label for label in self.works if label not in self.failed]
        o = self.options
        self.timed = interleaved({label: self._fresh(label) for label in (LIMIT, CONTROL, *able)}, rounds=o.rounds, seed=o.seed,
                                 device=self.shape.device, most_ms=o.most_ms)  # fmt: skip
        self.settle()

    def _fresh(self, label: str) -> Callable[[int], Call]:
        def fresh(number: int) -> Call:
            self.settle()
            if number != self.number:  # numbers that nobody has seen: what was kept of others helps nobody
                self.inputs.refill(self.options.seed + AHEAD + number)
                self.number = number
            if label in self.failed:
                raise Wrong("it has failed before")
            self.note(label)  # before the clock starts; whoever is killed in a round is known by name
            return self.call(label, self.inputs.data)

        return fresh

    def call(self, label: str, data: Data) -> Call:
        """One call of a variant or of the limit."""
        self.in_hand = label
        return self.works[label].call(data) if label in self.works else limit(self.shape, data)

    @cached_property
    def others(self) -> tuple[Guarded, Guarded]:
        """The inputs of the first call and those of the last round, at other addresses."""
        first, last = (Guarded(self.shape, self.options.seed + n) for n in (0, AHEAD + self.number))
        return first, last

    def found(self, variant: Variant) -> Found:
        """Its status and figures."""
        self.note(variant.label)
        if variant.label in self.failed:
            return variant, *self.failed[variant.label]
        if not self.options.time:
            return variant, SIZED, {"reason": "its memory alone was asked for", **self._sized(variant.label)}
        timed = self.timed[variant.label]
        if timed.error is not None:
            return variant, *status_of(timed.error)
        if not timed.samples_ms:
            took = f"one call took {timed.warm_ms:.0f} ms, more than {self.options.most_ms:.0f}"
            return variant, TOO_SLOW, {"latency_ms": timed.warm_ms, "reason": took}
        try:
            figures = {**self._latency(variant.label), **self._of_variant(variant.label), **self._memory(variant.label)}
        except RAISED as error:
            self.settle()
            return variant, *self.failed.get(variant.label, status_of(error))
        self.settle()
        if variant.label in self.failed:
            return variant, *self.failed[variant.label]
        reasons = [*timed.reasons, *uneven(figures.get("ratios", ()))]
        return variant, UNSTABLE if reasons else OK, figures | ({"reason": "; ".join(reasons)} if reasons else {})

    def _sized(self, label: str) -> dict[str, Any]:
        """Memory of the first call, which there was already: at lengths where another one takes seconds."""
        first = self.firsts.get(label)
        if first is None or first.peak_bytes is None:
            return self._memory(label)
        output_bytes = self.inputs.data.q.nbytes
        return {"peak_bytes": first.peak_bytes, "extra_bytes": max(first.peak_bytes - output_bytes, 0),
                "largest_bytes": first.largest_bytes, "first_peak_bytes": first.peak_bytes,
                "retained_bytes": first.retained_bytes, "output_bytes": output_bytes}  # fmt: skip

    def _latency(self, label: str) -> dict[str, Any]:
        one = self.timed[label]
        figures: dict[str, Any] = {
            "latency_ms": one.median_ms,
            "tokens_per_second": self.shape.batch * self.shape.query_length / one.median_ms * 1000,
            "samples_ms": [round(sample, 5) for sample in one.samples_ms],
        }
        if self.timed[LIMIT].samples_ms:
            by_minima, by_pairs = ratio(self.timed, label)
            pairs = [round(one, 5) for one in ratios(self.timed, label)]
            figures |= {"ratio_of_minima": by_minima, "median_of_ratios": by_pairs, "ratios": pairs}
        return figures

    def _of_variant(self, label: str) -> dict[str, Any]:
        if label not in self.works:
            return {}
        work = self.works[label]
        claim = work.subject.card.memory
        claimed = {"claimed_memory": claim, "claimed_exponent": claimed_exponent(claim)} if claim else {}
        known = {"parameters": work.parameters, "settings": _plain(work.settings), "prepared_s": self.prepared_s[label]}
        return {**known, **claimed, **self._checked(work, label)}

    def _checked(self, work: Workload, label: str) -> dict[str, Any]:
        """The output of the last round against that of its inputs and the definition; that of the first call against itself."""
        (first, last), before = (one.data for one in self.others), self.firsts[label].output
        if not alike(before, self._output(label, first)):
            raise Wrong("after the timed loop the same inputs give another output")
        again = self._output(label, last)
        check_rounds(self.timed[label].seen, before, again)
        if not self.options.accuracy or self.shape.mode == "rotation":  # its output is no attention
            return {}
        # A decoder was filled with the tokens of the first inputs, and is told the last token alone.
        filled = work.subject.kind == "decoder"
        data, out, known = (first, before, self.known[0]) if filled else (last, again, self.known[1])
        units, allowed = error_units(work, data, out, seed=self.options.seed, known=known)
        if not units <= allowed:
            raise Wrong(f"the output is off by {units:.3g} units, allowed are {allowed:g}")
        return {"error_units": units, "error_allowed_units": allowed}

    def _output(self, label: str, data: Data) -> Tensor:
        found = self.call(label, data)()
        self.settle()
        return well_formed(found, self.shape)

    def _memory(self, label: str) -> dict[str, Any]:
        if not self.options.memory:
            return {}
        data, shape = self.inputs.data, self.shape
        fresh = lambda: self.call(label, data)  # noqa: E731
        found = footprint(fresh, shape, data.q.nbytes)
        figures: dict[str, Any] = {**found.figures, "output_bytes": data.q.nbytes}
        if found.retained_bytes > self._gradients_bytes(label) and (more := leaked_bytes(fresh)):
            figures["note"] = f"leaks: {more} bytes more stay alive after every call"
        first = self.firsts.get(label)
        if first is not None and first.peak_bytes is not None:
            # Gradients that stay with their inputs are no caches of the implementation.
            kept = {"retained_bytes": first.retained_bytes} if shape.mode != "forward_backward" else {}
            figures |= {"first_peak_bytes": first.peak_bytes, **kept}
        if shape.mode == "forward_backward" and not shape.device.startswith("cuda"):
            ahead = self.works[label].recorded(data) if label in self.works else limit(shape, data, backward=False)
            figures["backward_bytes"] = kept_for_backward(ahead)
        return figures

    def _gradients_bytes(self, label: str) -> int:
        """Of a training step, which stay with its inputs as long as the call is there."""
        if self.shape.mode != "forward_backward":
            return 0
        data, learned = self.inputs.data, self.works[label].parameters if label in self.works else 0
        return data.q.nbytes + data.k.nbytes + data.v.nbytes + learned * data.q.element_size()


def _plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in settings.items()}
