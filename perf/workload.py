"""A variant at one shape as something that can be called and timed: q, k, v in, attention [B, H, Lq, D] out.

Whatever it gives itself is completed to attention as its users would: a bias is handed to the fused kernel as a mask, rotated
queries and keys go into it, an embedding is added before the heads are split. Arguments are bound beforehand, by name, as the
judge binds them, so that nothing but the implementation and the attention around it is timed.
"""

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from relpos.conformance.binding import Provider
from relpos.conformance.calling import Instance, matched_parameters, own_parameters
from relpos.perf.checking import tensor_of
from relpos.perf.data import Call, Data, first_of, moded
from relpos.perf.guarded import same_bits
from relpos.perf.plugging import Unsupported, inputs_of, subject_of
from relpos.perf.point import Shape, Variant
from relpos.perf.settings import measured_settings
from relpos.spec.attention import default_scale

FILLED_PAIRS = 2**20  # of queries and keys in one step that fills a cache: what forms a vector for each takes 2 GiB of them


class Workload:
    """A variant built for a shape."""

    def __init__(self, variant: Variant, shape: Shape) -> None:
        self.shape, self.variant = shape, variant
        self.settings = measured_settings(variant.scheme, shape, dict(variant.settings))
        self.subject = subject_of(variant, shape, self.settings)
        self.given = inputs_of(self.subject, shape, self.settings)
        self.instance = Instance(self.subject, self.given)
        if self.subject.owns_parameters and self.given.params:
            own_parameters(self.instance.target, self.given, self.subject)
        self._ready: Any = None  # a decoder whose cache holds all but the last token
        self._kept = {name: array.copy() for name, array in self.given.params.items()}
        self._handed: dict[str, tuple[Tensor, Tensor]] = {}  # learned tensors of the last call, each with a copy from before it

    @property
    def parameters(self) -> int:
        """Learned numbers of the scheme."""
        return sum(int(np.prod(shape)) for shape in self.given.settings.parameters().values())

    def call(self, data: Data) -> Call:
        """One call on these inputs, everything bound; in mode forward_backward with the gradients of all inputs."""
        call, leaves = self._prepared(data)
        return moded(self.shape, data, leaves, call)

    def written(self) -> list[str]:
        """Learned tensors that the last call has written into; those of the next are as they were."""
        found = [name for name, (leaf, before) in self._handed.items() if not same_bits(leaf, before)]
        for name in found:
            self.given.params[name][...] = self._kept[name]
        self._handed = {}
        return found

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
        if self.shape.mode == "rotation" and (form, level) != ("rotation", "contribution"):
            raise Unsupported("it gives no rotation by itself")
        if self.subject.scores:
            raise Unsupported("a score_mod is measured through flex_attention only")
        if form == "embedding" and level == "contribution":
            call = self._embedding(leaves, provider)
        elif form == "rotation" and level == "contribution":
            call = self._rotation(leaves, provider)
        else:
            call = self._completed(leaves, provider)
        learned = {name: provider.leaves[name] for name in self.given.params if name in provider.leaves}
        self._handed = {n: (x, x.detach().clone()) for n, x in learned.items() if isinstance(x, Tensor)}
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
            return lambda: tensor_of(target(*first, **values)).transpose(1, 2)
        return lambda: tensor_of(target(*first, **values))

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
        if self.shape.mode == "rotation":
            return lambda: first_of(query(), key())
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
            k, v = (leaves[name][:, :, :past].clone() for name in ("k", "v"))  # it may hold on to what others will refill
            for tokens in _chunks(k, v):
                self._ready.step(**self._their(tokens))
        decoder = copy.deepcopy(self._ready)
        last = {"q": leaves["q"], "k": leaves["k"][:, :, -1:], "v": leaves["v"][:, :, -1:]}
        return lambda: tensor_of(decoder.step(**self._their(last)))

    def _their(self, tokens: dict[str, Tensor]) -> dict[str, Tensor]:
        names = self.subject.called_with.names
        return {theirs: tokens[ours] for theirs, ours in names.items() if ours in tokens}


def _chunks(k: Tensor, v: Tensor) -> Iterator[dict[str, Tensor]]:
    """All tokens in as few steps as memory allows: one at a time they would take as long as the whole measurement."""
    size = max(FILLED_PAIRS // max(k.shape[2], 1), 1)
    for chunk, values in zip(k.split(size, dim=2), v.split(size, dim=2), strict=True):
        yield {"q": chunk, "k": chunk, "v": values}


def _future(shape: Shape) -> Tensor | None:
    if not shape.causal or shape.mode == "decode":
        return None
    return torch.ones(shape.query_length, shape.key_length, dtype=torch.bool, device=shape.device).triu(1)


def _hide(scores: Tensor, hidden: Tensor | None) -> Tensor:
    return scores if hidden is None else scores.masked_fill(hidden, -torch.inf)
