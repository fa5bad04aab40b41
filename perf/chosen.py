"""What the options of the command ask for: which shapes, and which variants."""

import argparse
from dataclasses import dataclass, replace
from typing import Any

import torch

from relpos.conformance import console
from relpos.conformance.errors import UsageError
from relpos.conformance.settings import parse_settings
from relpos.impls.card import parse_claims
from relpos.perf.estimate import Crowd
from relpos.perf.measuring import Options
from relpos.perf.point import Variant
from relpos.perf.sweep import FULL, Sweep, chosen_lengths, representatives
from relpos.perf.variants import built_in, strangers
from relpos.spec.registry import settings_class

ROUNDS = 5
# What fits all variants into an hour and a half, to L = 16384.
PATIENCE: dict[str, Any] = {"long_rounds": 3, "most_ms": 1500.0, "long_most_ms": 4000.0}


@dataclass(frozen=True)
class Asked:
    """Variants that were asked for: ours, of which one may stand for its scheme, and those from elsewhere."""

    ours: list[Variant]
    others: list[Variant]
    one_per_scheme: bool

    def likely(self, known: frozenset[str]) -> list[Variant]:
        """As many as will be measured: where a probe has yet to find who stands for a scheme, any of it."""
        return [*self.others, *self._standing(known)]

    def crowd(self, known: frozenset[str]) -> Crowd:
        """What an estimate has to know of them."""
        ours = self._standing(known)
        return Crowd(
            variants=len(ours), schemes=len({v.scheme for v in ours}), fastest=self.one_per_scheme, of=len(self.ours),
            probed=self.one_per_scheme and any(v.label not in known for v in ours), judged=len(self.others),
        )  # fmt: skip

    def _standing(self, known: frozenset[str]) -> list[Variant]:
        if not self.one_per_scheme:
            return self.ours
        return list({v.scheme: v for v in sorted(self.ours, key=lambda v: v.label in known)}.values())

    def settled(self, known: frozenset[str], how: Options) -> list[Variant]:
        """All that are measured; a probe finds who stands for its scheme, unless earlier rows have one."""
        ours = representatives(self.ours, known=known, options=how) if self.one_per_scheme else self.ours
        return [*self.others, *ours]


def chosen_sweep(options: argparse.Namespace) -> Sweep:
    """Shapes; UsageError on a length that is none or a device that is not there."""
    base = FULL if options.full else Sweep()
    try:
        lengths = chosen_lengths(options.lengths) or base.lengths
    except ValueError as error:
        raise UsageError(str(error)) from None
    if options.device not in ("cpu", "cuda"):
        raise UsageError(f"--device takes cpu or cuda; got {options.device!r}.")
    if options.device == "cuda" and not torch.cuda.is_available():
        raise UsageError("--device cuda: PyTorch sees no GPU here; leave the option out to measure on the CPU.")
    dtypes, modes = tuple(options.dtype) or base.dtypes, tuple(options.mode) or base.modes
    narrow = None if options.variant else base.narrow_beyond
    return Sweep(lengths=lengths, dtypes=dtypes, modes=modes, device=options.device, narrow_beyond=narrow)


def chosen_options(options: argparse.Namespace) -> Options:
    """How every shape is measured."""
    threads = options.threads or torch.get_num_threads()
    how = Options(rounds=options.rounds or ROUNDS, seed=options.seed, threads=threads)
    if not options.full:
        return how
    return replace(how, **PATIENCE) if not options.rounds else replace(how, **{**PATIENCE, "long_rounds": None})


def chosen_variants(options: argparse.Namespace) -> Asked:
    """Variants; UsageError or UnknownScheme on a name that is none."""
    others = _peers(options.scheme) if options.peers else []
    if options.impl is None and (options.given or options.claim):
        raise UsageError("--set and --claim are of an implementation of yours: add --impl my_kernels:alibi, or leave them out.")
    if options.impl is None:
        found = built_in(options.scheme, tuple(options.variant))
        return Asked(found, others, one_per_scheme=not options.full and not options.variant)
    if options.scheme is None:
        raise UsageError("--impl is measured as an implementation of a scheme: add --scheme NAME.")
    settings_class(options.scheme)
    given = parse_settings(options.scheme, options.given)
    mine = strangers(options.impl, options.scheme, parse_claims(options.claim), given)
    wanted = tuple(options.variant)
    return Asked(built_in(options.scheme, wanted), [mine, *others], one_per_scheme=not wanted)


def _peers(scheme: str | None) -> list[Variant]:
    from relpos.perf.peers import peers

    found, missing = peers(scheme)
    if missing:
        needs = ", ".join(f"{name}.py needs {package}" for name, package in missing.items())
        said = f"in perf/peers, {needs}: those rows are left out. pip install 'relpos[peers]', or nox -s perf -- --peers."
        console.show_lines([said], style="yellow")
    return found
