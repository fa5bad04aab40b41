"""Certificates of several implementations: written as verdicts come, so that a long run can be interrupted and resumed."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from relpos.conformance import console
from relpos.conformance.certificate import certificate, certificate_name, dumps, laws_hash, read, scheme_hash, source_hash
from relpos.conformance.errors import UsageError
from relpos.conformance.loading import load
from relpos.conformance.profiles import PROFILES
from relpos.conformance.subject import plug_in
from relpos.conformance.verdict import BROKEN, CONFORMS, EXIT_CODES, Verdict


@dataclass
class Folder:
    """A folder of certificates: what is written to it, and what could not be, by label."""

    path: Path
    written: list[str] = field(default_factory=list)
    lost: dict[str, str] = field(default_factory=dict)

    def write(self, label: str, verdict: Verdict | str) -> None:
        """Write the certificate of a verdict; one that cannot be written does not take the others away."""
        if isinstance(verdict, str):
            return  # nothing was judged, and it is said why
        try:
            text = dumps(certificate(verdict)) + "\n"
            self.path.mkdir(parents=True, exist_ok=True)
            (self.path / certificate_name(label)).write_text(text, encoding="utf-8")
            self.written.append(label)
        except UsageError as error:
            self.lost[label] = str(error)
        except OSError as error:
            self.lost[label] = f"{self.path / certificate_name(label)} could not be written ({error.strerror})"

    def has(self, label: str, spec: str, profile_name: str) -> bool:
        """Whether an implementation has a certificate here that still holds, of this profile or of one that tries more."""
        try:
            document = read(self.path / certificate_name(label))
        except (OSError, UsageError):
            return False
        names = list(PROFILES)  # in the order of what they try
        enough = names.index(document["header"]["profile"]) >= names.index(profile_name)
        return enough and holds(document, spec, label.partition("/")[0])

    def exit_code(self) -> int:
        """2 where a certificate could not be written, and which; else 0."""
        if not self.lost:
            return 0
        code = EXIT_CODES[BROKEN]
        console.show_lines([f"no certificate for {label}: {why}" for label, why in self.lost.items()], style="red")
        told = f"{len(self.written)} certificates written to {self.path}, {len(self.lost)} not (exit {code})"
        console.show_lines([told], style="red")
        return code


def holds(document: dict[str, Any], spec: str, scheme: str) -> bool:
    """Whether a certificate is of this source, by this judge, of this definition, and says that all conforms."""
    header, footer = document["header"], document["footer"]
    present = (scheme_hash(scheme), laws_hash(), source_hash(plug_in(load(spec), spec=spec, scheme=scheme)))
    written = (header["scheme_hash"], header["laws_hash"], header["implementation"]["source_hash"])
    return present == written and footer["verdict"] == CONFORMS and footer["complete"]
