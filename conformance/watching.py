"""What is told of a judgement while it goes on."""

from typing import Protocol

from relpos.conformance.laws.base import Law
from relpos.conformance.runner import LawResult
from relpos.conformance.verdict import Verdict


class Watch(Protocol):
    """Told in this order: begun, then for every law trying, tried (now and then) and judged, at last explaining."""

    def begun(self, verdict: Verdict) -> None:
        """The smoke gate is passed; the verdict has no results yet."""

    def trying(self, law: Law) -> None:
        """A law is begun."""

    def tried(self, inputs: int) -> None:
        """So many inputs of this law until now."""

    def judged(self, result: LawResult) -> None:
        """What came of a law."""

    def explaining(self) -> None:
        """All laws are judged, and what a failing implementation behaves like is looked for."""


class Unwatched:
    """Nobody looks."""

    def begun(self, verdict: Verdict) -> None:
        """Nothing."""

    def trying(self, law: Law) -> None:
        """Nothing."""

    def tried(self, inputs: int) -> None:
        """Nothing."""

    def judged(self, result: LawResult) -> None:
        """Nothing."""

    def explaining(self) -> None:
        """Nothing."""
