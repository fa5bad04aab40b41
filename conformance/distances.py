"""Every distance of query and key, one by one, against the row of the table that the definition reads there.

The definition's row is a step function of the distance, since it comes from comparisons of whole numbers that rise with it;
so its edges are found by halving, and all distances between two edges have one row. What an implementation reads is looked
at distance by distance: in blocks of one query against many keys.
"""

from dataclasses import dataclass

import numpy as np

from relpos.conformance.answers import answer, prepared
from relpos.conformance.judge import LawFailure
from relpos.conformance.plan import Inputs, Plan
from relpos.conformance.rows import NOTHING, SLACK, STEP, TABLE, holding, power, ramp, spoken, steps, tables, want_at
from relpos.conformance.subject import Subject
from relpos.spec.positions import Explicit, Positions, Range

SIDES = ("before", "after")  # the query
BLOCK = 4096  # keys of one call
# Under a softmax one key more or less moves a mean over n keys by 1/n; sums of n terms are rounded by 2·n·u, a fourth of half
# of that for so many keys in float32.
WEIGHED = 1024
UNSEEN = -30.0  # a logit whose weight is lost beside others, and that every dtype here holds
WIDTH = 2  # of heads
SQUARE = 1024  # the farthest distance where all pairs of that many tokens are owed


def told(subject: Subject, plan: Plan, name: str) -> Plan:
    """The plan in few words: a table; which distances is for `blocks` to say."""
    least = {"head_dim": WIDTH, "embed_dim": WIDTH, "num_heads": 1}
    widths = {n: size for n, size in least.items() if n in plan.settings and n in subject.free}
    H = plan.heads if "num_heads" in subject.fixed else 1
    D = plan.head_dim if {"head_dim", "embed_dim"} & set(subject.fixed) else WIDTH
    return plan.but(
        settings={**plan.settings, **widths}, batch=1, heads=H, kv_heads=None, query_length=1, head_dim=D, offset=0,
        query_positions=None, key_positions=None, causal=False, mask="none", extra={} if name == TABLE else {"table": name},
    )  # fmt: skip


def blocks(subject: Subject, plan: Plan, most: int, edges: int) -> list[Plan]:
    """All distances up to `most` that the subject claims, on both sides, the nearest first; then, up to `edges`, every edge."""
    name, settings = plan.extra.get("table", TABLE), subject.cls(**plan.settings)
    if most == 0 or name not in tables(settings):
        return []
    found = [(first, last, side) for first, last in _spans(subject, most) for side in _sides(subject)]
    far = _farthest(subject, edges)
    if far > most:
        for side in _sides(subject):
            changes = steps(settings, name, side, power(far))[0].tolist()
            found += [(e - 1, e, side) for e in (*(e for e in changes if e < far), far) if e > most]
    return [_of(plan, *span) for span in found]


def _of(plan: Plan, nearest: int, farthest: int, side: str) -> Plan:
    extra = {**plan.extra, "nearest": nearest, "farthest": farthest, "side": side}
    return plan.but(key_length=farthest - nearest + 1, extra=extra)


def _spans(subject: Subject, most: int) -> list[tuple[int, int]]:
    """First and last distance of every block; where all keys up to the farthest are owed, blocks double."""
    most, size = _farthest(subject, most), WEIGHED if subject.level == "attention" else BLOCK
    found, first = [], 0
    while first <= most:
        last = min(first + size - 1, most)
        found.append((first, last))
        first = last + 1
        size = size if _anywhere(subject) else 2 * size
    return found


def _anywhere(subject: Subject) -> bool:
    """Whether keys can lie far from the query without all between being there."""
    return subject.positions == "arbitrary" and not subject.one_length and subject.kind != "decoder"


def _sides(subject: Subject) -> tuple[str, ...]:
    causal = subject.card.softmax == "causal" or subject.kind == "decoder"
    in_corner = subject.positions == "contiguous" and not subject.one_length
    return SIDES[:1] if causal or in_corner else SIDES


def _farthest(subject: Subject, most: int) -> int:
    """The farthest distance up to `most` that can be asked about and is claimed; −1: none can."""
    most = min(most, subject.card.max_position)
    if _anywhere(subject):
        return most
    if subject.level == "attention":
        return -1  # a softmax over so many keys shows no single one
    most = most if subject.card.max_length is None else min(most, subject.card.max_length - 1)
    return min(most, SQUARE) if subject.one_length or subject.kind == "decoder" else most


def check(subject: Subject, plan: Plan) -> float:
    """Exactly the definition's row at every distance of the block; otherwise the nearest distance that reads another one."""
    first, last = plan.extra["nearest"], plan.extra["farthest"]
    if not _wrong(subject, plan):
        return 0.0
    while first < last:
        middle = (first + last) // 2
        if _wrong(subject, _of(plan, first, middle, plan.extra["side"])):
            last = middle
        elif _wrong(subject, _of(plan, middle + 1, last, plan.extra["side"])):
            first = middle + 1
        else:
            break  # it takes this many keys
    found = _of(plan, first, last, plan.extra["side"])
    raise LawFailure(_words(subject, found), plan=found)


def _wrong(subject: Subject, plan: Plan) -> bool:
    block = _laid_out(subject, plan)
    if subject.level == "attention":
        return _misweighed(subject, block)
    return bool((np.abs(_read(subject, block) - block.want) > SLACK).any())


@dataclass(frozen=True)
class _Block:
    """One query (as many as keys, where that is owed), keys, their distances and rows; asked: which of them are looked at."""

    given: Inputs
    table: str
    before: bool
    distance: np.ndarray
    asked: np.ndarray
    want: np.ndarray

    @property
    def content(self) -> str | None:
        """What a row of the table meets."""
        return tables(self.given.settings)[self.table][0]


def _laid_out(subject: Subject, plan: Plan) -> _Block:
    """Where keys can lie anywhere, the query's own is among them: rows under a softmax are told from its row."""
    near, far, before = plan.extra["nearest"], plan.extra["farthest"], plan.extra["side"] == "before"
    away = np.arange(far + 1)
    if _anywhere(subject):
        away = np.concatenate([[0], np.arange(max(near, 1), far + 1)])
    distance = away[::-1] if before else away
    query = far if before else 0
    keys: Positions = Explicit(query - distance if before else distance)
    queries: Positions = Explicit([query]) if _anywhere(subject) else keys
    if subject.positions != "arbitrary":
        keys, queries = Range(0, far + 1), Range(query, 1)
    queries = keys if subject.one_length else queries
    name = plan.extra.get("table", TABLE)
    given = _bare(subject, plan, queries, keys)
    return _Block(given, name, before, distance, distance >= near, want_at(given.settings, name, plan.extra["side"], distance))


def _bare(subject: Subject, plan: Plan, queries: Positions, keys: Positions) -> Inputs:
    """Inputs without content: drawing some for thousands of keys would take most of the time."""
    one = (0,) if subject.positions == "arbitrary" else None
    small = plan.but(query_length=1, key_length=1, query_positions=one, key_positions=one, extra={})
    sizes, lengths = (plan.batch, plan.heads), {"q": len(queries), "k": len(keys), "v": len(keys)}
    empty = {side: np.zeros((*sizes, n, plan.head_dim)) for side, n in lengths.items()}
    whole = small.but(query_length=len(queries), key_length=len(keys))
    return prepared(subject, small).but(plan=whole, query_positions=queries, key_positions=keys, **empty)


def _read(subject: Subject, block: _Block) -> np.ndarray:
    """Rows as they are read, [H, Lk]; those of keys out of the block are taken as right."""
    probe = holding(block.given, block.table, block.content, ramp(block.given, block.table))
    value = next(iter(answer(subject, probe).values()))
    value = (value if value.ndim == 3 else value[0])[:, -1 if block.before else 0]
    if subject.card.softmax == "causal":  # right up to a constant per query: counted from the nearest key
        nearest = -1 if block.before else 0
        value = value - value[:, [nearest]] + STEP * (block.want[nearest] + 1)
    return np.where(block.asked, value / STEP - 1, block.want)


def _misweighed(subject: Subject, block: _Block) -> bool:
    """Rows of the block are numbered from 1 and their bits are asked about one after another.

    Keys whose row has the bit are seen, all others (and rows that nobody should read) are not. If every key reads its row,
    the first column, 1 for keys that should be seen, comes out as 1, and the second, +1 and −1 by turns, as their mean.
    """
    nothing, there = block.want == NOTHING, np.unique(block.want[block.want != NOTHING])
    code = np.where(nothing, 0, np.searchsorted(there, block.want) + 1)
    for bit in range(len(there).bit_length() + 1):  # in the last one no row is seen, so that keys without one would be
        asked = (code >> bit & 1 == 1) | nothing
        numbers = np.full(block.given.params[block.table].shape[-2], UNSEEN)
        numbers[there[np.arange(1, len(there) + 1) >> bit & 1 == 1]] = 0.0
        asked = asked if asked.any() else ~asked  # none above the others: all alike
        probe = holding(block.given, block.table, block.content, numbers)
        turns = np.where(asked, 1 - 2 * (np.cumsum(asked) % 2), 0.0)
        probe.v[..., 0], probe.v[..., 1] = asked, turns
        out = answer(subject, probe)["output"][0, :, 0, :2]
        if not (np.abs(out - [1.0, turns.sum() / asked.sum()]) <= 1 / (2 * len(asked))).all():
            return True
    return False


def _words(subject: Subject, plan: Plan) -> str:
    block = _laid_out(subject, plan)
    got = (_by_weight if subject.level == "attention" else _read)(subject, block)
    wrong = np.argwhere(~(np.abs(got - block.want) <= SLACK))
    if not len(wrong):
        near, far = plan.extra["nearest"], plan.extra["farthest"]
        return f"keys at distances {near} to {far} {plan.extra['side']} the query, together, read other rows than their own"
    h, key = min(wrong.tolist(), key=lambda cell: (block.distance[cell[1]], cell[0]))
    d = -int(block.distance[key]) if block.before else int(block.distance[key])
    return f"at key − query = {d} head {h} reads {spoken(float(got[h, key]))} in place of {spoken(float(block.want[key]))}"


def _by_weight(subject: Subject, block: _Block) -> np.ndarray:
    """The row of the farthest key, by its weight beside that of the query's own; right for others."""
    probe = holding(block.given, block.table, block.content, ramp(block.given, block.table))
    own, other = (-1, 0) if block.before else (0, -1)
    probe.v[:, :, own, 0], probe.v[:, :, other, 1] = 1.0, 1.0
    out = answer(subject, probe)["output"][0, :, 0]
    got = np.repeat(block.want[None].astype(float), len(out), axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        got[:, other] = np.log(out[:, 1] / out[:, 0]) / STEP + block.want[own]
    return got
