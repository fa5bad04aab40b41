"""L7: every allowed key has influence, no forbidden one has."""

import numpy as np

from relpos.conformance.answers import answer, prepared, undeclared
from relpos.conformance.expected import parts, visible
from relpos.conformance.judge import LawFailure
from relpos.conformance.laws.base import Law
from relpos.conformance.placing import moved
from relpos.conformance.plan import Inputs, Plan
from relpos.conformance.scopes import Scope, of_sizes, sizes
from relpos.conformance.smoke import smoke_plan
from relpos.conformance.strategies import masks_of, plans
from relpos.conformance.subject import Subject
from relpos.conformance.tolerance import units


def check(subject: Subject, plan: Plan) -> float:
    """Moves the value of one key at a time and looks which queries notice."""
    given = prepared(subject, plan)
    seen, weights = visible(given), parts(given).weights * ~undeclared(subject, given)[:, None, :, None]
    influence = _influence(subject, given)
    leaks = np.argwhere((influence != 0) & ~seen)
    deaf = np.argwhere((influence == 0) & (weights > units(plan.dtype).u))
    where = _where(given)
    if len(leaks):
        _, _, i, j = leaks[0]
        raise LawFailure(
            f"query {i} sees key {j}, which is hidden from it ({where})", plan=plan, facts=_facts(influence, seen, leaks[0])
        )
    if len(deaf):
        _, _, i, j = deaf[0]
        raise LawFailure(
            f"query {i} does not see key {j}, which it may attend to ({where})",
            plan=plan,
            facts=_facts(influence, seen, deaf[0]),
        )
    return 0.0


def _influence(subject: Subject, given: Inputs) -> np.ndarray:
    """How much the output of each query moves with each key's value, [B, H, Lq, Lk]."""
    silent = given.but(v=np.zeros_like(given.v))
    still = answer(subject, silent)["output"]
    columns = []
    for j in range(given.k.shape[2]):
        v = np.zeros_like(given.v)
        v[:, :, j] = 1.0
        columns.append(np.abs(answer(subject, given.but(v=v))["output"] - still).max(axis=-1))
    return np.stack(columns, axis=-1)


def _where(given: Inputs) -> str:
    queries, keys = given.query_positions.row(0), given.key_positions.row(0)
    first, last = next(iter(queries), 0), list(keys)[-1] if len(keys) else 0
    return f"query 0 is at position {first}, the last key at {last}, Lq = {len(queries)}, Lk = {len(keys)}"


def _facts(influence: np.ndarray, seen: np.ndarray, cell: np.ndarray) -> dict:
    b, h = int(cell[0]), int(cell[1])
    return {
        "got": (influence[b, h] != 0).astype(int).tolist(),
        "expected": seen[b, h].astype(int).tolist(),
        "table": "who sees whom",
    }


def _applies(subject: Subject) -> str | None:
    if subject.level != "attention":
        return "judged at attention level"
    masked = {"causal", "mask", "padding_mask"} & subject.asks or subject.kind == "decoder" or subject.card.softmax == "causal"
    return None if masked else "no mask and no causal flag is asked for"


def _pinned(subject: Subject) -> list[Plan]:
    """Every mask with and without the causal flag, and queries that lie neither at the first keys nor at the last."""
    plan = smoke_plan(subject)
    flags = (True, False) if "causal" in subject.asks else (plan.causal,)
    found = [plan.but(causal=causal, mask=mask) for causal in flags for mask in masks_of(subject)]
    if flags[0] and plan.query_positions is not None and not subject.one_length:
        found.append(plan.but(causal=True, query_positions=moved(plan.query_positions, -1)))
    return found


def _exhausted(subject: Subject, scope: Scope) -> list[Plan]:
    """Both corners of every size, as far as the subject can be told them."""
    if subject.on_grid:
        return []
    found = sizes(subject, scope, settings=False, corners=True)
    causal = [plan for plan in found if plan.causal]
    return causal or [plan.but(mask="random" if "mask" in subject.asks else "padding") for plan in found]


LAW = Law(
    name="L7",
    title="masks hide what they should",
    slug="masks",
    why="A key that is hidden and still counts leaks the future into training; an allowed one that does not is lost context.",
    statement="Every allowed key has influence and no forbidden one has; causal hides keys at positions after the query's.",
    check=check,
    plans=lambda subject: plans(
        subject,
        min_queries=2,
        min_keys=2,
        contents=("normal",),
        dtypes=subject.dtypes[:1],
        far=False,
        listed=True,
        scales=False,
    ),
    applies=_applies,
    pinned=_pinned,
    exhausted=_exhausted,
    covers=of_sizes,
    share=0.4,
)
