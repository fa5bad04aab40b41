"""A verdict over all laws: conforms, does not conform, undecided or incomplete; and what would change it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from itertools import combinations
from time import perf_counter
from typing import Any

from relpos.conformance.diagnosis import Diagnosis, diagnose
from relpos.conformance.errors import AdapterError
from relpos.conformance.laws.base import Law
from relpos.conformance.profiles import PROFILES, Profile
from relpos.conformance.runner import ACCEPTED, FAIL, PASS, LawResult, replay, run_law
from relpos.conformance.settings import alternatives, legal, sized
from relpos.conformance.smoke import smoke
from relpos.conformance.subject import Subject

CONFORMS, DOES_NOT, BROKEN, UNDECIDED, INCOMPLETE = "conforms", "does not conform", "adapter broken", "undecided", "incomplete"
EXIT_CODES = {CONFORMS: 0, DOES_NOT: 1, BROKEN: 2, UNDECIDED: 3, INCOMPLETE: 4}


@dataclass(frozen=True)
class Verdict:
    """What came of judging one subject.

    assumed    defaults that nobody stated, in words
    elsewhere  settings, as `--set` takes them, under which every law passes
    passes_if  claims under which every law passes
    unjudged   laws that were asked for and not reached
    """

    subject: Subject
    profile: Profile
    results: tuple[LawResult, ...]
    seconds: float
    assumed: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()
    passes_if: tuple[str, ...] = ()
    diagnosis: Diagnosis | None = None
    interrupted: bool = False
    unjudged: tuple[str, ...] = ()
    seed: int | None = None

    @property
    def failures(self) -> tuple[LawResult, ...]:
        """Results of the laws that do not hold."""
        return tuple(r for r in self.results if r.verdict == FAIL)

    @property
    def deviating(self) -> tuple[LawResult, ...]:
        """Results of the laws that fail as an accepted deviation says, and not otherwise."""
        return tuple(r for r in self.results if r.verdict == ACCEPTED)

    @property
    def word(self) -> str:
        """The verdict in words."""
        if self.interrupted:
            return INCOMPLETE
        if self.failures:
            return UNDECIDED if self.elsewhere else DOES_NOT
        return CONFORMS if any(r.verdict in (PASS, ACCEPTED) for r in self.results) else INCOMPLETE

    @property
    def exit_code(self) -> int:
        """The process's exit code."""
        return EXIT_CODES[self.word]


Failures = tuple[LawResult, ...]
Progress = Callable[[Law, LawResult | None], None]


def judge(
    subject: Subject,
    profile: Profile,
    *,
    only: Iterable[Law] | None = None,
    seed: int | None = None,
    progress: Progress = lambda law, result: None,
    explain: bool = True,
) -> Verdict:
    """Smoke gate, laws, and on failure what else would fit. Interrupted, it keeps what it has."""
    started = perf_counter()
    subject = smoke(subject)
    results: list[LawResult] = []
    verdict = Verdict(subject, profile, (), 0.0, assumptions(subject), seed=seed)
    try:
        for law in profile.laws() if only is None else only:
            progress(law, None)
            results.append(run_law(law, subject, profile, seed_number=seed))
            progress(law, results[-1])
        verdict = replace(verdict, results=tuple(results), seconds=perf_counter() - started)
        return explained(verdict) if verdict.failures and explain else verdict
    except KeyboardInterrupt:
        return replace(verdict, results=tuple(results), seconds=perf_counter() - started, interrupted=True)


def assumptions(subject: Subject) -> tuple[str, ...]:
    """Named settings left at their default, and what was read off the signature."""
    values = subject.cls(**sized(subject.cls, subject.fixed))
    names = {name for name, _ in alternatives(subject.cls, subject.fixed)}
    found = [f"{n}={getattr(values, n)}" for n in sorted(names) if n not in subject.free and n not in subject.fixed]
    found.append(f"level={subject.level}")
    found.append(f"positions={subject.positions}" + (" (one length)" if subject.one_length else ""))
    if subject.card.softmax == "any" and subject.form in ("bias", "logits") and subject.level != "attention":
        found.append("softmax=any (exact values)")
    if subject.arrays == "numpy":
        found.append("given NumPy arrays (it refuses torch tensors)")
    if subject.unbound:
        found.append(f"left at their default: {', '.join(subject.unbound)} (--claim binds=… has them judged)")
    return tuple(found)


def explained(verdict: Verdict) -> Verdict:
    """The verdict with what else would fit: settings, claims, named mistakes."""
    subject, found = verdict.subject, diagnose(verdict.subject)
    failures = verdict.failures
    elsewhere = tuple(_passing_settings(subject, failures))
    if found.equal and not elsewhere and (only := _only_at(subject, failures)):
        said = " ".join(f"--set {one}" for one in only)
        hint = f"every law passes at {' and '.join(only)}, and not at other values; if it is made for these alone, say {said}"
        found = replace(found, hint=hint)
    return replace(verdict, elsewhere=elsewhere, passes_if=tuple(_passing_claims(subject, failures)), diagnosis=found)


def _only_at(subject: Subject, failures: Failures) -> list[str]:
    """The usual values of numbers that vary, if they are all that the implementation is right at."""
    drawn = [name for name in subject.free if name in getattr(subject.cls, "draws", {})]
    usual = {name: value for name, value in sized(subject.cls, subject.fixed).items() if name in drawn}
    usual |= {f.name: f.default for f in fields(subject.cls) if f.name in drawn and f.name not in usual}
    if not usual or not _all_pass(subject.but(given={**subject.given, **usual}), failures):
        return []
    return [f"{name}={value}" for name, value in usual.items()]


def _passing_settings(subject: Subject, failures: Failures) -> list[str]:
    """Named settings, alone or else in pairs, under which every law passes."""
    told = {*subject.free, *subject.fixed}  # a setting that was given is not open
    singles = [(n, v) for n, v in alternatives(subject.cls, subject.fixed) if n not in told]
    for size in (1, 2):
        found = []
        for choice in combinations(singles, size):
            given = {**subject.given, **dict(choice)}
            distinct = len({n for n, _ in choice}) == size
            meant = distinct and legal(subject.cls, sized(subject.cls, {**subject.card.settings, **given}))
            if meant and _all_pass(subject.but(given=given), failures):
                found.append(" ".join(f"{n}={v}" for n, v in choice))
        if found:
            return found
    return []


def _passing_claims(subject: Subject, failures: Failures) -> list[str]:
    """Other readings of the adapter under which every law passes; never a pass by themselves."""
    tries: list[tuple[str, Any]] = []
    if {"q", "x"} & subject.asks:
        tries.append(("layout", "blhd" if subject.card.layout == "bhld" else "bhld"))
    if {"mask", "padding_mask"} & subject.asks:
        tries += [("mask", sense) for sense in ("true_keeps", "true_drops", "additive") if sense != subject.card.mask]
    if (subject.level == "attention" or subject.form in ("bias", "logits")) and subject.card.softmax == "any":
        tries.append(("softmax", "causal"))
    if subject.level == "attention" and subject.positions == "contiguous":
        tries += [("corner", kind) for kind in ("bottom-right", "top-left") if kind != subject.card.corner]
    return [f"{n}={v}" for n, v in tries if _all_pass(subject.but(card=subject.card.with_claims({n: v})), failures)]


def _all_pass(subject: Subject, failures: Failures) -> bool:
    """Every law at the smoke profile, then at the quick one, then what failed: cheap to refuse, not easy to pass."""
    try:
        subject = smoke(subject)
        for profile in (PROFILES["smoke"], PROFILES["quick"]):
            results = (run_law(law, subject, profile) for law in profile.laws())
            if any(r.verdict == FAIL for r in results):
                return False
        return all(_holds_now(subject, result) for result in failures)
    except (AdapterError, ValueError):
        return False


def _holds_now(subject: Subject, result: LawResult) -> bool:
    """Whether the input on which a law failed passes it as the subject is read now; not where the law no longer applies."""
    law, failure = result.law, result.failure
    if failure is None or "witness" in failure.facts:
        return True  # it is no input that can be tried again here: what ended or held up the process
    if law.applies(subject) or law.claimed(subject):
        return False
    plan = failure.plan.but(settings={**failure.plan.settings, **subject.fixed})
    return replay(law, subject, plan).verdict != FAIL
