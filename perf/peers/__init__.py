"""What people use today, as rows beside ours: one file per library, found by listing the folder.

A library's own attention, fed with q, k and v in place of projections; whatever it builds once per model is built once.
"""

import warnings
from importlib import import_module
from pathlib import Path

from relpos.perf.point import Variant


def peers(scheme: str | None = None) -> tuple[list[Variant], dict[str, str]]:
    """Peers of one scheme or all, and the files whose package is missing, with its name."""
    found: list[Variant] = []
    missing: dict[str, str] = {}
    for name in sorted(p.stem for p in Path(__file__).parent.glob("*.py") if p.stem != "__init__"):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about how they are written, which is nobody's business here
                found += import_module(f"relpos.perf.peers.{name}").PEERS
        except ModuleNotFoundError as error:
            package = (error.name or "").partition(".")[0]
            if package == "relpos":
                raise
            missing[name] = package
    return [v for v in found if scheme in (None, v.scheme)], missing
