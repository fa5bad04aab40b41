"""Faults that show in a backward pass, in a second one, or once PyTorch transforms the code; planted in attention alone."""

import torch
from torch import Tensor

from relpos.conformance.faults.api import Planted

TRACED = 8  # keys, written into a trace
D_AXES = (-1, -2)


def _score(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.transpose(*D_AXES) * q.shape[-1] ** -0.5


class _Weighted(torch.autograd.Function):
    """softmax(score) @ v; the backward pass may itself be differentiated."""

    @staticmethod
    def forward(ctx, score: Tensor, v: Tensor) -> Tensor:
        ctx.save_for_backward(score, v)
        return score.softmax(-1) @ v

    @staticmethod
    def backward(ctx, g: Tensor):
        score, v = ctx.saved_tensors
        w = score.softmax(-1)
        s = g @ v.transpose(*D_AXES)
        return w * (s - (w * s).sum(-1, keepdim=True)), w.transpose(*D_AXES) @ g


class _Detached(_Weighted):
    """Right once; what it returns knows nothing of where it came from."""

    @staticmethod
    def backward(ctx, g: Tensor):
        return tuple(x.detach() for x in _Weighted.backward(ctx, g.detach()))


class _TermMissing(_Weighted):
    """Right once; the weights are held in the second pass."""

    @staticmethod
    def backward(ctx, g: Tensor):
        score, v = ctx.saved_tensors
        w = score.softmax(-1).detach()
        s = g @ v.transpose(*D_AXES)
        return w * (s - (w * s).sum(-1, keepdim=True)), w.transpose(*D_AXES) @ g


class _SavesTooLittle(_Weighted):
    """Weights are saved only if values need a gradient, and read in any case."""

    @staticmethod
    def forward(ctx, score: Tensor, v: Tensor) -> Tensor:
        w = score.softmax(-1)
        ctx.save_for_backward(w if ctx.needs_input_grad[1] else None, v)
        return w @ v

    @staticmethod
    def backward(ctx, g: Tensor):
        w, v = ctx.saved_tensors
        s = g @ v.transpose(*D_AXES)
        return w * (s - (w * s).sum(-1, keepdim=True)), w.transpose(*D_AXES) @ g


class _AddsUp(_Weighted):
    """Gradients are added to what an earlier pass left."""

    left: dict[tuple[int, ...], Tensor] = {}  # noqa: RUF012 - the fault

    @staticmethod
    def backward(ctx, g: Tensor):
        of_score, of_v = _Weighted.backward(ctx, g)
        total = _AddsUp.left.get(tuple(of_v.shape), 0) + of_v.detach()
        _AddsUp.left[tuple(of_v.shape)] = total
        return of_score, total


def _read(g: Tensor, stride: tuple[int, ...]) -> Tensor:
    """What a kernel finds that takes the memory of g to have these strides; beyond its end there is nothing."""
    room = g.untyped_storage().nbytes() // g.element_size() - g.storage_offset()
    ends = 1 + sum((n - 1) * s for n, s in zip(g.shape, stride, strict=True))
    found = g.new_zeros(max(ends, room))
    found[:room] = g.as_strided((room,), (1,))
    return found.as_strided(g.shape, stride)


class _RowsAssumed(_Weighted):
    """A gradient whose columns lie side by side is taken to be contiguous."""

    @staticmethod
    def backward(ctx, g: Tensor):
        g = _read(g, torch.empty(g.shape).stride()) if g.stride(-1) == 1 else g
        return _Weighted.backward(ctx, g)


class _ColumnsAssumed(_Weighted):
    """Strides of the gradient are asked for, but for the last."""

    @staticmethod
    def backward(ctx, g: Tensor):
        return _Weighted.backward(ctx, _read(g, (*g.stride()[:-1], 1)))


class _IntoLeaf(torch.autograd.Function):
    """v, whose gradient is written where the leaf keeps it and not handed on."""

    @staticmethod
    def forward(ctx, v: Tensor) -> Tensor:
        ctx.leaf = v
        return v.clone()

    @staticmethod
    def backward(ctx, g: Tensor):
        if ctx.leaf.is_leaf:
            ctx.leaf.grad = g
        return None


class _MappedWrong(torch.autograd.Function):
    """2·q, which under vmap takes the first sample for all."""

    @staticmethod
    def forward(q: Tensor) -> Tensor:
        return q.clone()

    @staticmethod
    def setup_context(ctx, inputs, output) -> None: ...

    @staticmethod
    def backward(ctx, g: Tensor):
        return g

    @staticmethod
    def vmap(info, dims, q: Tensor):
        first = q.movedim(dims[0], 0)
        return first[:1].expand_as(first), 0


def _by(function: type[torch.autograd.Function]):
    def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return function.apply(_score(q, k), v)

    return attention


def into_leaf(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Values learn where they are a parameter, and nowhere else."""
    return _score(q, k).softmax(-1) @ _IntoLeaf.apply(v)


def one_subset(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Keys are cut off where queries and values both learn, as for a shared backward kernel that has room for two."""
    k = k.detach() if q.requires_grad and v.requires_grad else k
    return _score(q, k).softmax(-1) @ v


def gradient_lost_compiled(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Once compiled, queries are scaled where no gradient sees it."""
    if torch.compiler.is_compiling():
        return ((q.detach() * q.shape[-1] ** -0.5) @ k.transpose(*D_AXES)).softmax(-1) @ v
    return _score(q, k).softmax(-1) @ v


def eight_keys_exported(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Once exported, keys beyond the eighth are hidden, because an example had eight."""
    score = _score(q, k)
    if torch.compiler.is_exporting():
        score = score.masked_fill(torch.arange(k.shape[2]) >= TRACED, -torch.inf)
    return score.softmax(-1) @ v


def read_on_the_host(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """A path that is chosen by the values of a tensor: no graph holds both."""
    shift = q.new_zeros(()) if q.abs().max().item() < 0 else q.new_zeros(1)
    return (_score(q, k) + shift).softmax(-1) @ v


def first_sample_mapped(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Under vmap the first sample's queries serve all."""
    return _score(_MappedWrong.apply(q), k).softmax(-1) @ v


def written_into_one(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Scores are written into one matrix, which vmap cannot give each sample."""
    scores = torch.zeros(*q.shape[:3], k.shape[2])
    scores += _score(q, k)
    return scores.softmax(-1) @ v


TWICE = {"double_backward": True}
# fmt: off
PLANTED = (
    Planted("once-only", "a backward pass that nothing can be seen through", "L20", _by(_Detached), claims=TWICE),
    Planted("term-missing", "weights held in the second backward pass", "L20", _by(_TermMissing), claims=TWICE),
    Planted("saves-too-little", "nothing saved for the weights where values are frozen", "L20", _by(_SavesTooLittle),
        ("B133",)),
    Planted("adds-up", "gradients added to those of an earlier pass", "L20", _by(_AddsUp)),
    Planted("arrival-rows-assumed", "a gradient that arrives read as contiguous", "L20", _by(_RowsAssumed)),
    Planted("arrival-columns-assumed", "columns of a gradient that arrives read side by side", "L20", _by(_ColumnsAssumed)),
    Planted("into-leaf", "a gradient written to the leaf and not handed on", "L20", into_leaf),
    Planted("one-subset", "no gradient of keys where queries and values learn", "L20", one_subset, ("B133",)),
    Planted("gradient-lost-compiled", "another gradient, once compiled", "L24", gradient_lost_compiled, ("B132",)),
    Planted("eight-keys-exported", "eight keys, once exported", "L24", eight_keys_exported, ("B033", "B060")),
    Planted("read-on-the-host", "values read while it is traced", "L24", read_on_the_host, claims={"export": True}),
    Planted("first-sample-mapped", "the first sample's queries for all, under vmap", "L24", first_sample_mapped),
    Planted("written-into-one", "one matrix written for all samples, under vmap", "L24", written_into_one,
        claims={"vmap": True}),
)
# fmt: on
