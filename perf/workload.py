"""A variant at one shape as something that can be called and timed: q, k, v in, attention [B, H, Lq, D] out.

Whatever it gives itself is completed to attention as its users would: a bias is handed to the fused kernel as a mask, rotated
queries and keys go into it, an embedding is added before the heads are split. Arguments are bound beforehand, by name, as the
judge binds them, so that nothing but the implementation and the attention around it is timed.
"""

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from relpos.conformance.binding import Provider
from relpos.conformance.calling import Instance, matched_parameters, own_parameters
from relpos.conformance.loading import load
from relpos.conformance.plan import Inputs, Plan
from relpos.conformance.plan import inputs as built
from relpos.conformance.precision import torch_dtype
from relpos.conformance.subject import Subject, plug_in
from relpos.perf.point import Shape, Variant
from relpos.perf.settings import measured_settings, window
from relpos.spec.attention import default_scale

Call = Callable[[], Tensor]
TIMED = ("causal", "dtype", "device", "scale")  # what is given of the options that an implementation has


class Unsupported(Exception):
    """A variant cannot be had at a shape: the reason, in words for the row."""


class Data:
    """q, k, v of one round, shared by all variants of a shape, and the cotangent of the output."""

    def __init__(self, shape: Shape, seed: int) -> None:
        drawn = torch.Generator().manual_seed(seed)
        dtype, B, H, D = torch_dtype(shape.dtype), shape.batch, shape.heads, shape.head_dim

        def normal(length: int) -> Tensor:
            return torch.randn(B, H, length, D, generator=drawn).to(shape.device, dtype)

        self.q, self.k, self.v = normal(shape.query_length), normal(shape.key_length), normal(shape.key_length)
        self.cotangent = normal(shape.query_length)

    def leaves(self, *, differentiable: bool) -> dict[str, Tensor]:
        """The inputs as fresh leaves, so that gradients of one call are not those of another."""
        return {name: getattr(self, name).detach().requires_grad_(differentiable) for name in ("q", "k", "v")}


def limit(shape: Shape, data: Data, *, backward: bool = True) -> Call:
    """The same attention without any position scheme; without `backward`, only what precedes it."""
    leaves = data.leaves(differentiable=shape.mode == "forward_backward")
    causal = shape.causal and shape.mode != "decode"
    call = lambda: scaled_dot_product_attention(**_named(leaves), is_causal=causal)  # noqa: E731
    return _moded(shape, data, leaves, call) if backward else call


class Workload:
    """A variant built for a shape."""

    def __init__(self, variant: Variant, shape: Shape) -> None:
        self.shape, self.variant = shape, variant
        self.settings = measured_settings(variant.scheme, shape, dict(variant.settings))
        self.subject = _subject(variant, shape, self.settings)
        self.given = _inputs(self.subject, shape, self.settings)
        self.instance = Instance(self.subject, self.given)
        if self.subject.owns_parameters and self.given.params:
            own_parameters(self.instance.target, self.given, self.subject)
        self._ready: Any = None  # a decoder whose cache holds all but the last token

    @property
    def parameters(self) -> int:
        """Learned numbers of the scheme."""
        return sum(int(np.prod(shape)) for shape in self.given.settings.parameters().values())

    def call(self, data: Data) -> Call:
        """One call on these inputs, everything bound; in mode forward_backward with the gradients of all inputs."""
        call, leaves = self._prepared(data)
        return _moded(self.shape, data, leaves, call)

    def recorded(self, data: Data) -> Call:
        """The forward half of a call in mode forward_backward."""
        return self._prepared(data)[0]

    def _prepared(self, data: Data) -> tuple[Call, dict[str, Any]]:
        differentiable = self.shape.mode == "forward_backward"
        leaves = data.leaves(differentiable=differentiable)
        if self.subject.form == "embedding" and self.subject.level == "attention":
            raise Unsupported("it adds the embedding itself, at one width; measured are those that give the embedding")
        if self.subject.kind == "decoder":
            return self._step(leaves), dict(leaves)
        provider = Provider(self.given, self.subject.card, arrays=self.subject.arrays, device=self.shape.device,
                            wanted=frozenset(self.given.params) if differentiable else frozenset())  # fmt: skip
        form, level = self.subject.form, self.subject.level
        if self.subject.scores:
            raise Unsupported("a score_mod is measured through flex_attention only")
        if form == "embedding" and level == "contribution":
            call = self._embedding(leaves, provider)
        elif form == "rotation" and level == "contribution":
            call = self._rotation(leaves, provider)
        else:
            call = self._completed(leaves, provider)
        return call, {**leaves, **provider.leaves, **self._owned()}

    def contribution(self, data: Data) -> Tensor:
        """What an embedding adds, or the sum where it adds it itself, [L, H·D] or [B, L, H·D]."""
        provider = Provider(self.given, self.subject.card, arrays=self.subject.arrays, device=self.shape.device)
        x = {"x": data.q.transpose(1, 2).flatten(2)} if "x" in self.subject.called_with.ours else {}
        return torch.no_grad()(self._bound(provider, x))()

    def _owned(self) -> dict[str, Tensor]:
        if not self.subject.owns_parameters or not self.given.params:
            return {}
        return matched_parameters(self.instance.target, self.given, self.subject)

    def _bound(self, provider: Provider, leaves: Mapping[str, Tensor]) -> Call:
        swap = self.subject.card.layout == "blhd"
        for name, leaf in leaves.items():
            provider.leaves[name] = leaf.transpose(1, 2) if swap else leaf
        asks = self.subject.called_with
        values = {theirs: provider.value(ours) for theirs, ours in asks.names.items()}
        first = [values.pop(name) for name in asks.positional]
        target = self.instance.target
        if swap and self.subject.level == "attention":
            return lambda: target(*first, **values).transpose(1, 2)
        return lambda: target(*first, **values)

    def _completed(self, leaves: dict[str, Tensor], provider: Provider) -> Call:
        given, level, v = self._bound(provider, leaves), self.subject.level, leaves["v"]
        hidden = _future(self.shape) if level != "attention" else None
        if level == "attention":
            return given
        if level == "contribution" and hasattr(self.given.settings, "content"):
            raise Unsupported("the scheme has a content term of its own, which the fused kernel has not")
        if level == "logits" and any(name.endswith("_v") for name in self.given.params):
            raise Unsupported("the scheme adds to the values too, which logits do not say")
        if level == "logits":
            return lambda: _hide(given(), hidden).softmax(-1).to(v.dtype) @ v
        q, k, scale = leaves["q"], leaves["k"], default_scale(self.given.settings, self.shape.head_dim)

        def biased() -> Tensor:
            bias = given()
            bias = bias if bias.ndim == 4 else bias.unsqueeze(0)
            return scaled_dot_product_attention(q, k, v, attn_mask=_hide(bias, hidden).to(q.dtype), scale=scale)

        return biased

    def _rotation(self, leaves: dict[str, Tensor], provider: Provider) -> Call:
        turned = []
        for role, name in (("query", "q"), ("key", "k")):
            provider.role = role
            turned.append(self._bound(provider, {f"x of the {role}": leaves[name]}))
        query, key = turned
        causal = self.shape.causal and self.shape.mode != "decode"
        return lambda: scaled_dot_product_attention(query(), key(), leaves["v"], is_causal=causal)

    def _embedding(self, leaves: dict[str, Tensor], provider: Provider) -> Call:
        if self.shape.mode == "decode":
            raise Unsupported("an embedding is added once, before the first layer: a decode step is that of the limit")
        takes_x = "x" in self.subject.called_with.ours
        x = leaves["q"].transpose(1, 2).flatten(2)  # the residual stream, [B, L, H·D]
        given = self._bound(provider, {"x": x} if takes_x else {})
        B, H, L, D = leaves["q"].shape
        causal = self.shape.causal

        def added() -> Tensor:
            stream = given() if takes_x else x + given()
            heads = stream.view(B, L, H, D).transpose(1, 2)
            return scaled_dot_product_attention(heads, leaves["k"], leaves["v"], is_causal=causal)

        return added

    def _step(self, leaves: dict[str, Tensor]) -> Call:
        if self.shape.mode != "decode":
            raise Unsupported("a decoder takes single steps; measured in mode decode")
        if self._ready is None:
            self._ready = copy.deepcopy(self.instance.target)
            past = leaves["k"].shape[2] - 1
            # Tokens one at a time would take as long as the whole measurement, and the cache is the same.
            tokens = {"q": leaves["k"][:, :, :past], "k": leaves["k"][:, :, :past], "v": leaves["v"][:, :, :past]}
            self._ready.step(**self._their(tokens))
        decoder = copy.deepcopy(self._ready)
        last = {"q": leaves["q"], "k": leaves["k"][:, :, -1:], "v": leaves["v"][:, :, -1:]}
        return lambda: decoder.step(**self._their(last))

    def _their(self, tokens: dict[str, Tensor]) -> dict[str, Tensor]:
        names = self.subject.called_with.names
        return {theirs: tokens[ours] for theirs, ours in names.items() if ours in tokens}


def _subject(variant: Variant, shape: Shape, settings: dict[str, Any]) -> Subject:
    target = load(variant.spec)
    plain = plug_in(target, spec=variant.spec, scheme=variant.scheme, given=settings, claims=dict(variant.claims))
    if shape.dtype not in plain.dtypes:
        raise Unsupported(f"{shape.dtype} is not claimed")
    if plain.kind == "resizer":
        raise Unsupported("it resizes tables")
    card = replace(plain.card, binds=tuple(name for name in plain.card.binds if plain.card.rename.get(name, name) in TIMED))
    found = plug_in(target, spec=variant.spec, scheme=variant.scheme, given=settings, claims={**dict(variant.claims),
                    "binds": card.binds})  # fmt: skip
    if shape.mode == "decode" and found.kind != "decoder" and found.positions == "contiguous" and found.card.corner is None:
        raise Unsupported("it cannot be told where a lone query lies")
    return _able(found, shape)


def _able(subject: Subject, shape: Shape) -> Subject:
    if subject.on_grid and (shape.causal or shape.mode == "decode"):
        raise Unsupported("positions have several axes: nothing is causal, nothing is decoded")
    flagged = "causal" in subject.asks or subject.level != "attention" or subject.card.softmax == "causal"
    if subject.card.softmax == "causal" and not shape.causal and shape.mode != "decode":
        raise Unsupported("it is right under a causal softmax only")
    if shape.causal and not flagged and subject.kind != "decoder":
        raise Unsupported("it has no causal flag")
    return subject


def _inputs(subject: Subject, shape: Shape, settings: dict[str, Any]) -> Inputs:
    """Positions, settings and learned tensors; q, k and v are handed in as tensors later."""
    grid = window(shape.key_length - getattr(subject.cls, "special", 0)) if subject.on_grid else None
    plan = Plan(
        settings=settings, dtype=shape.dtype, batch=shape.batch, heads=shape.heads, head_dim=shape.head_dim, grid=grid, seed=1,
        query_length=shape.query_length, key_length=shape.key_length, offset=shape.key_length - shape.query_length,
        causal=shape.causal and shape.mode != "decode",
    )  # fmt: skip
    q, k = (np.broadcast_to(0.0, (shape.batch, shape.heads, n, shape.head_dim)) for n in (plan.query_length, plan.key_length))
    if subject.form == "embedding" and subject.level == "contribution":
        q = k = np.broadcast_to(0.0, (shape.batch, 1, plan.key_length, shape.heads * shape.head_dim))
    return built(plan.but(batch=1, heads=1, head_dim=1), subject.scheme).but(plan=plan, q=q, k=k, v=k)


def _future(shape: Shape) -> Tensor | None:
    if not shape.causal or shape.mode == "decode":
        return None
    return torch.ones(shape.query_length, shape.key_length, dtype=torch.bool, device=shape.device).triu(1)


def _hide(scores: Tensor, hidden: Tensor | None) -> Tensor:
    return scores if hidden is None else scores.masked_fill(hidden, -torch.inf)


def _named(leaves: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {"query": leaves["q"], "key": leaves["k"], "value": leaves["v"]}


def _moded(shape: Shape, data: Data, leaves: Mapping[str, Any], call: Call) -> Call:
    """With gradients of all that is differentiable, or without recording any."""
    if shape.mode != "forward_backward":
        return torch.no_grad()(call)
    learned = [leaf for leaf in leaves.values() if isinstance(leaf, Tensor)]

    def both() -> Tensor:
        for leaf in learned:
            leaf.grad = None
        out = call()
        out.backward(data.cotangent)
        return out.detach()

    return both
