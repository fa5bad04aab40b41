"""Multi-head attention that takes any scheme, or several together."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout as dropped

from relpos.impls._attention import mixed, score, softmax, visible, working
from relpos.impls._rotation import context_of
from relpos.impls.modules._checks import check_input, check_positions, refusal, require
from relpos.impls.modules._masks import Sense, read_mask
from relpos.impls.modules._past import Past
from relpos.impls.modules._schemes import INIT_STD, Asked, Scheme, axes_of, check_lent, check_together, lent, name_of, own_scale
from relpos.impls.modules.relative_position_bias import RelativePositionBias

WHERE = "MultiHeadAttention"
Mask = tuple[Tensor | None, Tensor | None]  # which keys are seen, and what is added to the scores


class MultiHeadAttention(nn.Module):
    """Attention [B, L, E] -> [B, L, E] with its projections, its schemes and a cache.

        x, context   + embeddings                                  before the projections
        score        scale · q · k of turned q, k  +  biases  +  content-dependent terms of q, k as projected
        output       projection of  Σ weight · v  +  value terms

    embed_dim    width E of input, context and output; a head has D = E / num_heads
    schemes      settings of one scheme or of several, all different: T5(num_heads=8), [ALiBi(num_heads=8), RoPE(head_dim=64)].
                 Their sizes must be the module's. An embedding is added in this module: give it to the first layer only. Tables
                 projected as queries and keys are (DeBERTa's share_att_key) go through this module's `query` and `key`
    num_kv_heads heads of keys and values, shared evenly by the query heads; None: as many
    causal       a key whose position is greater than the query's is hidden; the positions decide, not the indices
    bias         the four projections have one
    dropout      of the weights, in training; never in a step
    init_std     deviation of the normal distribution that a scheme's learned tensors are drawn from. 0.02 is what articles
                 advise and Swin, BERT and most ports use: a term that begins small leaves content its say
    weight_std   the same for projection weights (0.02 in GPT-2 and BERT); None: Xavier uniform, as torch.nn has it

    The scale is 1/√D, or the scheme's own. T5 has none and folds it into its initialisation, so query weights are drawn
    smaller by as much as the scale is larger. The scores [B, H, Lq, Lk] are formed. A query that sees no key has weights 0:
    its output is the projection of 0, its gradient finite. A stack that shares one table, as T5 does, shares the part:
    `layer.schemes["t5"] = first.schemes["t5"]`.
    """

    def __init__(
        self,
        embed_dim: int,
        schemes: Any,
        *,
        num_heads: int,
        num_kv_heads: int | None = None,
        causal: bool = False,
        bias: bool = True,
        dropout: float = 0.0,
        init_std: float = INIT_STD,
        weight_std: float | None = None,
    ) -> None:
        super().__init__()
        groups = num_heads if num_kv_heads is None else num_kv_heads
        several: list[Any] = list(schemes) if isinstance(schemes, Sequence) and not isinstance(schemes, str) else [schemes]
        _check_sizes(embed_dim, num_heads, groups)
        _check_numbers(dropout=dropout, init_std=init_std, weight_std=weight_std)
        D = embed_dim // num_heads
        check_together(WHERE, several, {"num_heads": num_heads, "head_dim": D, "embed_dim": embed_dim})
        check_lent(WHERE, several, {"num_heads": num_heads, "num_kv_heads": groups}, bias)
        self.embed_dim, self.num_heads, self.causal, self.dropout = embed_dim, num_heads, causal, dropout
        self.weight_std, self.scale, self.axes = weight_std, own_scale(several, D), axes_of(WHERE, several)
        hint = "Positions on several axes have no before and after; hide keys with `mask`."
        require(WHERE, "causal", self.axes == 1 or not causal, f"False for positions on {self.axes} axes", causal, hint)
        self.query, self.output = (nn.Linear(embed_dim, embed_dim, bias=bias) for _ in range(2))
        self.key, self.value = (nn.Linear(embed_dim, groups * D, bias=bias) for _ in range(2))
        self.schemes = nn.ModuleDict()
        for settings in several:
            part = RelativePositionBias if settings.form == "bias" else Scheme
            self.schemes[name_of(settings)] = part(settings, init_std=init_std)
        self._own_content = {name_of(s): Asked(s, "content") for s in several if hasattr(s, "content")}
        self._past = Past()
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all weights anew; biases of projections begin at 0."""
        for linear in (self.query, self.key, self.value, self.output):
            if self.weight_std is None:
                nn.init.xavier_uniform_(linear.weight)
            else:
                nn.init.normal_(linear.weight, std=self.weight_std)
            if linear.bias is not None:
                nn.init.zeros_(linear.bias)
        with torch.no_grad():
            self.query.weight.mul_((self.embed_dim // self.num_heads) ** -0.5 / self.scale)
        for scheme in self._parts():
            scheme.reset_parameters()

    def forward(
        self,
        x: Tensor,
        *,
        context: Tensor | None = None,
        positions: Tensor | None = None,
        context_positions: Tensor | None = None,
        mask: Tensor | None = None,
        mask_sense: Sense | None = None,
    ) -> Tensor:
        """Outputs [B, Lq, E] of x [B, Lq, E], which attends to itself or to a context [B, Lk, E].

        positions   whole numbers, [L] or [B, L] (left padding, packing), of x and of the context; None: from 0. On n axes
                    [L, n] or [B, L, n], never left out
        mask        [B, Lk] (padding), [B, Lq, Lk] or [B, H, Lq, Lk]; an axis of size 1 is shared
        mask_sense  "true_keeps", "true_drops", or "additive" (0 keeps, −inf drops): owed whenever a mask is given
        """
        check_input(WHERE, "x", x, self.embed_dim)
        if context is None and context_positions is not None:
            raise refusal(WHERE, "context_positions", "left out without a context", list(context_positions.shape))
        q_at = k_at = _positions("positions", x, positions, self.axes)
        x = source = self._placed(x, q_at)
        if context is not None:
            check_input(WHERE, "context", context, self.embed_dim, batch=x.shape[0])
            self._refuse_unplaced(positions, context_positions)
            k_at = _positions("context_positions", context, context_positions, self.axes)
            source = self._placed(context, k_at)
        q, k, v = self._projected(x, source)
        read = read_mask(WHERE, mask, mask_sense, (x.shape[0], self.num_heads, x.shape[1], k.shape[2]))
        return self._attended(q, k, v, q_at, k_at, read, self.training)

    @torch.no_grad()
    def step(
        self, x: Tensor, *, positions: Tensor | None = None, mask: Tensor | None = None, mask_sense: Sense | None = None
    ) -> Tensor:
        """Outputs [B, n, E] of n new tokens, which see themselves and, through the cache, all before: rows of `forward`.

        positions  of the new tokens, [n] or [B, n], given in every step of a sequence or in none (they count on from 0)
        mask       as in `forward`, with Lq = n and Lk all tokens so far

        No gradient. After a change of weights, and before another sequence, call `reset()`.
        """
        where = f"{WHERE}.step"
        require(where, "causal", self.causal, "True", False, "Otherwise every new token would change earlier outputs.")
        check_input(where, "x", x, self.embed_dim)
        if positions is not None:
            check_positions(where, "positions", positions, x.shape[1], x.shape[0])
        at = self._past.place(where, x, positions)
        length = self._past.length + x.shape[1]
        read = read_mask(where, mask, mask_sense, (x.shape[0], self.num_heads, x.shape[1], length))
        x = self._placed(x, at)
        q, k, v = self._projected(x, x)
        keys, values, k_at = self._past.append(where, k, v, at)
        return self._attended(q, keys, values, at, k_at, read, False)

    def reset(self) -> None:
        """Forget the tokens of all steps."""
        self._past = Past()

    def extra_repr(self) -> str:
        return f"embed_dim={self.embed_dim}, num_heads={self.num_heads}, causal={self.causal}, scale={self.scale:.4g}"

    def _refuse_unplaced(self, positions: Tensor | None, context_positions: Tensor | None) -> None:
        relative = ("rotation", "bias", "logits")
        looking = [name_of(part.settings) for part in self._parts() if part.settings.form in relative]
        looking += ["causal"] * self.causal
        if looking and (positions is None or context_positions is None):
            raise ValueError(
                f"{WHERE}: with a context, `positions` and `context_positions` must both be given, because {looking[0]} looks "
                "at the distance between them. To count both from 0 give torch.arange(Lq) and torch.arange(Lk)."
            )

    def _parts(self) -> list[Any]:
        return list(self.schemes.values())

    def _of(self, form: str) -> list[Any]:
        return [part for part in self._parts() if part.settings.form == form]

    def _placed(self, x: Tensor, at: Tensor) -> Tensor:
        for embedding in self._of("embedding"):
            x = (x + embedding.ask("encode", dtype=working(x.dtype), positions=at)).to(x.dtype)
        return x

    def _projected(self, x: Tensor, source: Tensor) -> list[Tensor]:
        D = self.embed_dim // self.num_heads
        projected = (self.query(x), self.key(source), self.value(source))
        return [y.unflatten(-1, (-1, D)).transpose(1, 2) for y in projected]

    def _attended(self, q: Tensor, k: Tensor, v: Tensor, q_at: Tensor, k_at: Tensor, read: Mask, training: bool) -> Tensor:
        seen, added = read
        logits, heard = self._logits(q, k, q_at, k_at)
        if added is not None:
            logits = logits + added.to(logits.dtype)
        if heard is not None:
            seen = heard if seen is None else seen & heard
        weights = dropped(softmax(logits, visible(q_at, k_at, seen, self.causal)), self.dropout, training)
        out = mixed(weights, v)
        for content in self._of("logits"):
            if content.has("values"):
                at = {"query_positions": q_at, "key_positions": k_at}
                out = out + content.ask("values", dtype=weights.dtype, weights=weights, **at)
        return self.output(out.to(q.dtype).transpose(1, 2).flatten(2))

    def _logits(self, q: Tensor, k: Tensor, q_at: Tensor, k_at: Tensor) -> tuple[Tensor, Tensor | None]:
        """The scores before any mask, and which keys the schemes leave (−inf hides, and an empty row must be known)."""
        logits, heard = self._content(q, k, q_at, k_at), None
        for bias in self._of("bias"):
            added = bias(q_at, k_at, dtype=logits.dtype)
            heard = _left(heard, added)
            logits = logits + (added * self.scale if getattr(bias.settings, "scale_bias", False) else added)
        for content in self._of("logits"):
            at = {"query_positions": q_at, "key_positions": k_at, "lent": lent(content.settings, self)}
            term = content.ask("term", dtype=logits.dtype, q=q, k=k, scale=self.scale, **at)
            heard = _left(heard, term) if getattr(content.settings, "hides", False) else heard
            logits = logits + term
        return logits, heard

    def _content(self, q: Tensor, k: Tensor, q_at: Tensor, k_at: Tensor) -> Tensor:
        for rotation in self._of("rotation"):
            dependent = getattr(rotation.settings, "length_dependent", False)
            n = context_of(q_at, k_at) if dependent else None
            q = rotation.ask("rotate", dtype=q.dtype, x=q, positions=q_at, role="query", sequence_length=n)
            k = rotation.ask("rotate", dtype=k.dtype, x=k, positions=k_at, role="key", sequence_length=n)
        for name, content in self._own_content.items():  # a cosine in place of scale · q · k
            params = {n: p.to(working(q.dtype)) for n, p in self.schemes[name].named_parameters(recurse=False)}
            return content(settings=self.schemes[name].settings, params=params, q=q, k=k)
        return score(q, k, self.scale)


def _left(heard: Tensor | None, added: Tensor) -> Tensor:
    """The keys heard so far that one more term does not hide."""
    left = (added != -torch.inf)[(None,) * (4 - added.ndim)]
    return left if heard is None else heard & left


def _positions(argument: str, x: Tensor, positions: Tensor | None, axes: int) -> Tensor:
    if positions is None and axes == 1:
        return torch.arange(x.shape[1], device=x.device)
    check_positions(WHERE, argument, positions, x.shape[1], x.shape[0], axes)
    assert positions is not None  # it has just been checked
    return positions


def _check_sizes(embed_dim: int, num_heads: int, num_kv_heads: int) -> None:
    divides = num_heads >= 1 and embed_dim % num_heads == 0
    require(WHERE, "num_heads", divides, f"a divisor of embed_dim = {embed_dim}", num_heads)
    even = num_kv_heads >= 1 and num_heads % num_kv_heads == 0
    require(WHERE, "num_kv_heads", even, f"a divisor of num_heads = {num_heads}", num_kv_heads)


def _check_numbers(dropout: float, init_std: float, weight_std: float | None) -> None:
    require(WHERE, "dropout", 0 <= dropout < 1, "at least 0 and less than 1", dropout)
    require(WHERE, "init_std", init_std >= 0, "0 or more", init_std)
    require(WHERE, "weight_std", weight_std is None or weight_std >= 0, "0 or more, or None", weight_std)
