"""All vectors of a scheme: chosen inputs first, then whatever tells one more mistake from the right answer."""

import hashlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import relpos
from relpos.conformance.certificate import scheme_hash
from relpos.conformance.errors import UsageError
from relpos.conformance.expected import forms_levels
from relpos.conformance.faults.api import Fault, Planted
from relpos.conformance.faults.registry import faults
from relpos.conformance.precision import DTYPES
from relpos.conformance.settings import legal, sized
from relpos.conformance.subject import Subject
from relpos.conformance.tolerance import SUMMED_IN_C, C, units
from relpos.conformance.vectors.candidates import chosen, searched, subject_of
from relpos.conformance.vectors.cases import Case, made, written
from relpos.conformance.vectors.flags import told
from relpos.spec.registry import schemes, settings_class

FORMAT = 1
SEARCHED = 60  # inputs tried for a mistake that nothing has shown yet
RULE = "|got - value| <= c[kind] * (max(1, sqrt(n / {})) * u * M + u_position * P + n * eta), per element; got as float64"


@dataclass(frozen=True)
class Request:
    """What was asked for.

    fixed     settings that do not vary
    count     drawn inputs per level, besides pinned ones
    number    the seed
    brief     one pinned input per law, and no search for inputs that tell more mistakes apart
    """

    scheme: str
    levels: tuple[str, ...]
    fixed: dict[str, Any]
    count: int
    number: int
    brief: bool = False


def key_of(request: Request, kinds: tuple[str, ...]) -> str:
    """Changes with whatever may change the files: what is asked for, definition, laws, faults and this package."""
    root = Path(__file__).parents[1]
    sources = sorted(p for part in ("vectors", "faults", "derivatives", "laws") for p in (root / part).glob("*.py"))
    digest = hashlib.sha256("\n".join([repr((request, kinds, relpos.__version__)), scheme_hash(request.scheme)]).encode())
    for path in [*sources, *sorted(root.glob("*.py"))]:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def levels_of(scheme: str, level: str | None) -> tuple[str, ...]:
    """The levels of a scheme, or the one asked for; UsageError where it has none of that name."""
    there = forms_levels(settings_class(scheme))
    if level is None:
        return there
    if level not in there:
        who = [name for name in schemes() if level in forms_levels(settings_class(name))]
        raise UsageError(
            f"--level {level}: {scheme} has the levels {' and '.join(there)}. {level} is a level of {', '.join(who)}; "
            "name them with --scheme."
        )
    return (level,)


def check_settings(scheme: str, fixed: dict[str, Any]) -> None:
    """Raise the scheme's own complaint where settings have no meaning."""
    cls = settings_class(scheme)
    if not legal(cls, sized(cls, fixed)):
        cls(**sized(cls, fixed))


def document(request: Request) -> dict[str, Any]:
    """The vectors of one scheme, as written to its JSON file."""
    cases = [case for level in request.levels for case in _cases(request, level)]
    numbers: dict[str, int] = {}
    listed = []
    for case in cases:
        numbers[case.level] = numbers.get(case.level, 0) + 1
        listed.append(written(case, f"{request.scheme}-{case.level}-{numbers[case.level]:03}"))
    return {**header(request), **_coverage(request, cases), "cases": listed}


def header(request: Request) -> dict[str, Any]:
    """What the file is, and the rule by which answers are compared."""
    return {
        "format": "relpos vectors",
        "format_version": FORMAT,
        "relpos": relpos.__version__,
        "scheme": request.scheme,
        "form": settings_class(request.scheme).form,
        "scheme_hash": scheme_hash(request.scheme),
        "levels": list(request.levels),
        "set": {n: list(v) if isinstance(v, tuple) else v for n, v in request.fixed.items()},
        "seed": request.number,
        "count": request.count,
        "brief": request.brief,
        "tolerance": {
            "rule": RULE.format(SUMMED_IN_C),
            "summed_in_c": SUMMED_IN_C,
            "c": C,
            "dtypes": {dtype: _roundoffs(dtype) for dtype in DTYPES},
        },
    }


def _roundoffs(dtype: str) -> dict[str, float]:
    found = asdict(units(dtype))
    return {"u": found["u"], "u_position": found["u_position"], "eta": found["eta"]}


def _cases(request: Request, level: str) -> list[Case]:
    subject = subject_of(request.scheme, level, request.fixed)
    known = told(request.scheme, level)
    cases = []
    for candidate in chosen(subject, count=request.count, number=request.number, brief=request.brief):
        try:
            cases.append(made(subject, candidate, known))
        except ValueError:
            continue  # a pinned input that must be refused
    return cases if request.brief else cases + list(_more(request, subject, known, cases))


def _more(request: Request, subject: Subject, known: list[Fault], cases: list[Case]) -> Iterator[Case]:
    """For every mistake that no case shows, the first input that does."""
    shown = {name for case in cases for name in case.catches}
    for fault in known:
        if fault.name in shown:
            continue
        case = _showing(request, subject.level, fault, known)
        if case is not None:
            shown |= set(case.catches)
            yield case


def _showing(request: Request, level: str, fault: Fault, known: list[Fault]) -> Case | None:
    claims = subject_of(request.scheme, level, {**fault.settings, **request.fixed}, dict(fault.claims))
    for _, candidate in zip(range(SEARCHED), searched(request.scheme, level, fault, request.fixed), strict=False):
        try:
            alone = made(claims, candidate, [fault])
            if alone.catches:
                return made(claims, candidate, known)
        except ValueError:
            continue
    return None


def _coverage(request: Request, cases: list[Case]) -> dict[str, Any]:
    every = {f.name: f for level in request.levels for f in told(request.scheme, level)}
    shown = {name for case in cases for name in case.catches}
    planted = [f for f in faults(request.scheme) if isinstance(f, Planted)]
    return {
        "faults": {
            name: {"says": f.says, "law": f.law, "told_apart": name in shown, **({"reports": list(f.cases)} if f.cases else {})}
            for name, f in every.items()
        },
        "coverage": {
            "told_apart": sum(name in shown for name in every),
            "faults": len(every),
            "missed": [name for name in every if name not in shown],
            "unmeasured": {f.name: f.says for f in planted},
        },
    }
