"""What a reader who has ten seconds gets to know: sentences made of the rows."""

from relpos.perf.rows import MEASURED
from relpos.perf.scaling import NAMED
from relpos.reports.numbers import escaped, interval, length, listed, ranked, short, spanned, whole, why
from relpos.reports.run import Run, Way
from relpos.reports.tables import by_time

SHORT, LONG, CLAIMED = 1024, 2048, "11 %"  # of the abstract of Press et al., 2021


def times(run: Run, way: Way) -> str:
    """Ranked schemes with their ratios, which of them chance explains, and who is not ranked."""
    found = [(scheme, run.at(variant, way, run.ranked_at)) for scheme, variant in by_time(run, way, run.schemes)]
    able = [(scheme, interval(row["ratios"])) for scheme, row in found if row is not None and ranked(row)]
    said = " · ".join(f"{scheme} {short(value)}" for scheme, (value, _, _) in able) or "nobody is ranked"
    if (floor := run.floor(way)) is not None:
        same = [scheme for scheme, (_, low, high) in able if low <= max(floor[1], 1.0) and high >= min(floor[0], 1.0)]
        said += f". Not told apart from no positions: {listed(same) or 'no scheme'}"
    if left := [scheme for scheme, row in found if not ranked(row)]:
        said += f". Not ranked: {listed(left)}"
    return said + "."


def memory(run: Run, way: Way) -> str:
    """Schemes by the growth of their peak memory."""
    by: dict[str, list[str]] = {}
    for scheme, variant in by_time(run, way, run.schemes):
        fit = run.growth(variant, way).get("peak_bytes") if variant else None
        by.setdefault(fit["growth"] or "between" if fit else "not fitted", []).append(scheme)
    order = [*NAMED.values(), "between", "not fitted"]
    return "; ".join(f"{word}: {listed(by[word])}" for word in order if word in by) + "."


def claim(run: Run) -> str:
    """What attention alone shows of ALiBi's training claim; empty where the rows are not there."""
    way = next((w for w in run.ways if w.mode == "forward_backward" and w.causal), None)
    if way is None:
        return ""
    rows = {name: run.at(run.best(name, way), way, L) for name, L in (("alibi", SHORT), ("sinusoidal", LONG))}
    same = run.at(run.best("sinusoidal", way), way, SHORT)
    a, s = rows["alibi"], rows["sinusoidal"]
    if a is None or s is None or same is None or not all(ranked(row) for row in (a, s, same)):
        return ""
    if any(row.get(name) is None for row in (a, s) for name in ("tokens_per_second", "peak_bytes")):
        return ""
    faster, peak = a["tokens_per_second"] / s["tokens_per_second"], a["peak_bytes"] / s["peak_bytes"]
    tokens = [f"{whole(r['tokens_per_second'])} tokens/s at {length(r['key_length'])}" for r in (a, s)]
    return (
        f"ALiBi's authors train at {SHORT} tokens what a sinusoidal model trains at {LONG}, {CLAIMED} faster, with "
        f"{CLAIMED} less memory. In attention alone ({way.words}) alibi has {tokens[0]}, sinusoidal {tokens[1]}: "
        f"×{short(faster)}, and ×{short(peak)} peak memory. At the same length, {length(SHORT)}, alibi takes "
        f"{spanned(*interval(a['ratios'], same['ratios']))} of the time of sinusoidal: what they gain is the shorter length."
    )


def disagreements(run: Run) -> list[str]:
    """Where two ways of measuring memory disagree, and where it grows from call to call."""
    found = [(r["variant"], escaped(r["note"])) for r in run.rows if r["status"] in MEASURED and r.get("note")]
    return [f"{variant}: {note}" for variant, note in dict.fromkeys(found)]


def absent(run: Run) -> list[str]:
    """Why points have no figures: each reason once, with those it is of."""
    said: dict[str, list[str]] = {}
    for row in run.rows:
        if row["status"] not in MEASURED:
            said.setdefault(escaped(why(row)), []).append(row["variant"])
    return [f"{reason}: {listed(dict.fromkeys(labels))}" for reason, labels in said.items()]
