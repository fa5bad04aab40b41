"""What a person reads while and after measuring: the machine, the plan, a table of ratios, the changes."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from relpos.perf.compare import Change
from relpos.perf.measuring import LONG, Options
from relpos.perf.point import CONTROL, LIMIT, Variant
from relpos.perf.rows import MEASURED, UNSTABLE, latest
from relpos.perf.sweep import Sweep

MIB = 2**20
NAMED = 5  # points that are named where many lack a column
HOLLOW = "○"  # an unstable figure: shown, never ranked


def machine_line(record: Mapping[str, Any], facts: Mapping[str, Any], threads: int) -> str:
    """What the figures will be of."""
    busy = f"; the machine is busy (load {facts['load']})" if facts["load"] > threads / 2 else ""
    what = f"{record['processor']}, {threads} threads, {record['memory_gib']} GiB, torch {record['torch']}"
    return f"{what}: machine {facts['machine']}{busy}"


def plan_line(sweep: Sweep, variants: Sequence[Variant], how: Options) -> str:
    """What will be measured."""
    shapes = sum(1 for _ in sweep.shapes())
    long = max(sweep.lengths) > LONG and how.long_rounds is not None
    rounds = f"{how.rounds} rounds each" + (f", {how.long_rounds} beyond L = {LONG}" if long else "")
    narrow = f", beyond L = {sweep.narrow_beyond} two of a scheme" if sweep.narrow_beyond in sweep.lengths[:-1] else ""
    return f"{len(variants)} variants at {shapes} shapes{narrow}, {rounds}: {', '.join(v.label for v in variants)}"


def table_lines(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """One block per mode, direction and dtype: a line per variant, a column per length; training with tokens and peak."""
    blocks: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for one in latest(rows).values():
        blocks.setdefault((one["mode"], one["causal"], one["dtype"]), []).append(one)
    for (mode, causal, dtype), found in blocks.items():
        training = mode == "forward_backward"
        figures = "time × limit, 1000 tokens a second, peak MiB" if training else "time × limit, extra MiB"
        yield f"\n{mode.replace('_', ' + ')}, {'causal' if causal else 'bidirectional'}, {dtype}: {figures}"
        lengths = sorted({one["key_length"] for one in found})
        wide, cell = max(len(one["variant"]) for one in found), 24 if training else 18
        yield f"{'':<{wide}}" + "".join(f"{n:>{cell}}" for n in lengths)
        for label in dict.fromkeys(one["variant"] for one in found):
            cells = {one["key_length"]: _cell(one) for one in found if one["variant"] == label}
            yield f"{label:<{wide}}" + "".join(f"{cells.get(n, ''):>{cell}}" for n in lengths)
    yield from _reasons(rows)
    yield f"\n{HOLLOW} unstable: never ranked. {CONTROL}: the {LIMIT} once more; what differs no more than that is chance."


def _reasons(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Why points have no figures, and where two ways of measuring disagree: each reason once, with those it is of."""
    said: dict[tuple[str, str], list[str]] = {}
    for one in latest(rows).values():
        if one["status"] not in MEASURED:
            said.setdefault((one["status"], one.get("reason", "")), []).append(one["variant"])
        if one.get("note"):
            said.setdefault(("note", one["note"]), []).append(one["variant"])
    if said:
        yield ""
    for (status, reason), labels in said.items():
        yield f"{status}: {', '.join(dict.fromkeys(labels))}: {reason}"


def _cell(one: Mapping[str, Any]) -> str:
    if one["status"] not in MEASURED:
        return str(one["status"])
    training = one["mode"] == "forward_backward"
    bytes_ = one.get("peak_bytes" if training else "extra_bytes")
    memory = f"{bytes_ / MIB:.1f}" if bytes_ is not None else "–"
    tokens = one.get("tokens_per_second")
    speed = f" {'–' if tokens is None else f'{tokens / 1000:.1f}':>6}" if training else ""
    by_limit = one["variant"] != LIMIT and "median_of_ratios" in one
    time = f"{one['median_of_ratios']:.2f}" if by_limit else f"{one['latency_ms']:.2f} ms"
    return f"{HOLLOW if one['status'] == UNSTABLE else ''}{time}{speed} {memory:>8}"


def change_lines(found: Sequence[Change], lacking: Mapping[str, Sequence[str]] = MappingProxyType({})) -> Iterator[str]:
    """A line per point: new over old with its interval, and a word where the interval says so; last what could not be held.

    lacking   points of both files that have no ratios of at least two rounds, by the file where they are missing
    """
    if not found and not lacking:
        yield "nothing was measured in both files"
    for one in found:
        word = "slower" if one.slower else "faster" if one.faster else "as before"
        r = one.row
        where = f"{r['variant']} {r['mode']} {'causal' if r['causal'] else 'bidirectional'} {r['dtype']} L = {r['key_length']}"
        yield f"{where}: {one.ratio:.2f} [{one.low:.2f}, {one.high:.2f}] {word}"
    for file, points in lacking.items():
        said = f"{', '.join(points[:NAMED])}{' …' if len(points) > NAMED else ''}"
        yield f"not compared, {file} has no `ratios` of two rounds or more for {len(points)} of the points in both: {said}"
