"""L30: shards of a long context, gathered, are the whole."""

import numpy as np
from hypothesis import strategies as st

from relpos.conformance.answers import answer, definition, prepared, silenced, undeclared
from relpos.conformance.expected import AXES
from relpos.conformance.judge import bound_of, compare_within, demand
from relpos.conformance.laws.base import Law, settings_of
from relpos.conformance.placing import within_reach
from relpos.conformance.plan import Inputs, Plan
from relpos.conformance.smoke import smoke_plan
from relpos.conformance.strategies import plans
from relpos.conformance.subject import Subject
from relpos.conformance.tolerance import C
from relpos.spec.positions import Explicit

PADDING = 1  # of the first of two packed documents
QUERY_AXIS = {"rotated key": -2, "embedding": -2, "embedded": -2, "bias": -2, "logits": -2, "rotated query": -2, "output": -2}


def check(subject: Subject, plan: Plan) -> float:
    """Every rank's queries, at their own positions and against all keys, put back in order."""
    given = prepared(subject, plan)
    documents = plan.extra.get("documents", (plan.query_length,))
    if len(documents) > 1 and "mask" in subject.asks:
        given = given.but(mask=_apart(plan, documents))
    whole, padding = answer(subject, given), undeclared(subject, given)
    ranks = spread(documents, plan.extra["ranks"], plan.extra["order"])
    pieces = [silenced(answer(subject, _rank(subject, given, rows)), padding[:, rows]) for rows in ranks if len(rows)]
    back = np.argsort(np.concatenate(ranks))
    largest = 0.0
    for name, want in definition(subject, given).items():
        gathered = np.concatenate([piece[name] for piece in pieces], axis=QUERY_AXIS[name])
        got = np.take(gathered, back, axis=QUERY_AXIS[name])
        bound = 2 * bound_of(want, plan.dtype)
        found = compare_within(got, whole[name], bound, name=name, allowed=C[want.kind], axes=AXES[name])
        packed = f", {len(documents)} documents packed" if len(documents) > 1 else ""
        says = f"gathered from {len(pieces)} ranks ({plan.extra['order']}{packed}), the {name} differs from the whole"
        largest = max(largest, demand(found, says, plan))
    return largest


def shares(length: int, ranks: int, order: str) -> list[np.ndarray]:
    """Rows of every rank: contiguous, or zigzag, where rank r holds chunks r and 2n − 1 − r of 2n."""
    if order == "contiguous":
        return list(np.array_split(np.arange(length), ranks))
    chunks = np.array_split(np.arange(length), 2 * ranks)
    return [np.concatenate([chunks[r], chunks[2 * ranks - 1 - r]]) for r in range(ranks)]


def spread(documents: tuple[int, ...], ranks: int, order: str) -> list[np.ndarray]:
    """Rows of every rank where each document is cut for itself, one after another in the row."""
    starts = np.cumsum((0, *documents[:-1]))
    cut = [shares(n, ranks, order) for n in documents]
    return [np.concatenate([start + rows[r] for start, rows in zip(starts, cut, strict=True)]) for r in range(ranks)]


def _apart(plan: Plan, documents: tuple[int, ...]) -> np.ndarray:
    """A document sees itself; the padding that fills the first one up is hidden from all."""
    of = np.repeat(np.arange(len(documents)), documents)
    seen = of[:, None] == of
    seen[:, documents[0] - PADDING : documents[0]] = False
    return np.broadcast_to(seen, (plan.batch, 1, *seen.shape)).copy()


def _rank(subject: Subject, given: Inputs, rows: np.ndarray) -> Inputs:
    context = given.plan.context_length
    queries = Explicit(given.query_positions.array()[..., rows], context_length=context)
    plan = given.plan.but(query_length=len(rows), query_positions=_listed(queries.array()))
    mask = None if given.mask is None else given.mask[:, :, rows]
    part = given.but(plan=plan, q=given.q[:, :, rows], query_positions=queries, mask=mask)
    if subject.form == "rotation" and subject.level == "contribution":
        keys = Explicit(given.key_positions.array()[..., rows], context_length=context)
        cut = plan.but(key_length=len(rows), key_positions=_listed(keys.array()))
        part = part.but(plan=cut, k=given.k[:, :, rows], v=given.v[:, :, rows], key_positions=keys)
    return part


def _listed(positions: np.ndarray) -> tuple:
    return tuple(tuple(row) if isinstance(row, list) else row for row in positions.tolist())


@st.composite
def _plans(draw: st.DrawFn, subject: Subject) -> Plan:
    plan = draw(plans(subject, min_queries=2, min_keys=2, listed=False, contents=("normal",), far=False))
    return _sharded(subject, plan, draw(st.sampled_from((2, 3))), draw(st.sampled_from(("zigzag", "contiguous"))))


def _sharded(subject: Subject, plan: Plan, ranks: int, order: str) -> Plan:
    """As many queries as keys, at the same positions."""
    n = max(plan.query_length, plan.key_length)
    start = np.array(plan.key_positions).min()
    at = tuple(range(int(start), int(start) + n))
    causal = plan.causal or "causal" in subject.asks
    dependent = getattr(settings_of(subject, plan), "length_dependent", False)
    context = int(start) + n if dependent else None  # of the whole: a rank does not see it
    square = plan.but(query_length=n, key_length=n, query_positions=at, key_positions=at, causal=causal, context_length=context)
    return within_reach(subject, square.but(extra={"ranks": ranks, "order": order}))


def _packed(subject: Subject, plan: Plan) -> list[Plan]:
    """Two documents, padded to what the ranks can share, that both count from 0: `plan` with its positions begun anew."""
    if getattr(settings_of(subject, plan), "length_dependent", False):
        return []  # whose context is it?
    n, first = plan.query_length, plan.query_length // 2
    at = (*range(first), *range(n - first))
    packed = plan.but(query_positions=at, key_positions=at, extra={**plan.extra, "documents": (first, n - first)})
    return [within_reach(subject, packed)]


def _pinned(subject: Subject) -> list[Plan]:
    base = smoke_plan(subject, key_length=8, query_length=8)
    found = [_sharded(subject, base, 2, order) for order in ("zigzag", "contiguous")]
    return found + [packed for plan in found for packed in _packed(subject, plan)]


def _applies(subject: Subject) -> str | None:
    if subject.on_grid:
        return "a window is not spread over ranks"
    if subject.card.softmax == "causal" and subject.level != "attention":
        return "right up to a constant per query, which L3 judges row by row"
    if subject.positions != "arbitrary" or subject.kind == "decoder":
        return "it takes no list of positions"
    alone = subject.level == "contribution" and subject.form in ("rotation", "embedding")
    if alone and hasattr(subject.cls, "length_dependent") and not subject.told_length:
        return "it is not told how long the whole context is"
    return "it takes one length for queries and keys" if subject.one_length and not alone else None


LAW = Law(
    name="L30",
    title="gathered shards are the whole",
    slug="shards",
    why="A context split over devices must give what one device gives; a rank that counts from 0 again does not.",
    statement="Queries spread over ranks, contiguous or zigzag, each at its own position, give the rows of the whole.",
    check=check,
    plans=_plans,
    applies=_applies,
    pinned=_pinned,
    share=0.2,
)
