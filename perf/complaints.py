"""What is said where a command made nothing: why, and what it was that was not made."""

import argparse
from collections.abc import Callable

from rich.text import Text

from relpos.conformance import console
from relpos.conformance.errors import AdapterError, UsageError
from relpos.conformance.verdict import BROKEN, EXIT_CODES, INCOMPLETE
from relpos.impls.card import CardError
from relpos.spec.contract import SettingsError
from relpos.spec.registry import UnknownScheme

COMPLAINTS = (UsageError, SettingsError, UnknownScheme, CardError)


def show_nothing(message: str, *, done: str, word: str, code: int = EXIT_CODES[BROKEN]) -> int:
    """Say why nothing was measured, made or compared; the exit code."""
    out = console.console(error=True)
    out.print(Text(f"{word}: {message}", style="red"))
    out.print(Text(f"Nothing was {done} (exit {code}).", style="dim"))
    return code


def answered(run: Callable[[argparse.Namespace], int], options: argparse.Namespace, *, done: str) -> int:
    """The exit code of a command; what it complains of is said with what was not done."""
    try:
        return run(options)
    except AdapterError as error:
        return show_nothing(str(error), done=done, word=BROKEN)
    except COMPLAINTS as error:
        return show_nothing(str(error), done=done, word="wrong usage")
    except KeyboardInterrupt:
        code = EXIT_CODES[INCOMPLETE]
        text = f"{INCOMPLETE}: interrupted before anything was {done} (exit {code})."
        console.console(error=True).print(Text(text, style="yellow"))
        return code
