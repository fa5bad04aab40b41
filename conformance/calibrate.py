"""Measures c of `tolerance.py`: the largest error of right implementations, in units of s(n)·u·M + u_p·P + n·η.

    python -m relpos.conformance.calibrate [inputs]

Runs every built-in, and the rewritings below, which are right but round elsewhere, over drawn inputs of each dtype. Printed:
for each kind of result and dtype the largest error seen, where, and the c that follows: the next power of two above twice that.
"""

import sys
from collections.abc import Callable
from math import ceil, isfinite, log2

import numpy as np
import torch
from hypothesis import HealthCheck, Phase, given, settings

from relpos.conformance import console
from relpos.conformance.answers import answer, comparisons, definition, prepared
from relpos.conformance.builtins import builtins
from relpos.conformance.calling import Instance
from relpos.conformance.errors import Refused
from relpos.conformance.gradients import backward, float_names, prescribed
from relpos.conformance.judge import compare
from relpos.conformance.laws.l10_slopes import LAW as SLOPES
from relpos.conformance.laws.l20_gradient import LAW as GRADIENT
from relpos.conformance.loading import load
from relpos.conformance.plan import Plan
from relpos.conformance.precision import rounded
from relpos.conformance.rewritings import REWRITINGS
from relpos.conformance.searching import private_storage
from relpos.conformance.smoke import smoke
from relpos.conformance.strategies import plans
from relpos.conformance.subject import Subject, plug_in

Found = dict[tuple[str, str], tuple[float, str]]
INPUTS = 400


def measure(subject: Subject, inputs: int, found: Found) -> None:
    """Values and gradients of one subject."""
    _over(plans(subject), inputs, lambda plan: _values(subject, plan, found))
    for plan in SLOPES.pinned(subject) if SLOPES.applies(subject) is None and subject.level == "contribution" else ():
        _values(subject, plan, found)  # up to 128 heads
    if GRADIENT.applies(subject) is None and GRADIENT.claimed(subject) is None:
        _over(GRADIENT.plans(subject), max(inputs // 4, 1), lambda plan: _gradients(subject, plan, found))


def _over(strategy, inputs: int, visit: Callable[[Plan], None]) -> None:
    quiet = settings(
        max_examples=inputs,
        phases=(Phase.generate,),
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=(HealthCheck.too_slow,),
    )

    def attempt(plan: Plan) -> None:
        try:
            visit(plan)
        except Refused:
            return

    with private_storage():
        quiet(given(strategy)(attempt))()


def _values(subject: Subject, plan: Plan, found: Found) -> None:
    inputs = prepared(subject, plan)
    want = definition(subject, inputs)
    for comparison in comparisons(subject, inputs, answer(subject, inputs)):
        _note(found, want[comparison.name].kind, plan, comparison.largest, subject)


def _gradients(subject: Subject, plan: Plan, found: Found) -> None:
    inputs = prepared(subject, plan)
    names = float_names(subject, inputs)
    generator = np.random.default_rng(plan.seed + 1)
    shapes = {name: want.value.shape for name, want in definition(subject, inputs).items()}
    cotangents = {name: rounded(generator.standard_normal(shape), plan.dtype) for name, shape in shapes.items()}
    got = backward(Instance(subject, inputs), inputs, frozenset(names), cotangents)
    for name, want in prescribed(inputs, subject.level, names, cotangents).items():
        if (gradient := got[name]) is not None:
            _note(found, "gradient", plan, compare(gradient, want, plan.dtype).largest, subject)


def _note(found: Found, kind: str, plan: Plan, largest: float, subject: Subject) -> None:
    key = (kind, plan.dtype)
    if largest > found.get(key, (-1.0, ""))[0]:
        found[key] = (largest, subject.spec)


def _next_power(value: float) -> str:
    return f"{2.0 ** ceil(log2(value)):g}" if isfinite(value) and value > 0 else "none: an error without bound"


def main(inputs: int) -> None:
    """Measure everything and print the table."""
    torch.set_num_threads(1)
    found: Found = {}
    subjects = [plug_in(load(spec), spec=spec) for spec in builtins().values()]
    subjects = [subject for subject in subjects if subject.kind != "resizer"]  # its law has a bound of its own
    subjects += [plug_in(function, spec=f"rewriting {function.__name__}") for function in REWRITINGS]
    with console.progress_bar() as bar:
        task = bar.add_task("calibrating", total=len(subjects))
        for subject in subjects:
            measure(smoke(subject), inputs, found)
            bar.update(task, advance=1, description=subject.spec)
    lines = [f"{kind:<10} {dtype:<9} {largest:6.2f}  {spec}" for (kind, dtype), (largest, spec) in sorted(found.items())]
    kinds = sorted({kind for kind, _ in found})
    worst = {kind: max(v[0] for (k, _), v in found.items() if k == kind) for kind in kinds}
    lines += [f"c of {kind}: {_next_power(2 * worst[kind])}" for kind in kinds]
    console.show_lines(lines)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else INPUTS)
