"""The report as Markdown: everything that is read, through one template."""

import os
import re
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from relpos.conformance.certificate import certificate_name
from relpos.perf import scaling, sweep, timing
from relpos.perf.variants import CERTIFICATES
from relpos.reports import findings, numbers, provenance, tables
from relpos.reports.figures import Figure
from relpos.reports.run import Run, Way
from relpos.reports.source import HOME, Source

TEMPLATE = "README.md.j2"
MAIN = Way("forward", False, "float32")


def rendered(source: Source, drawn: list[Figure], out: Path) -> str:
    """The whole document; links lead from `out` into the clone."""
    place = FileSystemLoader(Path(__file__).resolve().parent / "templates")
    environment = Environment(loader=place, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False)
    run = Run(source.rows)
    certificates = _link(CERTIFICATES, out)
    doubts = list(provenance.doubts(source, run))
    text = environment.get_template(TEMPLATE).render(
        source=source,
        run=run,
        n=numbers,
        find=findings,
        of=provenance,
        made=provenance.made_of(source, run),
        doubts=doubts,
        to=lambda path: _link(HOME.parent / path, out),
        figures=drawn,
        code=_constants(),
        measured=_measured(source, run, certificates) if source.rows else None,
        judged=_judged(source, certificates),
    )
    return re.sub(r"\n{3,}", "\n\n", re.sub(r"[ ]+\n", "\n", text)).strip() + "\n"


def _link(path: Path, out: Path) -> str:
    return Path(os.path.relpath(path, out.resolve())).as_posix()


def _measured(source: Source, run: Run, link: str) -> dict[str, Any]:
    """All tables of figures, by what they are of."""
    main = MAIN if MAIN in run.ways else run.ways[0]
    forward = [way for way in run.ways if way.mode == "forward"]
    step = [way for way in run.ways if way.mode not in ("forward", "decode")]
    return {
        "main": main,
        "verdict": tables.verdict(run, main, source.certificates, link),
        "forward": [tables.ratios(run, way) for way in forward if way != main],
        "training": [tables.training(run, way) for way in step],
        "decode": [tables.ratios(run, way) for way in run.ways if way.mode == "decode"],
        "peers": [one for way in run.ways if (one := tables.peers(run, way)) is not None],
        "growth": [one for way in run.ways if (one := tables.growth(run, way)) is not None],
        "noise": tables.noise(run),
        "statuses": tables.statuses(run),
        "rounds": numbers.listed(map(str, sorted({len(r["samples_ms"]) for r in run.rows if r.get("samples_ms")}))),
    }


def _judged(source: Source, link: str) -> dict[str, Any]:
    """Certificates in short: one row per scheme, each of its implementations linked."""
    by: dict[str, list[str]] = {}
    for label in source.certificates:
        by.setdefault(label.partition("/")[0], []).append(label)
    rows = []
    for scheme, labels in by.items():
        each = ", ".join(f"[{label.partition('/')[2]}]({link}/{certificate_name(label)})" for label in labels)
        results = [one for label in labels for one in source.certificates[label]["results"]]
        inputs = sum(one["inputs"] for one in results)
        laws = {one["law"] for one in results if one["verdict"] in tables.JUDGED}
        rows.append([f"**{scheme}**", each, str(len(laws)), f"{inputs:,}"])
    heads = [one["header"] for one in source.certificates.values()]
    footers = [one["footer"] for one in source.certificates.values()]
    return {
        "table": numbers.table(["scheme", "implementations", "laws that apply", "inputs"], rows, left=2),
        "hold": sum(one["verdict"] == "conforms" for one in footers),
        "number": len(footers),
        "inputs": sum(one["inputs"] for one in footers),
        "profile": numbers.listed(sorted({one["profile"] for one in heads})),
        "version": numbers.listed(sorted({one["relpos"] for one in heads})),
        "date": max(one["date"] for one in heads),
    }


def _constants() -> dict[str, Any]:
    """Numbers of the method, as the code has them."""
    return {
        "spread": f"{timing.SPREAD:.0%}",
        "drift": timing.DRIFT,
        "ticks": timing.RESOLUTIONS,
        "agree": f"{sweep.AGREE:.0%}",
        "pages_mib": sweep.PAGES_BYTES // sweep.MIB,
        "fewest": scaling.FEWEST,
        "resampled_fit": scaling.RESAMPLED,
        "resampled": numbers.RESAMPLED,
    }
