"""What is on record of an implementation from PyPI: how it is judged, what comes of it, and by which deviations."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from relpos.conformance.deviations import Deviation
from relpos.conformance.verdict import CONFORMS, DOES_NOT, UNDECIDED


@dataclass(frozen=True, kw_only=True)
class Peer:
    """One way of judging one implementation, and what is expected of it.

    name            "falcon/eager", unique; package and version: what it was recorded with
    implementation  what `--impl` takes: the library's own object, or the adapter beside this record that calls it
    settings, claims  as `--set` and `--claim` state them
    deviations      none: it conforms, or is undecided
    instead         undecided: the setting under which every law passes, as in "layout=half"
    note            what the row shows, in a sentence
    """

    name: str
    package: str
    version: str
    implementation: str
    scheme: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    claims: Mapping[str, Any] = field(default_factory=dict)
    deviations: tuple[Deviation, ...] = ()
    instead: str = ""
    note: str = ""

    @property
    def expected(self) -> str:
        """The verdict on record."""
        if self.deviations:
            return DOES_NOT
        return UNDECIDED if self.instead else CONFORMS

    @property
    def options(self) -> dict[str, Any]:
        """What plugs it in."""
        return {"scheme": self.scheme, "given": dict(self.settings), "claims": dict(self.claims)}

    @property
    def stated(self) -> str:
        """Settings and claims in the words of the command line."""
        claims = [f"{name}={_word(value)}" for name, value in self.claims.items()]
        return ", ".join([f"{name}={value}" for name, value in self.settings.items()] + claims) or "nothing"


def _word(value: Any) -> str:
    if isinstance(value, Mapping):
        return ",".join(f"{theirs}:{ours}" for theirs, ours in value.items())
    return ",".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value)
