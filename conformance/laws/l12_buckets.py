"""L12: every distance reads the row of the table that it should; rows are whole numbers and compared exactly."""

from typing import Any

import numpy as np
from hypothesis import strategies as st

from relpos.conformance import distances
from relpos.conformance.answers import answer, past, prepared
from relpos.conformance.judge import LawFailure
from relpos.conformance.laws.base import Law
from relpos.conformance.plan import Inputs, Plan
from relpos.conformance.rows import NOTHING, SLACK, STEP, TABLE, Row, holding, ramp, spoken, tables
from relpos.conformance.scopes import Scope, of_distances
from relpos.conformance.settings import legal
from relpos.conformance.smoke import smoke_plan
from relpos.conformance.strategies import plans
from relpos.conformance.subject import Subject, cls_parameters

REACH = 300  # distances tried each way: every edge of 32 buckets up to 256, and the clip of 128
EXACT = {"float64": 2**53, "float32": 2**24, "float16": 2**11, "bfloat16": 2**8}  # whole numbers that a dtype holds
MAIN = 2  # settings, of those in use, that are walked the farthest
COLUMNS = 48  # of the values, each of which shows the weight of one key


def check(subject: Subject, plan: Plan) -> float:
    """The table is a ramp, (row + 1)·STEP, and there is no content: what comes back says which row was read.

    Weights say it up to a constant per query, and as many of them are seen as v has columns: those beside edges. Rows that
    rise with distance and are right on both sides of every edge are right everywhere.
    """
    if "nearest" in plan.extra:
        return distances.check(subject, plan)
    given = prepared(subject, _laid_out(subject, plan, plan.extra["reach"], plan.extra["start"]))
    name = plan.extra.get("table", TABLE)
    if name not in (there := tables(given.settings)):
        return 0.0
    content, row = there[name]
    want = _prescribed(given, row)
    shown = _shown(subject, given, want)
    probe = _probe(given, shown, name, content)
    got, seen = _read(subject, probe, want, shown)
    wrong = seen & ~(np.abs(got - want) <= SLACK)
    if wrong.any():
        raise LawFailure(_words(probe, got, want, wrong), plan=plan)
    return 0.0


def _shown(subject: Subject, given: Inputs, want: np.ndarray) -> np.ndarray:
    """Keys whose weights are looked at: the first and last query's own, then those on both sides of an edge, then any."""
    n, width = want.shape[1], given.v.shape[-1]
    if subject.level != "attention" or n <= width:
        return np.arange(n)
    keys, queries = list(given.key_positions), list(given.query_positions)
    own = {keys.index(i) for i in (queries[0], queries[-1])}
    edges = {int(j) for row in want[[0, -1]] for e in np.flatnonzero(np.diff(row)) for j in (e, e + 1)} - own
    rest = sorted(set(range(n)) - edges - own)
    order = np.random.default_rng(given.plan.seed)
    return np.array([*own, *order.permutation(sorted(edges)), *order.permutation(rest)], dtype=np.int64)[:width]


def _probe(given: Inputs, shown: np.ndarray, name: str, content: str | None) -> Inputs:
    probe = holding(given, name, content, ramp(given, name))
    for column, key in enumerate(shown[: probe.v.shape[-1]]):
        probe.v[..., key, column] = 1.0  # the output is then the weights of these keys
    return probe


def _prescribed(given: Inputs, row_of: Row) -> np.ndarray:
    """The definition's rows, [Lq, Lk]."""
    known: dict[int, int] = {}
    queries, keys = list(given.query_positions), list(given.key_positions)
    for i in (queries[0], queries[-1]):
        for j in keys:
            if i - j not in known:
                known[i - j] = NOTHING if (row := row_of(i, j)) is None else row
    return np.array([[known[i - j] for j in keys] for i in queries])


def _read(subject: Subject, given: Inputs, want: np.ndarray, shown: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows as the implementation reads them, [H, Lq, Lk], and where that can be said."""
    value = next(iter(answer(subject, given).values()))
    value = value if value.ndim == 3 else value[0]
    seen = np.ones((len(value), *want.shape), dtype=bool)
    if subject.level == "attention":
        weights = np.ones(seen.shape)
        weights[..., shown] = value[..., : len(shown)]
        seen[..., [j for j in range(want.shape[1]) if j not in set(shown)]] = seen[:, 1:-1] = False
        value = weights
    past_only = given.causal or subject.card.softmax == "causal"
    if past_only:
        seen &= past(given, (*given.q.shape[:3], len(given.key_positions)))[0]
    if subject.level != "attention" and subject.card.softmax != "causal":
        return value / STEP - 1, seen
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.log(value) if subject.level == "attention" else value
        # A softmax leaves a constant per query open: rows are counted from that of the query's own position.
        own = [list(given.key_positions).index(i) for i in given.query_positions]
        at = np.arange(len(own))
        return (value - value[:, at, own][..., None]) / STEP + want[at, own][:, None], seen


def _words(given: Inputs, got: np.ndarray, want: np.ndarray, wrong: np.ndarray) -> str:
    i, j = given.query_positions.array(), given.key_positions.array()
    distances = {int(d) for d in (j - i[:, None])[wrong.any(axis=0)]}
    first = min(distances, key=lambda d: (abs(d), d))
    h, a, b = next(cell for cell in np.argwhere(wrong) if j[cell[2]] - i[cell[1]] == first)
    rest = len(distances) - 1
    more = f", and {rest} more distance{'s are' if rest > 1 else ' is'} wrong" if rest else ""
    return (
        f"at key − query = {first} head {h} reads {spoken(float(got[h, a, b]))} in place of {spoken(float(want[a, b]))}{more}"
    )


def _told(subject: Subject, plan: Plan, reach: int, start: int, table: str = TABLE) -> Plan:
    """The plan in few words: hundreds of positions follow from its reach and start."""
    start = start if subject.positions == "arbitrary" else 0
    sizes = _laid_out(subject, plan, reach, start)
    named = {} if table == TABLE else {"table": table}
    return plan.but(
        batch=1, kv_heads=None, query_length=sizes.query_length, key_length=sizes.key_length, offset=0, content="normal",
        query_positions=None, key_positions=None, dtype=_dtype(subject, plan, table),
        extra={"reach": reach, "start": start, **named},
    )  # fmt: skip


def _laid_out(subject: Subject, plan: Plan, reach: int, start: int) -> Plan:
    """One query amid keys up to `reach` away on both sides; where lengths must be equal, as many queries as keys."""
    square = subject.one_length or subject.kind == "decoder" or subject.positions == "contiguous"
    longest = subject.card.max_length or 2 * reach + 1
    reach = min(reach, longest - 1 if square else (longest - 1) // 2)
    keys = tuple(range(start, start + (reach + 1 if square else 2 * reach + 1)))
    queries = keys if square else (start + reach,)
    listed = subject.positions == "arbitrary"
    return plan.but(
        query_length=len(queries), key_length=len(keys), offset=0 if square or listed else reach, extra={},
        query_positions=queries if listed else None, key_positions=keys if listed else None, **_width(subject, plan),
    )  # fmt: skip


def _width(subject: Subject, plan: Plan) -> dict[str, Any]:
    named = {"head_dim", "embed_dim"} & set(plan.settings)
    if subject.level != "attention" or not named <= set(subject.free):
        return {}
    return {"head_dim": COLUMNS, "settings": {**plan.settings, **dict.fromkeys(named, COLUMNS)}}


def _dtype(subject: Subject, plan: Plan, table: str) -> str:
    """The plan's dtype if it holds the ramp, else the first that does."""
    fit = _dtypes(subject, subject.cls(**plan.settings).parameters().get(table, (0, 0))[-2])
    return plan.dtype if plan.dtype in fit or not fit else fit[0]


def _dtypes(subject: Subject, rows: int) -> list[str]:
    # Logarithms of weights underflow in 16 bits, and a ramp that is scaled is rounded there.
    allowed = ("float32", "float64") if subject.level == "attention" or subject.form == "logits" else tuple(EXACT)
    return [d for d in subject.dtypes if d in allowed and EXACT[d] >= rows]


@st.composite
def _plans(draw: st.DrawFn, subject: Subject) -> Plan:
    plan = draw(plans(subject, masks=("none",), causal=False, far=False, listed=False, scales=False))
    reach, start = draw(st.integers(1, REACH)), draw(st.integers(0, 64))
    return _told(subject, plan, reach, start, draw(st.sampled_from(_names(subject, plan))))


def _pinned(subject: Subject) -> list[Plan]:
    every = _published(subject)
    return [_told(subject, plan, REACH, 7, name) for plan in every for name in _names(subject, plan)]


def _published(subject: Subject) -> list[Plan]:
    """The settings in use, as far as the subject can be told them."""
    base = smoke_plan(subject, heads=2)
    found = []
    for said in getattr(subject.cls, "published", ({},)):
        told: dict[str, Any] = {n: v for n, v in said.items() if n in subject.free}
        settings = {**base.settings, **told}
        if len(told) == len(said) and legal(subject.cls, settings):
            found.append(base.but(settings=settings))
    return found or [base]


def _exhausted(subject: Subject, scope: Scope) -> list[Plan]:
    """Every distance that it claims, under every settings in use, the nearest first."""
    found = []
    for n, plan in enumerate(_published(subject)):
        most = scope.distance if n < MAIN else scope.others
        for name in _names(subject, plan):
            told = distances.told(subject, plan.but(dtype=_dtype(subject, plan, name)), name)
            found += distances.blocks(subject, told, most, scope.edges)
    return found


def _names(subject: Subject, plan: Plan) -> list[str]:
    return list(tables(subject.cls(**plan.settings))) or [TABLE]


def _applies(subject: Subject) -> str | None:
    if subject.on_grid:
        return "rows of a table on several axes are judged by L13"
    table = hasattr(subject.cls, "row") and TABLE in cls_parameters(subject.cls)
    return None if table or hasattr(subject.cls, "lookups") else "the scheme has no table of numbers per distance"


def _claimed(subject: Subject) -> str | None:
    return None if _dtypes(subject, 1) else "rows are read off in float32 or wider at attention level"


LAW = Law(
    name="L12",
    title="rows of the table, exactly",
    slug="buckets",
    why="A learned row read for the wrong distance is a wrong weight; at bucket edges that shows only in long texts.",
    statement="Every distance reads its own row of the table: exact when near, at exact edges, whatever the length and dtype.",
    check=check,
    plans=_plans,
    applies=_applies,
    claimed=_claimed,
    pinned=_pinned,
    exhausted=_exhausted,
    covers=of_distances,
    share=0.4,
)
