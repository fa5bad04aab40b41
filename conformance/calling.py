"""Builds an implementation, calls it on the inputs of a plan and reads what comes back."""

import copy
import os
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

import numpy as np
import torch

from relpos.conformance.asks import Asks, score_mod_like
from relpos.conformance.binding import Hand, Provider, as_made
from relpos.conformance.errors import AdapterError, Raised, Refused
from relpos.conformance.expected import scale_of
from relpos.conformance.plan import Inputs
from relpos.conformance.precision import torch_dtype
from relpos.conformance.reading import as_tensor, to_numpy, with_axes
from relpos.conformance.stepping import of_step
from relpos.conformance.subject import Subject
from relpos.conformance.surroundings import kept


class Instance:
    """One built implementation; a function is its own instance."""

    def __init__(self, subject: Subject, inputs: Inputs, *, training: bool = False) -> None:
        self.subject, self.training = subject, training
        self.settings = inputs.settings
        self._settled = False  # whether its learned tensors hold what they should, and are to be left alone
        self.disturbed: set[str] = set()  # states of the whole process that a call changed
        self.hand: Hand = as_made
        self.through: Callable[[Any], Any] = lambda called: called  # what is called in place of what was built
        with kept(self.disturbed):
            self.target = self._build(inputs)

    def revived(self, target: Any) -> "Instance":
        """The same with another object in place of the one that was built, whose learned tensors are left as they are."""
        other = copy.copy(self)
        other.target, other._settled = target, True
        return other

    def _build(self, inputs: Inputs, provider: Provider | None = None) -> Any:
        subject = self.subject
        if subject.built_with is None:
            if self.training and isinstance(subject.target, torch.nn.Module):
                return copy.deepcopy(subject.target).train()
            return copy.deepcopy(subject.target) if subject.kind == "decoder" else subject.target
        provider = self._provider(inputs, frozenset()) if provider is None else provider
        with refusals(subject, inputs):
            built = _bound(subject.target, subject.built_with, provider)
        # Dropout is no position scheme.
        return built.train(self.training) if isinstance(built, torch.nn.Module) else built

    def _provider(self, inputs: Inputs, wanted: frozenset[str]) -> Provider:
        s = self.subject
        return Provider(inputs, s.card, arrays=s.arrays, device=s.device, wanted=wanted, hand=self.hand)

    def results(self, inputs: Inputs) -> dict[str, np.ndarray]:
        """What it returns at its level, by name, float64, in our layout."""
        with torch.no_grad():
            raw, _ = self.tensors(inputs)
        return {name: to_numpy(value) for name, value in raw.items()}

    def tensors(self, inputs: Inputs, wanted: frozenset[str] = frozenset()) -> tuple[dict[str, Any], dict[str, Any]]:
        """What it returns, by name, and the leaves that gradients can be read from."""
        provider = self._provider(inputs, wanted)
        if self.subject.kind == "decoder":
            self.target = self._build(inputs)  # a fresh one for every sequence
        if self.subject.kind == "builder" and wanted:
            self.target = self._build(inputs, provider)  # around the very tensors whose gradients are read
        if self.subject.owns_parameters and inputs.params and not self._settled:
            own_parameters(self.target, inputs, self.subject)
        with kept(self.disturbed), refusals(self.subject, inputs):
            raw = self._call(inputs, provider)
        shaped = {name: with_axes(value, name, inputs, self.subject) for name, value in raw.items()}
        leaves = dict(provider.leaves)
        if self.subject.owns_parameters and inputs.params:
            leaves |= {n: p for n, p in matched_parameters(self.target, inputs, self.subject).items() if n in wanted}
        return shaped, leaves

    def _call(self, inputs: Inputs, provider: Provider) -> dict[str, Any]:
        subject, level = self.subject, self.subject.level
        if subject.kind == "decoder":
            return {"output": self._steps(inputs, provider)}
        if subject.scores:
            if subject.on_grid:
                raise AdapterError(f"{subject.spec} is told indices, but positions here have several axes: ask for them.")
            if not score_mod_like(self.target):
                raise AdapterError(
                    f"{subject.spec} asks for nothing that a call brings (positions, lengths, tensors), so it should build a "
                    f"score_mod(score, b, h, q_idx, kv_idx); it returned {type(self.target).__name__}."
                )
            return {"logits": _scored(self.target, inputs, provider)}
        if level == "contribution" and subject.form == "rotation":
            return self._rotated(provider)
        result = _bound(self.through(self.target), subject.called_with, provider)
        if level == "contribution":
            name = "bias" if subject.form == "bias" else "embedded" if "x" in subject.called_with.ours else "embedding"
        else:
            name = "logits" if level == "logits" else "output"
        return {name: as_tensor(result, subject.spec)}

    def _rotated(self, provider: Provider) -> dict[str, Any]:
        found, called_with, target = {}, self.subject.called_with, self.through(self.target)
        if "x" not in called_with.ours:
            result = _bound(target, called_with, provider)
            if not isinstance(result, (tuple, list)) or len(result) != 2:
                raise AdapterError(
                    f"{self.subject.spec} takes q and k and must return both, rotated; got {type(result).__name__}."
                )
            return {f"rotated {r}": as_tensor(x, self.subject.spec) for r, x in zip(("query", "key"), result, strict=True)}
        for role in ("query", "key"):
            provider.role = role
            found[f"rotated {role}"] = as_tensor(_bound(target, called_with, provider), self.subject.spec)
        return found

    def _steps(self, inputs: Inputs, provider: Provider) -> Any:
        chunks = inputs.plan.extra.get("chunks") or (inputs.q.shape[2],)
        axis = 1 if self.subject.card.layout == "blhd" else 2
        outputs, start, grows = [], 0, inputs.plan.context_length is None
        asks, layout = self.subject.called_with, self.subject.card.layout
        for size in chunks:
            whole = {
                theirs: (ours, provider.value(ours)) for theirs, ours in asks.names.items() if ours not in left_out(inputs)
            }
            tokens = {theirs: of_step(ours, value, start, size, layout) for theirs, (ours, value) in whole.items()}
            tokens |= {theirs: start + size for theirs, (ours, _) in whole.items() if ours == "sequence_length" and grows}
            options = provider.options(asks.options)
            outputs.append(as_tensor(self.through(self.target.step)(**tokens, **options), self.subject.spec))
            start += size
        return torch.cat([torch.as_tensor(o) for o in outputs], dim=axis)


@contextmanager
def refusals(subject: Subject, inputs: Inputs) -> Iterator[None]:
    """Tell a refusal that names a setting from any other exception, and let neither end the run."""
    process = os.getpid()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # theirs, not ours to judge
            yield
    except (AdapterError, Refused, Raised):
        raise
    except (Exception, SystemExit) as error:
        named = [f.name for f in fields(inputs.settings) if re.search(rf"\b{f.name}\b", str(error))]
        if isinstance(error, (ValueError, NotImplementedError)) and named:
            raise Refused(str(error)) from error
        raise Raised(error) from error
    finally:
        if os.getpid() != process:  # a fork of theirs came back: there is one judge, and it is not this one
            os._exit(1)


def own_parameters(module: Any, inputs: Inputs, subject: Subject) -> None:
    """Bring a module to the working dtype and write the drawn parameters into it."""
    if isinstance(module, torch.nn.Module):
        module.to(torch_dtype(inputs.plan.dtype))
    for name, parameter in matched_parameters(module, inputs, subject).items():
        with torch.no_grad():
            parameter.copy_(torch.from_numpy(inputs.params[name]).to(parameter.dtype))


def matched_parameters(module: Any, inputs: Inputs, subject: Subject) -> dict[str, torch.Tensor]:
    """The module's parameters by our names: by name and shape, else by a shape only one of them has."""
    if not isinstance(module, torch.nn.Module):
        raise AdapterError(
            f"{subject.spec} asks for none of {sorted(inputs.params)} and is no torch module that could own them. Ask for "
            f"{' and '.join(f'`{name}`' for name in sorted(inputs.params))} by name, when it is built or called."
        )
    theirs = dict(module.named_parameters())
    found: dict[str, torch.Tensor] = {}
    for name, array in inputs.params.items():
        same_name = [
            n for n in theirs if subject.card.rename.get(n, n.rsplit(".", 1)[-1]) == name or n.endswith(f"{name}.weight")
        ]
        same_shape = [n for n in theirs if tuple(theirs[n].shape) == array.shape]
        best = [n for n in same_name if n in same_shape] or (same_shape if len(same_shape) == 1 else [])
        if len(best) != 1:
            have = ", ".join(f"{n} {list(p.shape)}" for n, p in theirs.items()) or "none"
            raise AdapterError(
                f"{subject.spec} owns its parameters, but which is `{name}` of shape {list(array.shape)}? It has: {have}. "
                f"Name it {name}, or say --claim rename=their_name:{name}."
            )
        found[name] = theirs[best[0]]
    return found


def _bound(function: Any, asks: Asks, provider: Provider) -> Any:
    absent = left_out(provider.inputs)
    values = {theirs: provider.value(ours) for theirs, ours in asks.names.items() if ours not in absent}
    first = [values.pop(name) for name in asks.positional]
    return function(*first, **values, **provider.options(asks.options))


def left_out(inputs: Inputs) -> tuple[str, ...]:
    """Our names of what a call is not given, so that a default of None speaks."""
    return inputs.plan.extra.get("left_out", ())


def _scored(score_mod: Any, inputs: Inputs, provider: Provider) -> torch.Tensor:
    q, k = provider.value("q"), provider.value("k")
    k = k.repeat_interleave(q.shape[1] // k.shape[1], dim=1)
    score = (q @ k.transpose(-1, -2)) * scale_of(inputs)
    B, H = q.shape[:2]
    b, h = torch.arange(B, device=q.device).view(B, 1, 1, 1), torch.arange(H, device=q.device).view(1, H, 1, 1)
    queries = torch.from_numpy(inputs.query_positions.array()).to(q.device).view(1, 1, -1, 1)
    keys = torch.from_numpy(inputs.key_positions.array()).to(q.device).view(1, 1, 1, -1)
    return torch.as_tensor(score_mod(score, b, h, queries, keys)).expand(score.shape)
