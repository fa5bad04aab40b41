"""Accepted deviations: differences with a name, a reason, a bound and a witness, accepted until the witness passes."""

import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema

from relpos.conformance.errors import UsageError
from relpos.conformance.judge import LawFailure
from relpos.conformance.plan import Plan
from relpos.conformance.stated import check_input

SCHEMA = Path(__file__).with_name("deviations.schema.json")
ENDED = {"raised", "as drawn"}  # facts of a failure that has no number
EXAMPLE = "[[deviations]] name = …, law = …, reason = …, bound = …, units = …, witness = '…'"


@dataclass(frozen=True, kw_only=True)
class Deviation:
    """A difference from the definition that is known and accepted, until its witness passes.

    name     a few words, the same wherever it is mentioned
    law      the law that the witness fails, "L1"; also: laws that fail for the same reason
    reason   what the code does and why it stays, in a sentence
    bound    how far it goes, in a sentence
    units    the largest error it may cause, in units of the law's bound; None where there is no number (it raises)
    at       the inputs it is limited to, by setting or by field of a plan: {"num_heads": 0}, or several values in a list
    says     part of the law's message, so that another failure of the same law is not taken for this one
    witness  a pinned input on which it fails: the JSON behind `--case` of a failure

    One of units, at and says is needed: what is accepted must end somewhere. UsageError otherwise, or where the law or the
    witness makes no sense.
    """

    name: str
    law: str
    reason: str
    bound: str
    witness: str
    units: float | None = None
    at: Mapping[str, Any] = field(default_factory=dict)
    says: str = ""
    also: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for said in ("name", "law", "reason", "bound", "witness"):
            if not isinstance(value := getattr(self, said), str) or not value.strip():
                raise UsageError(f"deviation {self.name!r}: `{said}` must be a text that says something, got {value!r}.")
        if self.units is not None and not (isinstance(self.units, (int, float)) and self.units > 0):
            raise UsageError(f"deviation {self.name!r}: `units` must be a positive number, got {self.units!r}.")
        if self.units is None and not self.at and not self.says:
            raise UsageError(
                f"deviation {self.name!r} would accept every failure of {self.law}. Say how far it goes: `units` (largest "
                "error), `at` (inputs) or `says` (part of the message)."
            )
        self._check_names()

    def _check_names(self) -> None:
        from relpos.conformance.laws import laws  # laws are judged with deviations: not known while they are loaded

        there = [one.name for one in laws()]
        for name in (self.law, *self.also):
            if name not in there:
                raise UsageError(f"deviation {self.name!r}: there is no law {name!r}; the laws are {', '.join(there)}.")
        try:
            Plan.from_json(self.witness)
        except UsageError:
            raise UsageError(
                f"deviation {self.name!r}: `witness` must be the JSON that a failure printed behind --case, "
                f"got {self.witness!r}."
            ) from None

    @property
    def summary(self) -> str:
        """Name and reason, as they are shown wherever the deviation is accepted."""
        return f"{self.name} ({self.reason.rstrip('.')})"

    @property
    def document(self) -> dict[str, Any]:
        """As a file of deviations has it; what is left at its default is left out."""
        said = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name)}
        said |= {"witness": json.loads(self.witness)}
        return {name: list(v) if isinstance(v, tuple) else dict(v) if isinstance(v, Mapping) else v for name, v in said.items()}

    def accepts(self, failure: LawFailure, law_name: str, cls: type[Any]) -> bool:
        """Whether a failure is this one: at its law or beside it, at its inputs, in its words, and within its bound."""
        return self._names(failure, law_name) and self._reaches(failure.plan, cls) and self.within(failure)

    def within(self, failure: LawFailure) -> bool:
        """Whether an error stays in the declared bound; what raises has no size, and must be declared without one."""
        size = size_of(failure)
        return self.units is None or (size is not None and size <= self.units)

    def _names(self, failure: LawFailure, law_name: str) -> bool:
        """The law itself says what is on record; laws beside it say it in their own words, unless it raises."""
        if law_name == self.law or ENDED & set(failure.facts):
            return self.says in failure.says and law_name in (self.law, *self.also)
        return law_name in self.also

    def _reaches(self, plan: Plan, cls: type[Any]) -> bool:
        there = vars(plan) | {f.name: getattr(cls(**plan.settings), f.name) for f in fields(cls)} if self.at else {}
        return all(there[name] in (value if isinstance(value, (list, tuple)) else [value]) for name, value in self.at.items())


def size_of(failure: LawFailure) -> float | None:
    """The largest error of a failure in units of its bound; None where there is no number."""
    return None if failure.comparison is None else failure.comparison.largest


def staleness(deviation: Deviation, failure: LawFailure | None) -> str:
    """What is wrong with a deviation after its witness was tried (None: the law holds on it); empty while it is as declared."""
    name, law = f"the deviation {deviation.name!r}", deviation.law
    if failure is None:
        return f"{name} is stale: {law} holds on its witness; remove it"
    if deviation.says not in failure.says:
        return f"{name} is stale: on its witness {law} fails otherwise ({failure.says}); it is to say {deviation.says!r}"
    if not deviation.within(failure):
        size = size_of(failure)
        came = "it raised, which has no size" if size is None else f"{size:.3g}"
        return f"{name} exceeds its bound of {deviation.units:g} units on its witness ({came})"
    return ""


def of_witness(deviation: Deviation, says: str, shown: LawFailure | None = None) -> LawFailure:
    """The failure that a deviation itself is, once its witness no longer shows it."""
    comparison = None if shown is None else shown.comparison
    failure = LawFailure(says, plan=Plan.from_json(deviation.witness), comparison=comparison, facts={"witness": deviation.name})
    failure.law = deviation.law
    return failure


def unjudged(law_name: str, deviations: Iterable[Deviation], reason: str) -> LawFailure | None:
    """A deviation from a law that is not judged at all cannot be shown any more: it is stale."""
    for deviation in (d for d in deviations if d.law == law_name):
        says = f"the deviation {deviation.name!r} is stale: {law_name} is not judged here ({reason}); remove it"
        return of_witness(deviation, says)
    return None


def checked(deviations: Iterable[Deviation], cls: type[Any]) -> tuple[Deviation, ...]:
    """Deviations that make sense for a scheme: each name once, inputs that exist, a witness within them. UsageError."""
    found, known = tuple(deviations), {f.name for f in fields(Plan)} | {f.name for f in fields(cls)}
    for one in found:
        if not isinstance(one, Deviation):
            raise UsageError(f"deviations are relpos.Deviation objects, got {type(one).__name__}.")
        if [d.name for d in found].count(one.name) > 1:
            raise UsageError(f"two deviations are called {one.name!r}; name each once.")
        if unknown := set(one.at) - known:
            there = ", ".join(sorted(known - {"settings", "extra"}))
            raise UsageError(f"deviation {one.name!r}: `at` names {unknown.pop()!r}; an input has {there}.")
        check_input(f"deviation {one.name!r}: witness", Plan.from_json(one.witness))
        if not one._reaches(Plan.from_json(one.witness), cls):
            raise UsageError(f"deviation {one.name!r}: its witness lies outside of `at` ({dict(one.at)}).")
    return found


def read_deviations(path: Path) -> tuple[Deviation, ...]:
    """Deviations from a JSON or TOML file with one list, `deviations`; UsageError if it is none."""
    try:
        text = path.read_text(encoding="utf-8")
        document = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except OSError as error:
        raise UsageError(f"--deviations: {path} could not be read ({error.strerror}).") from None
    except ValueError as error:
        kind = "TOML" if path.suffix == ".toml" else "JSON"
        raise UsageError(f"--deviations: {path} is not {kind}: {error}.") from None
    try:
        jsonschema.validate(document, schema())
    except jsonschema.ValidationError as error:
        where = "/".join(map(str, error.absolute_path)) or "its top level"
        raise UsageError(f"--deviations: {path}: {error.message} at {where}. One reads: {EXAMPLE}") from None
    return tuple(_one(said) for said in document["deviations"])


@cache
def schema() -> dict[str, Any]:
    """The JSON schema of a file of deviations."""
    return json.loads(SCHEMA.read_text(encoding="utf-8"))


def _one(said: Mapping[str, Any]) -> Deviation:
    witness = said["witness"]
    text = witness if isinstance(witness, str) else json.dumps(witness, separators=(",", ":"))
    return Deviation(**{**said, "witness": text, "also": tuple(said.get("also", ()))})
