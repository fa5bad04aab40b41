"""Draws histories: a state machine whose rules are the steps of `history_steps.py`, judged one by one as they come."""

from collections.abc import Callable
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from relpos.conformance.history import History
from relpos.conformance.history_drawing import Choices, nearby, others, otherwise_set
from relpos.conformance.history_steps import BESIDE, CALL, OVERWRITE, Step, call, plan_of
from relpos.conformance.laws.base import Attempt
from relpos.conformance.plan import Plan
from relpos.conformance.strategies import plans
from relpos.conformance.subject import Subject

SEEDS = st.integers(1, 3)


class HistoryMachine(RuleBasedStateMachine):
    """One history of one subject; `attempt` notes every step before it is made."""

    subject: ClassVar[Subject]
    choices: ClassVar[Choices]
    modes: ClassVar[st.SearchStrategy[dict[str, Any]]]
    attempt: ClassVar[Callable[..., float]]

    def __init__(self) -> None:
        super().__init__()
        self.history: History | None = None
        self.calls: list[Step] = []

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        """A first call on a new instance."""
        self.base = data.draw(plans(self.subject, contents=("normal",)))
        self.attempt(self.base, self._open)
        self._call(data, data.draw(self.modes), self.base)

    @rule(data=st.data())
    def elsewhere(self, data: st.DataObject) -> None:
        """A call that is like an earlier one but for a single thing."""
        before = plan_of(self.base, data.draw(st.sampled_from(self.calls)))
        plan = data.draw(nearby(self.subject, before))
        self._call(data, data.draw(self.modes), plan)

    @rule(data=st.data())
    def other(self, data: st.DataObject) -> None:
        """A call at other lengths, positions, content, dtype, mask, scale."""
        plan = data.draw(others(self.subject, self.base))
        self._call(data, data.draw(self.modes), plan)

    @rule(data=st.data())
    def again(self, data: st.DataObject) -> None:
        """An earlier call once more."""
        before = plan_of(self.base, data.draw(st.sampled_from(self.calls)))
        self._call(data, data.draw(self.modes), before)

    @precondition(lambda self: self.choices.updates)
    @rule(data=st.data(), seed=SEEDS)
    def update(self, data: st.DataObject, seed: int) -> None:
        """A call, other numbers in the same parameters, and the same call."""
        self._between(data, {"do": data.draw(st.sampled_from(self.choices.updates)), "seed": seed})

    @precondition(lambda self: self.subject.kind != "decoder")
    @rule(data=st.data())
    def overwrite(self, data: st.DataObject) -> None:
        """What a call returned belongs to the caller, who writes over it; then the same call."""
        self._between(data, {"do": OVERWRITE})

    @precondition(lambda self: self.subject.built_with is not None)
    @rule(data=st.data())
    def beside(self, data: st.DataObject) -> None:
        """A call on another instance: what a class or module keeps for all would show."""
        before = plan_of(self.base, data.draw(st.sampled_from(self.calls)))
        alike = otherwise_set(self.subject, before)
        any_other = plans(self.subject, contents=("normal",))
        self._take(call(self.base, data.draw(st.one_of(st.sampled_from(alike), any_other) if alike else any_other), do=BESIDE))

    def _open(self) -> float:
        self.history = History(self.subject, self.base)
        return 0.0

    def _call(self, data: st.DataObject, how: dict[str, Any], plan: Plan) -> None:
        step = call(self.base, plan, **{**how, "reused": bool(self.calls) and how.get("reused", False)})
        self.calls.append(step)
        self._take(step)

    def _between(self, data: st.DataObject, step: Step) -> None:
        """A step between two calls that are alike, the first of which may have been made already."""
        like = data.draw(st.sampled_from((*self.calls, {"do": CALL})))
        if self.history is not None and (not self.history.steps or self.history.steps[-1] != like):
            self._take(like)
        self._take(step)
        self._take(like)

    def _take(self, step: Step) -> None:
        history = self.history
        if history is not None:  # None: it declined to be built
            plan = self.base.but(extra={"steps": (*history.steps, step)})
            self.attempt(plan, lambda: history.take(step))


def machine(subject: Subject, attempt: Attempt) -> type[HistoryMachine]:
    """The machine of one subject."""
    choices = Choices.of(subject)
    own = {"subject": subject, "choices": choices, "modes": choices.modes(), "attempt": staticmethod(attempt)}
    return type("Histories", (HistoryMachine,), own)
