"""One history: steps on one instance, each answer judged against a fresh instance with the same parameters."""

from contextlib import nullcontext
from typing import Any

import numpy as np
import torch

from relpos.conformance.answers import prepared
from relpos.conformance.calling import Instance, matched_parameters, own_parameters
from relpos.conformance.errors import AdapterError, Raised, Refused
from relpos.conformance.handing import SCRIBBLE, Hands
from relpos.conformance.history_answers import gradients, values
from relpos.conformance.history_calls import Answered, answered
from relpos.conformance.history_steps import BESIDE, OVERWRITE, UPDATES, Step, checked, plan_of, told
from relpos.conformance.judge import LawFailure, demand
from relpos.conformance.loading import compiles, reload
from relpos.conformance.plan import Inputs, Plan
from relpos.conformance.precision import rounded, torch_dtype
from relpos.conformance.reading import to_numpy
from relpos.conformance.subject import Subject

DECLINED = (Raised, Refused, AdapterError)
# Steps of a call that no other law has made: where a fresh instance fails at them too, they say nothing of its history.
UNUSUAL = {"under", "train", "reused", "more", "device", "overwrite"}


class History:
    """An instance with a past. `take` makes a step and judges what comes of it; LawFailure tells the whole history."""

    def __init__(self, subject: Subject, plan: Plan) -> None:
        # What a module keeps for all its instances must not come from another history.
        self._compiles = compiles(subject.target)
        again = None if self._compiles else reload(subject.spec, subject.target)
        self.subject = subject if again is None else subject.but(target=again)
        self.base, self.largest = plan.but(extra={}), 0.0
        self.steps: tuple[Step, ...] = ()
        given = prepared(self.subject, self.base)
        self.params, self.hands, self._at = dict(given.params), Hands(), (self.base.dtype, subject.device)
        self.instance, self.learned = self._built(given)
        self._answers: list[tuple[Plan, int, Answered]] = []
        self._updates = 0

    def take(self, step: Step) -> float:
        """Make a step; the largest error so far, in units."""
        do, self.steps = checked(step), (*self.steps, step)
        if do in UPDATES and not self.learned:
            return self.largest  # with these settings nothing is learned
        if do == OVERWRITE:
            self.hands.overwrite()
            self._put_back()
        elif do in UPDATES:
            self._update(do, step.get("seed", 1))
        else:
            self._call(step, own=do == BESIDE)
        return self.largest

    def _failure(self, says: str) -> LawFailure:
        return LawFailure(f"{told(self.base, self.steps)}: {says}", plan=self.base.but(extra={"steps": self.steps}))

    def _built(self, given: Inputs) -> tuple[Instance, dict[str, torch.Tensor]]:
        """The instance, and the parameters that outlive a call: the module's, or those that the caller hands over."""
        subject, instance, learned = self.subject, Instance(self.subject, given), {}
        if owned(subject) and given.params:
            own_parameters(instance.target, given, subject)
            instance = instance.revived(instance.target)  # from now on its parameters are its own
            learned = matched_parameters(instance.target, given, subject)
        elif subject.arrays == "torch":
            asks = subject.called_with.ours
            learned = {n: torch.from_numpy(a.copy()) for n, a in given.params.items() if n in asks or "params" in asks}
            self.hands.parameters = learned
            self.hands.move(*self._at)
        instance.hand, instance.through = self.hands, self.hands.through
        return instance, learned

    def _call(self, step: Step, *, own: bool) -> None:
        plan = plan_of(self.base, step)
        given = prepared(self.subject, plan)
        kept = not own and plan.settings == self.base.settings
        given = given.but(params=self._parameters(plan, step)) if kept else given
        self.hands.call(kept=kept, reused=bool(step.get("reused")))
        try:
            instance = self._beside(given) if own else self.instance
            got = answered(instance, given, step)
        except DECLINED as error:
            return self._declined(error, given, step)
        if instance.disturbed:
            raise self._failure(f"the call changes {' and '.join(sorted(instance.disturbed))} for the whole process")
        self._unchanged(own)
        self._judge(given, step, got)
        self._answers.append((plan, -1 if own else self._updates, got))
        return None

    def _parameters(self, plan: Plan, step: Step) -> dict[str, np.ndarray]:
        """The parameters as they are by now, brought to the dtype and device of a call."""
        at, target = (plan.dtype, step.get("device", self.subject.device)), self.instance.target
        if at != self._at:
            self.params = {n: rounded(a, at[0]) for n, a in self.params.items()}
            self.hands.move(*at)
            if isinstance(target, torch.nn.Module):
                target.to(at[1], torch_dtype(at[0]) if owned(self.subject) and self.learned else None)
        self._at = at
        return self.params

    def _beside(self, given: Inputs) -> Instance:
        other = Instance(self.subject, given)
        other.hand, other.through = self.hands, self.hands.through
        return other

    def _fresh(self, given: Inputs) -> Instance | None:
        again = reload(self.subject.spec, self.subject.target)
        if again is None and self.subject.built_with is None:
            return None
        return Instance(self.subject if again is None else self.subject.but(target=again), given)

    def _answered(self, fresh: Instance, given: Inputs, step: Step) -> Answered:
        """What a fresh instance answers; one that compiles itself does so uncompiled, which is the same and not slower."""
        with torch.compiler.set_stance("force_eager") if self._compiles else nullcontext():
            return answered(fresh, given, step)

    def _declined(self, error: Exception, given: Inputs, step: Step) -> None:
        """What a fresh instance declines as well is no matter of history."""
        try:
            fresh = self._fresh(given)
            if fresh is not None:
                self._answered(fresh, given, step)
        except DECLINED:
            fresh = None
        if fresh is not None:
            said = str(error).strip().splitlines() or [type(error).__name__]
            raise self._failure(f"it raises {said[0]}, where a fresh instance answers") from None
        if not UNUSUAL & set(step):
            raise error

    def _unchanged(self, own: bool) -> None:
        for name in self.hands.changed():
            raise self._failure(f"the call changes its input `{_spoken(name)}` in place")
        for name, tensor in ({} if own else self.learned).items():
            if not np.array_equal(to_numpy(tensor), self.params[name], equal_nan=True):
                raise self._failure(f"the call changes its parameter `{name}`")

    def _judge(self, given: Inputs, step: Step, got: Answered) -> None:
        # A mode changes nothing, but for what autocast rounds and dropout draws.
        like = {n: step[n] for n in ("train", "under", "device") if n in step}
        plain = {n: v for n, v in like.items() if v not in ("training", "inference_mode")}
        dtype = "bfloat16" if step.get("under") == "autocast" and given.plan.dtype == "float32" else given.plan.dtype
        want = self._reference(given, plain)
        if want is None:
            return
        for found in values(self.subject, given, dtype, got, want):
            told = self._failure("" if found.ok else self._instead(given.plan, got))
            self.largest = max(self.largest, demand(found, told.says, told.plan))
        if got.gradients and (want := self._reference(given, like)) is not None:
            for name, found in gradients(self.subject, given, got, want):
                none = not got.gradients[name].any() and want.gradients[name].any()
                said = f"no gradient reaches `{_spoken(name)}`" if none else f"the gradient of `{_spoken(name)}` is off"
                told = self._failure(f"{said}, where a fresh instance is right")
                self.largest = max(self.largest, demand(found, told.says, told.plan))

    def _reference(self, given: Inputs, like: Step) -> Answered | None:
        """What a fresh instance answers; where none can be had, what the same call was answered before."""
        fresh = self._fresh(given)
        if fresh is not None:
            return self._answered(fresh, given, like)
        if "under" in like:
            return None
        return next((a for plan, updates, a in self._answers if plan == given.plan and updates == self._updates), None)

    def _instead(self, plan: Plan, got: Answered) -> str:
        """What a wrong answer is."""
        if any(value.size and np.all(value == SCRIBBLE) for value in got.values.values()):
            return "the answer is what the returned one was overwritten with"
        for number, (then, updates, past) in enumerate(self._answers, 1):
            if all(np.array_equal(got.values[n], a) for n, a in past.values.items()):
                old = then == plan and updates != self._updates
                return "the answer is still that of the old parameters" if old else f"the answer is still that of call {number}"
        return "the answer is not that of a fresh instance"

    def _update(self, how: str, seed: int) -> None:
        """Other numbers in the same parameters, by one of the ways in which they come in practice."""
        generator = np.random.default_rng(seed)
        self._updates += 1
        drawn = {n: torch.from_numpy(generator.standard_normal(t.shape)).to(t) for n, t in self.learned.items()}
        if how == "optimiser step":
            self._optimise(drawn)
        elif how == "load_state_dict" and isinstance(self.instance.target, torch.nn.Module) and owned(self.subject):
            self._load(drawn)
        else:
            self._write(drawn)
        self.params = {**self.params, **{n: to_numpy(t) for n, t in self.learned.items()}}

    def _write(self, numbers: dict[str, Any]) -> None:
        with torch.no_grad():
            for name, tensor in self.learned.items():
                tensor.copy_(numbers[name])

    def _optimise(self, gradient: dict[str, torch.Tensor]) -> None:
        """A step as training makes it: in train mode, and back in eval mode for the next call."""
        module = self.instance.target if self.subject.kind == "module" else None
        modes = isinstance(module, torch.nn.Module)
        _ = module.train() if modes else None
        with torch.no_grad():  # what torch.optim.SGD does; to import that takes seconds
            for name, tensor in self.learned.items():
                tensor.add_(gradient[name], alpha=-1.0)
        _ = module.eval() if modes else None

    def _load(self, drawn: dict[str, torch.Tensor]) -> None:
        """As from a checkpoint of another instance with those parameters; what is larger or smaller there stays."""
        given = prepared(self.subject, self.base)
        other = Instance(self.subject, given)
        own_parameters(other.target, given.but(params={n: to_numpy(t) for n, t in drawn.items()}), self.subject)
        saved, mine = other.target.state_dict(), self.instance.target.state_dict()
        fits = {n: v for n, v in saved.items() if n in mine and v.shape == mine[n].shape}
        self.instance.target.load_state_dict({**mine, **fits})

    def _put_back(self) -> None:
        """A view of a parameter is no cache: what was written through it is undone."""
        for name, tensor in self.learned.items():
            if not np.array_equal(to_numpy(tensor), self.params[name], equal_nan=True):
                self._write({**{n: t.clone() for n, t in self.learned.items()}, name: torch.from_numpy(self.params[name])})


def owned(subject: Subject) -> bool:
    """Whether it is a module whose learned tensors stay in it from call to call."""
    return subject.kind == "module" and subject.owns_parameters


def _spoken(name: str) -> str:
    return name.removesuffix(" of the query").replace("x of the key", "x (a key)")
