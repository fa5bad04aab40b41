"""A verdict on the console as it comes: each law in its line as soon as it is judged, and what is being tried below."""

from types import TracebackType

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from relpos.conformance.console import console, show_beginning, show_ending, show_result
from relpos.conformance.laws.base import Law
from relpos.conformance.runner import LawResult
from relpos.conformance.verdict import Verdict

TITLE = 34  # columns of the line that moves, so that it fits into 80 with all that stands behind


class Live:
    """Watches a judgement. Lines go to standard output, once each; what moves goes where a terminal is, or nowhere.

    quiet   nothing goes to standard output: a certificate stands there alone
    """

    def __init__(self, laws: int, *, quiet: bool = False) -> None:
        out, err = console(), console(error=True)
        # On one terminal, one console must write both, or the line that moves tears the others.
        self._moving = out if out.is_terminal and not quiet else err
        self._out = None if quiet else out
        columns = (TextColumn("{task.description}"), BarColumn(bar_width=14), MofNCompleteColumn(), TimeElapsedColumn())
        seen = self._moving.is_terminal
        self._bar = Progress(*columns, console=self._moving, transient=True, disable=not seen, redirect_stdout=False)
        self._task, self._law, self._level = self._bar.add_task("smoke gate", total=laws), "", ""

    def __enter__(self) -> "Live":
        self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._bar.stop()

    def begun(self, verdict: Verdict) -> None:
        """What is judged, and what is assumed."""
        self._level = verdict.subject.level
        if self._out is not None:
            show_beginning(self._out, verdict)

    def trying(self, law: Law) -> None:
        """Which law is tried now."""
        self._law = f"{law.name} {law.title}"[:TITLE]
        self._bar.update(self._task, description=self._law)

    def tried(self, inputs: int) -> None:
        """How far it is: a law can take a minute."""
        self._bar.update(self._task, description=f"{self._law}, {inputs} inputs")

    def judged(self, result: LawResult) -> None:
        """The line of a law."""
        if self._out is not None:
            show_result(self._out, result, self._level)
        self._bar.update(self._task, advance=1)

    def explaining(self) -> None:
        """Laws are done; other readings are tried."""
        self._bar.update(self._task, description="what it behaves like")

    def ended(self, verdict: Verdict) -> None:
        """The verdict, and every failure once."""
        self._bar.stop()
        if self._out is not None:
            show_ending(self._out, verdict)
