"""The steps of a history, as data that a case on the command line can hold, and what a message calls them.

    {"do": "call", "plan": {"offset": 3}, "under": "training", "train": true, "reused": true, "more": "need_weights"}
    {"do": "beside", "plan": …}             the same on a second instance, built for it
    {"do": "optimiser step" | "in-place write" | "load_state_dict", "seed": 1}
    {"do": "overwrite"}                     what the last call returned is written over

A call's plan holds what differs from the plan of the history; nothing said means no_grad, eval mode and new tensors.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

from relpos.conformance.errors import UsageError
from relpos.conformance.plan import Plan

CALL, BESIDE, OVERWRITE = "call", "beside", "overwrite"
UPDATES = {
    "optimiser step": "an optimiser step",
    "in-place write": "its parameters written in place",
    "load_state_dict": "load_state_dict",
}
UNDER = {
    "no_grad": "",
    "inference_mode": "under inference_mode",
    "training": "with gradients, and backward",
    "autocast": "under autocast to bfloat16",
}
# Fields whose names say less than other words, or nothing beside the lengths and settings that are told.
UNSAID = ("settings", "query_length", "key_length", "seed", "extra")

Step = Mapping[str, Any]


def call(base: Plan, plan: Plan, *, do: str = CALL, **how: Any) -> dict[str, Any]:
    """The step of one call; `how` is under, train, reused, more, device."""
    changed = {f.name: getattr(plan, f.name) for f in fields(plan) if getattr(plan, f.name) != getattr(base, f.name)}
    said = {"plan": changed, **how}
    return {"do": do, **{name: value for name, value in said.items() if value and value != "no_grad"}}


def plan_of(base: Plan, step: Step) -> Plan:
    """The plan of a call; UsageError if it says what no plan has."""
    try:
        return base.but(**{"extra": {}, **step.get("plan", {})})
    except TypeError as error:
        raise UsageError(f"--case: a step of the history changes what no input has ({error}).") from None


def checked(step: Step) -> str:
    """What a step does; UsageError if it is none."""
    do, under = step.get("do"), step.get("under", "no_grad")
    if do not in (CALL, BESIDE, OVERWRITE, *UPDATES) or under not in UNDER:
        there = f"`do` one of {', '.join((CALL, BESIDE, OVERWRITE, *UPDATES))} and `under` one of {', '.join(UNDER)}"
        raise UsageError(f"--case: a step of the history has {there}; got {dict(step)}.")
    return str(do)


def shorter(plan: Plan) -> Iterator[Plan]:
    """The same history told from its first call, without one step, with one call made in a plainer way or changed less."""
    steps = tuple(plan.extra.get("steps", ()))
    if steps and steps[0].get("plan"):
        yield _rebased(plan, steps)
    for n in range(len(steps)):
        yield plan.but(extra={"steps": (*steps[:n], *steps[n + 1 :])})
    for n, step in enumerate(steps):
        for name in sorted(set(step) - {"do", "seed"}):
            plainer = {key: value for key, value in step.items() if key != name}
            yield plan.but(extra={"steps": (*steps[:n], plainer, *steps[n + 1 :])})
        for name in sorted(step.get("plan", {})):
            less = {**step, "plan": {key: value for key, value in step["plan"].items() if key != name}}
            yield plan.but(extra={"steps": (*steps[:n], less, *steps[n + 1 :])})


def _rebased(plan: Plan, steps: tuple[Step, ...]) -> Plan:
    base, old = plan_of(plan, steps[0]), plan.but(extra={})
    told = []
    for step in steps:
        how = {key: value for key, value in step.items() if key not in ("do", "plan")}
        calls = step["do"] in (CALL, BESIDE)
        told.append(call(base, plan_of(old, step), do=step["do"], **how) if calls else step)
    return base.but(extra={"steps": tuple(told)})


def told(base: Plan, steps: Sequence[Step]) -> str:
    """A history in words."""
    words: list[str] = []
    before: list[tuple[str, Plan]] = []
    for step in steps:
        if step["do"] == OVERWRITE:
            words.append("what it returned overwritten")
        elif step["do"] in UPDATES:
            words.append(UPDATES[step["do"]])
        else:
            key = (step["do"], plan_of(base, step))
            words.append(", ".join([_which(base, key, before), *_how(step)]))
            before.append(key)
    return "; ".join(words)


def _which(base: Plan, key: tuple[str, Plan], before: list[tuple[str, Plan]]) -> str:
    if before and before[-1] == key:
        return "the same call"
    if key in before:
        return f"call {before.index(key) + 1} again"
    do, plan = key
    where = " on a second instance" if do == BESIDE else ""
    return ", ".join([f"call{where} at {plan.query_length} × {plan.key_length}", *_apart(base, plan)])


def _apart(base: Plan, plan: Plan) -> list[str]:
    """What else differs from the plan of the history."""
    words = [f"{n} = {v!r}" for n, v in plan.settings.items() if v != base.settings.get(n)]
    named = {"heads": "num_heads", "head_dim": "embed_dim" if "embed_dim" in plan.settings else "head_dim"}
    for f in fields(plan):
        name, value = f.name, getattr(plan, f.name)
        if name not in UNSAID and value != getattr(base, name) and named.get(name, name) not in plan.settings:
            words.append(f"{named.get(name, name)} = {value}")
    if "chunks" in plan.extra:
        words.append(f"in chunks of {' + '.join(map(str, plan.extra['chunks']))}")
    return words if plan.seed == base.seed else [*words, "other content"]


def _how(step: Step) -> list[str]:
    words = ["in train mode"] if step.get("train") else []
    words += [f"on {step['device']}"] if step.get("device") else []
    words += ["in the tensors of the call before"] if step.get("reused") else []
    words += [f"with {step['more']}=True"] if step.get("more") else []
    words += ["each output then overwritten"] if step.get("overwrite") else []
    return [*words, *filter(None, [UNDER[step.get("under", "no_grad")]])]
