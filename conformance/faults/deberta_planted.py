"""Faulty implementations of disentangled attention that are more than a wrong definition: shapes, dtypes, memory, gradients."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from relpos.conformance.faults.api import Planted
from relpos.spec.deberta import DeBERTa

CODE = {"share_att_key": False, "terms": "both", "indices": "code"}
TRACED = 5  # queries of the first compiled call
ANY_TERMS = {"share_att_key": False, "indices": "code"}


def _rows(settings: DeBERTa, queries: Tensor, keys: Tensor) -> Tensor:
    """δ of all pairs, right."""
    found = [[settings.row(i, j) for j in keys.tolist()] for i in queries.tolist()]
    return torch.tensor(found, dtype=torch.int64).reshape(len(queries), len(keys))


def _score(q: Tensor, k: Tensor, by_query: Tensor, by_key: Tensor, scale: float) -> Tensor:
    """scale · (q · k + q · by_query + k · by_key), a vector per pair and head."""
    content = q @ k.transpose(-1, -2)
    position = torch.einsum("bhid,hijd->bhij", q, by_query) + torch.einsum("bhjd,hijd->bhij", k, by_key)
    return scale * (content + position)


def not_turned(settings, q, k, pos_key, pos_query, query_positions, key_positions, scale) -> Tensor:
    """The index of p2c without the transpose that follows it: right on the diagonal alone."""
    r = _rows(settings, query_positions, key_positions)
    return _score(q, k, pos_key[:, r], pos_query[:, _rows(settings, key_positions, query_positions).T], scale)


def square_only(settings, q, k, pos_key, pos_query, query_positions, key_positions, scale) -> Tensor:
    """p2c's index built from the queries on both sides: a crash where there are more keys."""
    r, square = _rows(settings, query_positions, key_positions), _rows(settings, query_positions, query_positions)
    c2p = (q @ pos_key.transpose(-1, -2)).gather(-1, r.expand(*q.shape[:2], -1, -1))
    p2c = (k @ pos_query.transpose(-1, -2)).gather(-1, square.T.expand(*q.shape[:2], -1, -1))
    return scale * (q @ k.transpose(-1, -2) + c2p + p2c.transpose(-1, -2))


def crashes_alone(settings, params: Mapping[str, Tensor], q, k, query_positions, key_positions, scale) -> Tensor:
    """p2c takes its index from where c2p left it."""
    score = q @ k.transpose(-1, -2)
    if "pos_key" in params:
        r = _rows(settings, query_positions, key_positions)
        score = score + torch.einsum("bhid,hijd->bhij", q, params["pos_key"][:, r])
    if "pos_query" in params:
        score = score + torch.einsum("bhjd,hijd->bhij", k, params["pos_query"][:, r])
    return scale * score


def always_float(settings, q, k, pos_key, pos_query, query_positions, key_positions, scale) -> Tensor:
    """Tables cast to float32 and multiplied by whatever dtype q has."""
    r = _rows(settings, query_positions, key_positions)
    c2p = (q @ pos_key.float().transpose(-1, -2)).gather(-1, r.expand(*q.shape[:2], -1, -1))
    p2c = (k @ pos_query.float().transpose(-1, -2)).gather(-1, r.T.expand(*q.shape[:2], -1, -1)).transpose(-1, -2)
    return scale * (q @ k.transpose(-1, -2) + c2p + p2c)


def scaled_late(settings, q, k, pos_key, pos_query, query_positions, key_positions, scale) -> Tensor:
    """The scale after the product: in float16 the product is infinite by then."""
    r = _rows(settings, query_positions, key_positions)
    return _score(q, k, pos_key[:, r], pos_query[:, r], 1.0) * scale


class _Assigned(torch.autograd.Function):
    """table[:, r], whose backward writes where it should add."""

    @staticmethod
    def forward(ctx, table: Tensor, r: Tensor) -> Tensor:
        ctx.save_for_backward(r)
        ctx.shape = table.shape
        return table[:, r]

    @staticmethod
    def backward(ctx, gradient: Tensor):
        (r,) = ctx.saved_tensors
        found = gradient.new_zeros(ctx.shape)
        found[:, r.flatten()] = gradient.flatten(1, 2)
        return found, None


def assigned(settings, q, k, pos_key, pos_query, query_positions, key_positions, scale) -> Tensor:
    """A row used by several pairs keeps the gradient of one of them."""
    r = _rows(settings, query_positions, key_positions)
    return _score(q, k, _Assigned.apply(pos_key, r), _Assigned.apply(pos_query, r), scale)


def detached(settings, q, k, pos_key, pos_query, query_positions, key_positions, scale) -> Tensor:
    """The queries' table does not learn."""
    r = _rows(settings, query_positions, key_positions)
    return _score(q, k, pos_key[:, r], pos_query.detach()[:, r], scale)


def frozen_beside(settings, q, k, pos_key, pos_query, query_positions, key_positions, scale) -> Tensor:
    """Nothing is saved for backward where only the tables need a gradient."""
    r = _rows(settings, query_positions, key_positions)
    with torch.set_grad_enabled(q.requires_grad or k.requires_grad):
        return _score(q, k, pos_key[:, r], pos_query[:, r], scale)


def scaled_in_place(settings, q, k, pos_key, pos_query, query_positions, key_positions, scale) -> Tensor:
    """q is multiplied by the scale where it lies."""
    r = _rows(settings, query_positions, key_positions)
    q *= scale
    return _score(q, k * scale, pos_key[:, r], pos_query[:, r], 1.0)


class KeptByLength(nn.Module):
    """Rows kept by the number of queries and keys, whatever the offset."""

    def __init__(self, settings: DeBERTa) -> None:
        super().__init__()
        self.settings = settings
        self.kept: dict[tuple[int, ...], Tensor] = {}

    def forward(self, q, k, pos_key, pos_query, query_positions, key_positions, scale) -> Tensor:
        size = (len(query_positions), len(key_positions))
        r = self.kept.setdefault(size, _rows(self.settings, query_positions, key_positions))
        return _score(q, k, pos_key[:, r], pos_query[:, r], scale)


class ProjectedOnce(nn.Module):
    """Tables projected in the first call and kept while their embeddings are trained."""

    def __init__(self, settings: DeBERTa) -> None:
        super().__init__()
        self.settings = settings
        for name, shape in settings.parameters().items():
            self.register_parameter(name, nn.Parameter(torch.zeros(shape)))
        self.kept: list[Tensor] = []

    def forward(self, q, k, query_positions, key_positions, scale) -> Tensor:
        own = dict(self.named_parameters())
        if not self.kept:
            sides = [own["rel_embeddings"] @ own[f"w_{s}"].T + own[f"b_{s}"] for s in ("key", "query")]
            self.kept = [t.detach().unflatten(-1, (self.settings.num_heads, -1)).transpose(0, 1) for t in sides]
        r = _rows(self.settings, query_positions, key_positions)
        return _score(q, k, self.kept[0][:, r], self.kept[1][:, r], scale)


def frozen_by_tracer(q, k, pos_key, pos_query, query_positions, key_positions, scale) -> Tensor:
    """Rows of the length that was traced: later positions are taken for its last."""
    K = pos_key.shape[-2] // 2
    far = query_positions[:, None] - key_positions
    r = (far.clamp(1 - TRACED, TRACED - 1) if torch.compiler.is_compiling() else far).clamp(-K, K - 1) + K
    return _score(q, k, pos_key[:, r], pos_query[:, r], scale)


def addresses_wrap(settings, q, k, pos_key, pos_query, query_positions, key_positions, scale) -> Tensor:
    """c2p read at addresses of 16 bits: what lies beyond 2^16 numbers is read at the front."""
    r = _rows(settings, query_positions, key_positions)
    products = (q @ pos_key.transpose(-1, -2)).flatten()
    first = torch.arange(q.shape[0] * q.shape[1] * q.shape[2]).view(*q.shape[:3], 1) * pos_key.shape[-2]
    c2p = products[(first + r) % 2**16]
    p2c = (k @ pos_query.transpose(-1, -2)).gather(-1, r.T.expand(*q.shape[:2], -1, -1)).transpose(-1, -2)
    return scale * (q @ k.transpose(-1, -2) + c2p + p2c)


SHARED = {**CODE, "share_att_key": True}
CLIPPED = {**CODE, "version": "v1", "num_buckets": None, "clamp": False}
F16 = {"dtypes": ("float32", "float16")}
HALF = {"dtypes": ("float32", "bfloat16")}
PLANTED = (
    Planted("not-turned", "p2c's index without its transpose", "L11", not_turned, ("B058",), CODE),
    Planted("square-only", "p2c as if there were as many queries as keys", "L3", square_only, ("B054",), CODE),
    Planted("crashes-alone", "a crash under p2c alone", "L26", crashes_alone, ("B055",), ANY_TERMS),
    Planted("always-float", "tables cast to float32 whatever q is", "L18", always_float, ("B062",), CODE, HALF),
    Planted("scaled-late", "the scale after a product that float16 cannot hold", "L18", scaled_late, ("B061",), CODE, F16),
    Planted("gradient-assigned", "table gradients that are written, not added", "L20", assigned, ("B134",), CODE),
    Planted("detached", "a table that gets no gradient", "L20", detached, (), CODE),
    Planted("frozen-beside", "no table gradient while q and k are frozen", "L20", frozen_beside, ("B133",), CODE),
    Planted("scaled-in-place", "q scaled in place", "L4", scaled_in_place, (), CODE),
    Planted("kept-by-length", "rows kept by lengths, whatever the offset", "L4", KeptByLength, (), CODE),
    Planted(
        "frozen-by-tracer",
        "rows frozen at the length that was traced",
        "L24",
        frozen_by_tracer,
        ("B060",),
        {**CLIPPED, "max_distance": 16},
    ),
    Planted(
        "addresses-wrap", "addresses of products that wrap", "L25", addresses_wrap, ("B065",), {**CLIPPED, "max_distance": 32}
    ),
    Planted("projected-once", "projected tables kept while they are trained", "L4", ProjectedOnce, (), SHARED),
)
