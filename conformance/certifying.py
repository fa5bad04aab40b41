"""Writes the certificates of several implementations: one that cannot be written does not take the others away."""

from collections.abc import Mapping
from pathlib import Path

from relpos.conformance import console
from relpos.conformance.certificate import certificate, certificate_name, dumps
from relpos.conformance.errors import UsageError
from relpos.conformance.verdict import BROKEN, EXIT_CODES, Verdict


def write_certificates(rows: Mapping[str, Verdict | str], folder: Path) -> int:
    """Write a certificate for every verdict, by label; name those that could not be, and 2 if there is one, else 0."""
    lost = {}
    for label, verdict in rows.items():
        if isinstance(verdict, str):
            continue  # nothing was judged, and it has been said why
        try:
            text = dumps(certificate(verdict)) + "\n"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / certificate_name(label)).write_text(text, encoding="utf-8")
        except UsageError as error:
            lost[label] = str(error)
        except OSError as error:
            lost[label] = f"{folder / certificate_name(label)} could not be written ({error.strerror})"
    if not lost:
        return 0
    code = EXIT_CODES[BROKEN]
    console.show_lines([f"no certificate for {label}: {why}" for label, why in lost.items()], style="red")
    written = sum(isinstance(v, Verdict) for v in rows.values()) - len(lost)
    console.show_lines([f"{written} certificates written to {folder}, {len(lost)} not (exit {code})"], style="red")
    return code
