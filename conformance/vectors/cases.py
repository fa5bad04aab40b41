"""One vector: an input, what the definition answers, how far rounding may take an implementation, and what it catches."""

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from relpos.conformance.answers import prepared
from relpos.conformance.expected import Expected, expected, scale_of
from relpos.conformance.faults.api import Fault
from relpos.conformance.gradients import prescribed
from relpos.conformance.plan import Inputs, Plan
from relpos.conformance.precision import rounded
from relpos.conformance.subject import Subject
from relpos.conformance.vectors.candidates import Candidate
from relpos.conformance.vectors.flags import catches
from relpos.conformance.vectors.numbers import array, dtypes_of, listed, output
from relpos.spec.attention import located
from relpos.spec.contract import PositionError
from relpos.spec.coordinates import NOWHERE
from relpos.spec.positions import Positions

VECTORS = {"rotation": ("q", "k"), "bias": (), "embedding": ()}  # what a contribution reads besides positions and parameters


@dataclass(frozen=True)
class Case:
    """A vector before it has a number: arrays by name, and the faults it tells from the right answer."""

    candidate: Candidate
    level: str
    given: Inputs
    wants: dict[str, Expected]
    gradients: dict[str, Expected]
    cotangents: dict[str, np.ndarray]
    catches: tuple[str, ...]
    refusal: str = ""


def made(subject: Subject, candidate: Candidate, faults: list[Fault]) -> Case:
    """The case of a candidate; positions that the definition refuses are a case too."""
    given, level, refusal = prepared(subject, candidate.plan), subject.level, ""
    wants: dict[str, Expected] = {}
    try:
        wants = expected(given, level)
    except PositionError as error:
        refusal = str(error)
    case = Case(candidate, level, given, wants, {}, {}, tuple(catches(given, level, wants, faults)), refusal)
    return _with_gradients(case) if candidate.gradient and wants else case


def _with_gradients(case: Case) -> Case:
    given = case.given
    generator = np.random.default_rng(given.plan.seed + 1)
    cotangents = {n: rounded(generator.standard_normal(w.value.shape), given.plan.dtype) for n, w in case.wants.items()}
    names = (*_tensors(case), *sorted(given.params))
    gradients = prescribed(given, case.level, names, cotangents) if names else {}
    return replace(case, gradients=gradients, cotangents=cotangents if names else {})


def _tensors(case: Case) -> tuple[str, ...]:
    """The float inputs of a case besides parameters."""
    form = case.given.settings.form
    return {"attention": ("q", "k", "v"), "logits": ("q", "k"), "contribution": VECTORS.get(form, ())}[case.level]


def written(case: Case, name: str) -> dict[str, Any]:
    """The case as JSON."""
    plan, given = case.candidate.plan, case.given
    found = {
        "id": name,
        "level": case.level,
        "result": "refused" if case.refusal else "valid",
        "comment": case.refusal or plan.but(dtype=Plan().dtype).describe(),
        "laws": list(case.candidate.laws),
        "catches": list(case.catches),
        "dtypes": _dtypes(case),
        "settings": {n: list(v) if isinstance(v, tuple) else v for n, v in asdict(given.settings).items()},
        "inputs": _inputs(case),
        "outputs": {n: output(want) for n, want in case.wants.items()},
    }
    if case.gradients:
        found["cotangents"] = {n: array(g) for n, g in case.cotangents.items()}
        found["gradients"] = {n: output(want) for n, want in case.gradients.items()}
    return found


def _dtypes(case: Case) -> list[str]:
    tensors = [getattr(case.given, n) for n in _tensors(case)]
    arrays = [*tensors, *case.given.params.values(), *case.cotangents.values()]
    score = expected(case.given, "logits")["logits"].size.M if case.level == "attention" and case.wants else None
    return dtypes_of(arrays, [*case.wants.values(), *case.gradients.values()], score)


def _inputs(case: Case) -> dict[str, Any]:
    given, level = case.given, case.level
    alone = level == "contribution" and given.settings.form == "embedding"
    found: dict[str, Any] = {"batch": 1 if alone else given.plan.batch}
    if alone:
        found["positions"] = _positions(given.query_positions.row(0))
    else:
        found |= {f"{side}_positions": _positions(getattr(given, f"{side}_positions")) for side in ("query", "key")}
    if given.query_positions.axes == 1:
        found["sequence_length"] = _contexts(given, alone)
    found |= {n: array(getattr(given, n)) for n in _tensors(case)}
    if given.params:
        found["params"] = {n: array(p) for n, p in given.params.items()}
    if level != "contribution":
        found["scale"] = scale_of(given)
        found["scale_is_given"] = given.scale is not None
    if level == "attention":
        found["causal"] = given.causal
        found["mask"] = None if given.mask is None else array(given.mask)
    return found


def _positions(positions: Positions) -> dict[str, Any]:
    """Whole numbers; null for each coordinate of a token without a position."""
    values = positions.array()
    return {"shape": list(values.shape), "data": [None if p == NOWHERE and positions.axes > 1 else p for p in listed(values)]}


def _contexts(given: Inputs, alone: bool) -> list[int]:
    """The largest position + 1 of the whole context, one per sample."""
    sides = (given.query_positions,) if alone else (given.query_positions, given.key_positions)
    if getattr(given.settings, "length_dependent", False) and not alone:
        sides = located(given.settings, given.query_positions, given.key_positions, given.plan.batch)
    return [max(side.row(b).context() for side in sides) for b in range(1 if alone else given.plan.batch)]
