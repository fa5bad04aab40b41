"""Options of `python -m relpos perf`. What measures is imported only then: it needs packages that judging does not."""

import argparse
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from relpos.perf.complaints import answered, show_nothing
from relpos.perf.point import MODES
from relpos.reports.arguments import add_reports

OUT = Path("perf-rows.jsonl")
FULL = (
    "every variant, bfloat16, backward, decode, to L = 16384; beyond 2048 the fastest variant of each scheme and that of least "
    "memory, in 3 rounds"
)
BARS = "hold the implementations that never form all scores against their bars, in 15 rounds; rows to perf-bars.jsonl"
DTYPES = ("float32", "bfloat16", "float16", "float64")
PACKAGES = ("scipy", "psutil", "threadpoolctl", "pytest_benchmark", "matplotlib")


def add_perf(commands: Any) -> None:
    """Add `perf` to the commands, and `reports`, which is made of what it measures."""
    add_reports(commands)  # here, for the list of commands is hashed into every certificate
    perf = commands.add_parser("perf", help="measure memory and latency over L, beside attention without positions")
    perf.add_argument("--full", action="store_true", help=FULL)
    perf.add_argument("--scheme", help="only variants of one scheme")
    perf.add_argument("--variant", action="append", default=[], metavar="NAME", help="this variant; may be repeated")
    perf.add_argument("--impl", help="an implementation of yours, judged first (with --scheme)")
    perf.add_argument("--set", action="append", default=[], dest="given", metavar="NAME=VALUE", help="fix a setting of --impl")
    perf.add_argument("--peers", action="store_true", help="also what people use today: transformers, x-transformers, flex")
    perf.add_argument("--bars", action="store_true", help=BARS)
    perf.add_argument("--kernels", choices=("sm_80", "sm_90"), help="compile the Triton kernels for that GPU; runs nothing")
    perf.add_argument("--claim", action="append", default=[], metavar="NAME=VALUE", help="state a claim of --impl")
    perf.add_argument("--lengths", action="append", default=[], metavar="512,1024", help="lengths in place of the usual ones")
    perf.add_argument("--dtype", action="append", default=[], choices=DTYPES, help="may be repeated")
    perf.add_argument("--mode", action="append", default=[], choices=MODES, help="may be repeated")
    perf.add_argument("--device", default="cpu", help="cpu or cuda")
    perf.add_argument("--threads", type=int, help="threads of PyTorch (default: all cores of the process)")
    perf.add_argument("--rounds", type=int, help="interleaved rounds (default: 5; 3 of --full beyond 2048)")
    perf.add_argument("--seed", type=int, default=0, help="of inputs and of the order of rounds")
    perf.add_argument("--out", type=Path, default=OUT, metavar="FILE", help="rows; what it holds is not measured again")
    perf.add_argument("--benchmark-json", type=Path, metavar="FILE", help="the rows as pytest-benchmark writes them")
    perf.add_argument("--compare", type=Path, metavar="OLD.jsonl", help="hold --out against older rows of this machine")
    perf.add_argument("--figures", type=Path, metavar="DIR", help="draw what --out holds, SVG, PNG and CSV; measures nothing")
    perf.set_defaults(run=run_perf)


def run_perf(options: argparse.Namespace) -> int:
    """Measure, if what it takes is installed."""
    if options.kernels is not None:
        from relpos.perf.kernels import run_kernels

        return run_kernels(options)
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        needed = f"measuring needs {', '.join(missing)}: pip install 'relpos[perf]'."
        return show_nothing(needed, done="measured", word="package missing")
    from relpos.perf.command import run_perf as run

    return answered(run, options, done=_done(options))


def _done(options: argparse.Namespace) -> str:
    return "compared" if options.compare is not None else "drawn" if options.figures is not None else "measured"
