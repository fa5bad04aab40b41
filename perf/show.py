"""What a person reads while and after measuring: the machine, the plan, a table of ratios, the changes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from relpos.perf.compare import Change
from relpos.perf.measuring import Options
from relpos.perf.point import CONTROL, LIMIT, Variant
from relpos.perf.rows import MEASURED, UNSTABLE
from relpos.perf.sweep import Sweep

MIB = 2**20
HOLLOW = "○"  # an unstable figure: shown, never ranked


def headline(
    record: Mapping[str, Any], facts: Mapping[str, Any], sweep: Sweep, variants: Sequence[Variant], how: Options
) -> str:
    """The machine and what will be measured on it."""
    shapes = sum(1 for _ in sweep.shapes())
    busy = f"; the machine is busy (load {facts['load']})" if facts["load"] > how.threads / 2 else ""
    return (
        f"{record['processor']}, {how.threads} threads, {record['memory_gib']} GiB, torch {record['torch']}: "
        f"machine {facts['machine']}{busy}\n"
        f"{len(variants)} variants at {shapes} shapes, {how.rounds} rounds each: {', '.join(v.label for v in variants)}"
    )


def table_lines(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """One block per mode, direction and dtype: a line per variant, a column per length."""
    blocks: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for one in rows:
        blocks.setdefault((one["mode"], one["causal"], one["dtype"]), []).append(one)
    for (mode, causal, dtype), found in blocks.items():
        yield f"\n{mode.replace('_', ' + ')}, {'causal' if causal else 'bidirectional'}, {dtype}: time × limit, extra MiB"
        lengths = sorted({one["key_length"] for one in found})
        wide = max(len(one["variant"]) for one in found)
        yield f"{'':<{wide}}" + "".join(f"{n:>18}" for n in lengths)
        for label in dict.fromkeys(one["variant"] for one in found):
            cells = {one["key_length"]: _cell(one) for one in found if one["variant"] == label}
            yield f"{label:<{wide}}" + "".join(f"{cells.get(n, ''):>18}" for n in lengths)
    yield f"\n{HOLLOW} unstable: never ranked. {CONTROL}: the {LIMIT} once more; what differs no more than that is chance."


def _cell(one: Mapping[str, Any]) -> str:
    if one["status"] not in MEASURED:
        return str(one["status"])
    extra = f"{one['extra_bytes'] / MIB:.1f}" if one.get("extra_bytes") is not None else "–"
    time = f"{one['latency_ms']:.2f} ms" if one["variant"] == LIMIT else f"{one['median_of_ratios']:.2f}"
    return f"{HOLLOW if one['status'] == UNSTABLE else ''}{time} {extra:>8}"


def change_lines(found: Sequence[Change]) -> Iterator[str]:
    """A line per point: new over old with its interval, and a word where the interval says so."""
    if not found:
        yield "nothing was measured in both files"
    for one in found:
        word = "slower" if one.slower else "faster" if one.faster else "as before"
        r = one.row
        where = f"{r['variant']} {r['mode']} {'causal' if r['causal'] else 'bidirectional'} {r['dtype']} L = {r['key_length']}"
        yield f"{where}: {one.ratio:.2f} [{one.low:.2f}, {one.high:.2f}] {word}"
