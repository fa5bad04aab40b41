"""More wrong implementations for the messages: second gradients, what is kept, and what tracing makes of the code."""

import torch
from torch import nn

from relpos.impls.card import implements


def score(q, k):
    return q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5


class Weighted(torch.autograd.Function):
    """softmax(score) @ v."""

    @staticmethod
    def forward(ctx, score, v):
        ctx.save_for_backward(score, v)
        return score.softmax(-1) @ v

    @staticmethod
    def backward(ctx, g):
        score, v = ctx.saved_tensors
        w = score.softmax(-1).detach()
        s = g @ v.transpose(-1, -2)
        return w * (s - (w * s).sum(-1, keepdim=True)), w.transpose(-1, -2) @ g


@implements("none", double_backward=True)
def weights_held(q, k, v):
    """Right once, wrong twice."""
    return Weighted.apply(score(q, k), v)


class KeptScores(nn.Module):
    """Every layer holds its scores until it is called again."""

    __relpos__ = {"scheme": "none", "memory": "B*H*Lq*Lk + B*H*Lq*D + B*H*Lk*D"}  # noqa: RUF012

    def forward(self, q, k, v):
        self.scores = score(q, k)
        return self.scores.softmax(-1) @ v


@implements("none")
def eight_keys_exported(q, k, v):
    """A mask that was made for the example that was exported."""
    s = score(q, k)
    if torch.compiler.is_exporting():
        s = s.masked_fill(torch.arange(k.shape[2]) >= 8, -torch.inf)
    return s.softmax(-1) @ v


@implements("none", vmap=True)
def written_into_one(q, k, v):
    """vmap cannot give each sample a matrix of its own."""
    s = torch.zeros(*q.shape[:3], k.shape[2])
    s += score(q, k)
    return s.softmax(-1) @ v
