"""A law is a named object: one sentence, the subjects it applies to, and a check of one drawn input."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine

from relpos.conformance.plan import Plan
from relpos.conformance.scopes import Covers, Scope
from relpos.conformance.subject import Subject

Applies = Callable[[Subject], str | None]
Claimed = Callable[[Subject], str | None]
Attempt = Callable[[Plan, Callable[[], float]], float]  # notes the input, then does the work on it
Machine = Callable[[Subject, Attempt], type[RuleBasedStateMachine]]


def always(subject: Subject) -> None:
    """Applies to everything; claimed by everything."""
    del subject


@dataclass(frozen=True)
class Law:
    """One law.

    name       "L1"
    title      a few words for the table
    slug       one to three words for ids, "chunked-decode"
    why        why it matters to somebody who trains or serves a model
    statement  the law in one sentence
    applies    None, or why it does not apply to a subject
    claimed    None, or which claim would switch it on
    plans      strategy of inputs for a subject
    pinned     inputs that are always tried: edges where faults hide
    exhausted  every input of a small scope, the smallest first; covers says in words what such a walk went through
    check      largest error in units of the bound; raises LawFailure
    share      how many of a profile's examples it needs, as a fraction
    rare       inputs that only the thorough profile pays for
    note       what a pass does not cover on this machine, in a few words
    heavy      it measures or compiles, so the profiles below default leave it out unless it is asked for
    machine    for inputs that are histories: a state machine that draws them step by step; `plans` then draws only the rest
    shorter    what such an input may be without: a history that Hypothesis has shrunk still has steps that do nothing
    smaller    of a heavy law, the few inputs that are tried in place of a failing one, the smallest first: each takes seconds
    """

    name: str
    title: str
    slug: str
    why: str
    statement: str
    check: Callable[[Subject, Plan], float]
    plans: Callable[[Subject], st.SearchStrategy[Plan]]
    applies: Applies = always
    claimed: Claimed = always
    pinned: Callable[[Subject], list[Plan]] = lambda subject: []
    exhausted: Callable[[Subject, Scope], list[Plan]] = lambda subject, scope: []
    covers: Covers = lambda plans: ""
    rare: Callable[[Subject], list[Plan]] = lambda subject: []
    note: Callable[[Subject], str] = lambda subject: ""
    share: float = 1.0
    heavy: bool = False
    machine: Machine | None = None
    shorter: Callable[[Plan], Iterable[Plan]] | None = None
    smaller: Callable[[Subject, Plan], Iterable[Plan]] = lambda subject, plan: ()

    def __reduce__(self) -> tuple[Any, ...]:
        """Laws hold functions: between processes they travel by name."""
        from relpos.conformance.laws import law

        return law, (self.name,)

    @property
    def number(self) -> int:
        """Its place in the list of laws."""
        return int(self.name[1:])


def at_levels(*levels: str) -> Applies:
    """Applies where the implementation answers at one of these levels."""

    def reason(subject: Subject) -> str | None:
        return None if subject.level in levels else f"judged at {' and '.join(levels)} level, this answers at {subject.level}"

    return reason


def first_reason(*rules: Callable[[Subject], str | None]) -> Applies:
    """The first reason any rule gives."""

    def reason(subject: Subject) -> str | None:
        return next((r for r in (rule(subject) for rule in rules) if r is not None), None)

    return reason


def settings_of(subject: Subject, plan: Plan) -> Any:
    """The settings object of a plan."""
    return subject.cls(**plan.settings)
