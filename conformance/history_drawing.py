"""What the calls of a history may be: at which inputs, in which modes, after which changes of the parameters."""

from dataclasses import dataclass
from typing import Any

import torch
from hypothesis import strategies as st

from relpos.conformance.asks import LENGTHS, POSITIONS
from relpos.conformance.history import owned
from relpos.conformance.history_calls import extra_output
from relpos.conformance.history_steps import UPDATES
from relpos.conformance.laws.l20_gradient import LAW as GRADIENTS
from relpos.conformance.placing import moved, within_reach
from relpos.conformance.plan import Plan
from relpos.conformance.settings import SIZES, choices, legal, sized
from relpos.conformance.strategies import plans
from relpos.conformance.subject import Subject

# Asked for when it is built, these tie an instance to one input.
TIED = LENGTHS | POSITIONS | {"mask", "padding_mask", "sequence_length", "causal", "scale", "role"}
SAME = ("settings", "heads", "kv_heads", "head_dim")


@dataclass(frozen=True)
class Choices:
    """What the histories of a subject choose from: modes of a call, updates, options for more output, devices."""

    subject: Subject
    unders: tuple[str, ...]
    updates: tuple[str, ...]
    more: str | None
    devices: tuple[str, ...]

    @classmethod
    def of(cls, subject: Subject) -> "Choices":
        """The choices of a subject."""
        return cls(subject, unders(subject), updates(subject), extra_output(subject), other_devices(subject))

    def modes(self) -> st.SearchStrategy[dict[str, Any]]:
        """How a call is made; the plain way is the simplest."""
        under = st.sampled_from(("no_grad", "no_grad", *self.unders))
        if self.subject.kind == "decoder":
            return st.fixed_dictionaries({"under": under, "overwrite": st.booleans()})
        how: dict[str, st.SearchStrategy[Any]] = {"under": under, "reused": st.booleans()}
        if self.subject.kind == "module":
            how["train"] = st.booleans()
        if self.more is not None:
            how["more"] = st.sampled_from((None, self.more))
        if self.devices:
            how["device"] = st.sampled_from((None, *self.devices))
        return st.fixed_dictionaries(how)


def tied(subject: Subject) -> bool:
    """Whether an instance is built for one input."""
    return bool(_built_with(subject) & TIED)


def unders(subject: Subject) -> tuple[str, ...]:
    """The modes of a call that are claimed, besides the plain one."""
    if subject.arrays != "torch":
        return ()
    half = {"bfloat16", "float16"} & set(subject.dtypes) or subject.level != "contribution"
    cast = ("autocast",) if half and "float32" in subject.dtypes and "L18" not in subject.card.unclaimed else ()
    trains = not (GRADIENTS.applies(subject) or GRADIENTS.claimed(subject) or GRADIENTS.name in subject.card.unclaimed)
    return ("inference_mode", *(("training",) if trains else ()), *cast)


def updates(subject: Subject) -> tuple[str, ...]:
    """The ways in which parameters can change between calls."""
    learned = set(subject.cls(**sized(subject.cls, subject.fixed)).parameters())
    if learned and owned(subject):
        return tuple(UPDATES)
    handed = learned if "params" in subject.called_with.ours else learned & subject.called_with.ours
    return tuple(UPDATES)[:2] if handed and subject.arrays == "torch" else ()


def other_devices(subject: Subject) -> tuple[str, ...]:
    """Devices it claims besides the one it is judged on, where they are there."""
    there = ("cpu", *(("cuda",) if torch.cuda.is_available() else ()))
    if subject.arrays != "torch" or _built_with(subject) & {"device", "params", *_learned(subject)}:
        return ()
    return tuple(d for d in subject.card.devices if d in there and d != torch.device(subject.device).type)


def other_dtypes(subject: Subject, dtype: str) -> tuple[str, ...]:
    """Dtypes that a call on the same instance may have instead: none where it was built for one, or from tensors of it."""
    if _built_with(subject) & {"dtype", "params", *_learned(subject)}:
        return ()
    return tuple(d for d in subject.dtypes if d != dtype)


@st.composite
def nearby(draw: st.DrawFn, subject: Subject, before: Plan) -> Plan:
    """An earlier call but for its place, its content, its dtype, or one setting: what was kept by too little is then stale."""
    kinds = ["place", "content"]
    kinds += ["dtype"] if other_dtypes(subject, before.dtype) else []
    kinds += ["setting"] if subject.built_with is None and set(subject.free) - set(SIZES) else []
    kind = draw(st.sampled_from(kinds))
    if kind == "content" or tied(subject):
        return before.but(seed=before.seed + 1)
    if kind == "dtype":
        return before.but(dtype=draw(st.sampled_from(other_dtypes(subject, before.dtype))))
    if kind == "setting":
        return draw(st.sampled_from(otherwise_set(subject, before) or (before,)))
    return moved_on(subject, before, draw(st.integers(1, 3)), draw(st.integers(0, 3)))


@st.composite
def others(draw: st.DrawFn, subject: Subject, base: Plan) -> Plan:
    """Any other call that the instance can take."""
    if tied(subject):
        return draw(nearby(subject, base))
    if subject.built_with is None and draw(st.booleans()):
        return draw(plans(subject, contents=("normal",)))
    # On several axes positions lie inside a window that the settings say, so other positions need the same settings.
    alike = subject.but(given={**subject.given, **base.settings}) if subject.on_grid else subject
    plan = draw(plans(alike, contents=("normal",)))
    plan = plan if plan.dtype in other_dtypes(subject, base.dtype) else plan.but(dtype=base.dtype)
    if subject.kind == "decoder" and plan.query_length > 1:
        first = draw(st.integers(1, plan.query_length - 1))
        plan = plan.but(extra={"chunks": (first, plan.query_length - first)})
    return _within(subject, plan, base)


def _within(subject: Subject, plan: Plan, like: Plan) -> Plan:
    """The plan where these settings are defined, of their sizes."""
    same = subject.but(given={**subject.given, **like.settings})
    return within_reach(same, plan.but(**{name: getattr(like, name) for name in SAME}))


def moved_on(subject: Subject, plan: Plan, step: int, along: int = 0) -> Plan:
    """The same sizes at other positions: queries by a step, keys by another where they need not go together."""
    if tied(subject):
        return plan
    if plan.query_positions is not None and plan.key_positions is not None:
        along = step if subject.one_length or subject.on_grid else along
        other = plan.but(query_positions=moved(plan.query_positions, step), key_positions=moved(plan.key_positions, along))
    elif subject.positions != "offset":
        return plan
    elif subject.level == "contribution" and subject.form in ("rotation", "embedding"):
        other = plan.but(offset=plan.offset + step)
    else:
        other = plan.but(offset=max(plan.key_length - plan.query_length - step, 0))
    return _within(subject, other, plan)


def otherwise_set(subject: Subject, plan: Plan) -> list[Plan]:
    """The same call under other settings, each with one that is free changed."""
    options = {**choices(subject.cls), **getattr(subject.cls, "draws", {})}
    now, found = subject.cls(**plan.settings), []
    for name in sorted(set(subject.free) - set(SIZES)):
        for value in options.get(name, ()):
            if subject.on_grid and not isinstance(value, str):
                continue  # a window of another size has no such positions
            settings = {**plan.settings, name: value}
            if value != getattr(now, name) and legal(subject.cls, settings):
                same = subject.but(given={**subject.given, **settings})
                found.append(within_reach(same, plan.but(settings=settings)))
                break
    return found


def _built_with(subject: Subject) -> frozenset[str]:
    return subject.built_with.ours if subject.built_with is not None else frozenset()


def _learned(subject: Subject) -> tuple[str, ...]:
    return tuple(subject.cls(**sized(subject.cls, subject.fixed)).parameters())
