"""Small scopes are walked through whole: every size, chunking, window and distance there is, the smallest first.

A drawn input may miss the one size at which a kernel is wrong; what is walked cannot. How far is a profile's choice.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import cycle, product
from math import prod
from typing import Any

from relpos.conformance import grids
from relpos.conformance.placing import within_reach
from relpos.conformance.plan import Plan
from relpos.conformance.settings import SIZES, alternatives, bundles, legal
from relpos.conformance.smoke import smoke_plan
from relpos.conformance.subject import Subject

WIDTH = 4  # of heads: two pairs, the fewest at which every rule of scaling has a meaning


@dataclass(frozen=True)
class Scope:
    """How far inputs are walked one by one instead of being drawn.

    length     every number of queries and keys up to it, at every offset up to it; every chunking of as many tokens
    window     every window of at most so many rows and columns
    distance   every distance of query and key up to it, where a table is read by distance and positions go that far
    others     the same under the rarer settings in use
    edges      beyond them, both sides of every edge of a table up to here
    """

    length: int
    window: int
    distance: int
    others: int
    edges: int


def sizes(subject: Subject, scope: Scope, *, settings: bool = True, corners: bool = False) -> list[Plan]:
    """Every size up to the scope's, the smallest first, at every offset (or in both corners alone), causal and not.

    settings   pass on to the next of all named and small settings at every step, until each has had its turn
    """
    base = smoke_plan(subject, batch=1, heads=2, head_dim=WIDTH)
    every = _windows(subject, base, scope) if subject.on_grid else list(_lengths(subject, base, scope, corners))
    every = [plan.but(causal=causal) for plan in every for causal in _causal(subject, base)]
    if not every:
        return []
    turns = _settings(subject, base) if settings else [dict(base.settings)]
    rounds = max(1, -(-len(turns) // len(every)))
    found = [_under(subject, plan, turn) for plan, turn in zip(every * rounds, cycle(turns), strict=False)]
    return [within_reach(subject, plan.but(seed=n)) for n, plan in enumerate(found)]


def _causal(subject: Subject, base: Plan) -> tuple[bool, ...]:
    return (False, True) if "causal" in subject.asks and subject.level == "attention" and not base.causal else (base.causal,)


def _lengths(subject: Subject, base: Plan, scope: Scope, corners: bool) -> Iterator[Plan]:
    """Numbers of queries and keys, and the offset, as far as the subject can be told them."""
    most = min(scope.length, subject.card.max_length or scope.length)
    pairs = sorted(product(range(1, most + 1), repeat=2), key=lambda pair: (pair[0] * pair[1], pair))
    for Lq, Lk in pairs:
        together = subject.one_length or subject.kind == "decoder" or _alone(subject)
        if (together and Lq != Lk) or (subject.positions != "arbitrary" and Lq > Lk):
            continue
        starts = _starts(subject, Lq, Lk, scope.length)
        for start in [s for s in starts if s in (0, Lk - Lq)] if corners else starts:
            queries, keys = tuple(range(start, start + Lq)), tuple(range(Lk))
            listed = base.query_positions is not None
            yield base.but(
                query_length=Lq, key_length=Lk, offset=0 if listed else start,
                query_positions=queries if listed else None,
                key_positions=(queries if together else keys) if listed else None,
            )  # fmt: skip


def _starts(subject: Subject, Lq: int, Lk: int, most: int) -> list[int]:
    """Where the first query may lie when the first key lies at 0."""
    if subject.kind == "decoder" or (subject.positions == "contiguous" and subject.card.corner != "bottom-right"):
        return [0]
    if subject.positions == "contiguous":
        return [Lk - Lq]
    if subject.positions == "offset" and not _alone(subject):
        return [0] if subject.one_length else list(range(Lk - Lq + 1))
    return list(range(most + 1))


def _alone(subject: Subject) -> bool:
    """A rotation or an embedding that sees one side at a time."""
    return subject.level == "contribution" and subject.form in ("rotation", "embedding")


def _windows(subject: Subject, base: Plan, scope: Scope) -> list[Plan]:
    """Whole windows with a side more than there are tokens elsewhere: few of them in a small scope, whose cells all cost."""
    most, special = min(scope.window, scope.length + 1), getattr(subject.cls, "special", 0)
    shapes = [(W, prod(W) + special) for W in windows(subject, most)]
    return [grids.at(subject, base.but(query_length=n, key_length=n), window_size=W) for W, n in shapes]


def windows(subject: Subject, most: int) -> list[tuple[int, ...]]:
    """Every window, square or not, the smallest first; the fixed one alone, where it cannot be told another."""
    base = smoke_plan(subject).settings
    if "window_size" not in subject.free:
        return [base["window_size"]]
    every = sorted(product(range(1, most + 1), repeat=2), key=lambda W: (prod(W), W))
    return [W for W in every if legal(subject.cls, {**base, "window_size": W})]


def _settings(subject: Subject, base: Plan) -> list[dict[str, Any]]:
    """The usual settings, then every other named or small value, and every group, one at a time."""
    usual = dict(base.settings)
    drawn = getattr(subject.cls, "draws", {})
    one = [(n, v) for n, v in alternatives(subject.cls, subject.fixed) if n in subject.free]
    one += [(n, v) for n in subject.free for v in drawn.get(n, ()) if n not in SIZES and n != "window_size"]
    found = [usual, *({**usual, name: value} for name, value in one), *bundles(subject.cls, subject.free, usual)]
    return [settings for n, settings in enumerate(found) if legal(subject.cls, settings) and settings not in found[:n]]


def _under(subject: Subject, plan: Plan, settings: dict[str, Any]) -> Plan:
    """The plan under other settings, its own window apart."""
    own = {"window_size": plan.settings["window_size"]} if subject.on_grid else {}
    return plan.but(settings={**settings, **own}) if legal(subject.cls, {**settings, **own}) else plan


def chunkings(most: int) -> list[tuple[int, ...]]:
    """Every way to cut 1, 2, … `most` tokens into chunks: 2^(n−1) for n tokens, those of few tokens first."""
    found = []
    for n in range(1, most + 1):
        for cuts in product((False, True), repeat=n - 1):
            ends = [p for p, cut in enumerate(cuts, 1) if cut] + [n]
            found.append(tuple(b - a for a, b in zip([0, *ends], ends, strict=False)))
    return found


Covers = Callable[[list[Plan]], str]


def of_sizes(plans: list[Plan]) -> str:
    """What a walk over sizes went through, in words."""
    if not plans:
        return ""
    if any("window_size" in plan.settings for plan in plans):
        return _many(len({plan.settings["window_size"] for plan in plans}), "window")
    return f"{_many(len({(p.query_length, p.key_length, _start(p)) for p in plans}), 'size')} and offsets"


def of_chunks(plans: list[Plan]) -> str:
    """What a walk over chunkings went through, in words."""
    cut = {plan.extra["chunks"] for plan in plans}
    return _many(len(cut), "chunking") if cut else ""


def of_windows(plans: list[Plan]) -> str:
    """What a walk over windows went through, in words."""
    return _many(len({plan.settings["window_size"] for plan in plans}), "window") if plans else ""


def of_distances(plans: list[Plan]) -> str:
    """What a walk over distances went through, in words: how many of how many tables."""
    walked: Counter[str] = Counter()
    for plan in plans:
        near, far, twice = plan.extra["nearest"], plan.extra["farthest"], plan.extra["side"] == "after"
        walked[f"{plan.settings} {plan.extra.get('table')}"] += far - near + 1 - (twice and near == 0)
    alike = Counter(walked.values())
    return " and ".join(f"{n:,} distances of {_many(alike[n], 'table')}" for n in sorted(alike, reverse=True))


def _start(plan: Plan) -> int:
    return plan.query_positions[0] if plan.query_positions else plan.offset


def _many(n: int, word: str) -> str:
    return f"{n:,} {word}{'s' * (n != 1)}"
