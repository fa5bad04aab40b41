"""Which variants are measured: those with a certificate of the present judge and definition, or judged on the spot."""

import hashlib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from relpos.conformance.builtins import builtins_named
from relpos.conformance.certificate import certificate_name, read
from relpos.conformance.certifying import holds
from relpos.conformance.errors import AdapterError, UsageError
from relpos.conformance.isolated import Request, judge_isolated
from relpos.conformance.sources import with_shared
from relpos.conformance.verdict import CONFORMS
from relpos.perf.point import Variant

CERTIFICATES = Path(__file__).resolve().parent.parent / "conformance" / "certificates"


def built_in(scheme: str | None = None, wanted: tuple[str, ...] = ()) -> list[Variant]:
    """Variants that ship with relpos, of one scheme or all, or those named ("alibi/toeplitz" or "toeplitz")."""
    return [_built_in(label, spec) for label, spec in builtins_named(scheme, wanted).items()]


def _built_in(label: str, spec: str) -> Variant:
    return Variant(label=label, spec=spec, scheme=label.split("/")[0], source=source_of(spec))


def strangers(spec: str, scheme: str, claims: dict[str, Any], settings: dict[str, Any]) -> Variant:
    """An implementation from elsewhere: "my_kernels:alibi" or "path/to/my_kernels.py:alibi".

    Settings and claims are part of its label, and so of the key of its rows: with others it is another variant.
    """
    place, _, name = spec.rpartition(":")
    stated = ", ".join(f"{name}={_short(value)}" for name, value in (*sorted(settings.items()), *sorted(claims.items())))
    label = f"{scheme}/{Path(place).stem if place.endswith('.py') else place}:{name}" + (f"[{stated}]" if stated else "")
    given = tuple(settings.items())
    return Variant(label=label, spec=spec, scheme=scheme, claims=tuple(claims.items()), settings=given, origin="yours",
                   source=source_of(spec))  # fmt: skip


def _short(value: Any) -> str:
    return "+".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value).replace(" ", "")


def source_of(spec: str) -> str:
    """Hash of the file that an implementation lives in, and of what it shares if it is one of ours; empty where there is none.

    Nothing of it is imported: what is measured may do anything at import.
    """
    place = spec.rpartition(":")[0]
    if place.endswith(".py"):
        files = [Path(place)]
    else:
        try:
            found = find_spec(place)
        except (ImportError, ValueError):
            found = None
        files = [Path(found.origin)] if found is not None and found.origin else []
    texts = [path.read_bytes() for path in with_shared([path for path in files if path.is_file()])]
    return hashlib.sha256(b"".join(texts)).hexdigest()[:12] if texts else ""


def gate(variant: Variant) -> str:
    """Why a variant may not be ranked; empty: its certificate holds, or it passes smoke now.

    A certificate is of an implementation under drawn settings; what a label has in brackets is among them.
    """
    path = CERTIFICATES / certificate_name(variant.label.partition("[")[0])
    if path.exists() and _holds(path, variant):
        return ""
    return judged(variant, "smoke")


def refusals(variants: Iterable[Variant]) -> dict[str, str]:
    """Why which of them may not be ranked, by label; two are judged at a time."""
    asked = {variant.label: variant for variant in variants}
    pool = ThreadPoolExecutor(2)  # the threads only wait: the judge is a process
    try:
        found = dict(zip(asked, pool.map(gate, asked.values()), strict=True))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    return {label: why for label, why in found.items() if why}


def judged(variant: Variant, profile: str) -> str:
    """Why a variant does not conform at a profile; empty: it does."""
    options: dict[str, Any] = {"scheme": variant.scheme, "claims": dict(variant.claims)}
    request = Request(variant.spec, options, settings=tuple(f"{n}={v}" for n, v in variant.settings), profile=profile)
    try:
        verdict = judge_isolated(request)
    except (AdapterError, UsageError, ValueError) as error:
        return f"not judged: {error}"
    if verdict.word == CONFORMS:
        return ""
    return f"{verdict.word}: {', '.join(r.law.name for r in verdict.failures)} at the {profile} profile"


def _holds(path: Path, variant: Variant) -> bool:
    """Whether a certificate was given to this source, by this judge, for this definition."""
    try:
        return holds(read(path), variant.spec, variant.scheme)
    except UsageError:
        return False
