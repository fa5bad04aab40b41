"""How the tests of the judge plug something in and try laws on it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from relpos.conformance.errors import AdapterError
from relpos.conformance.laws import law
from relpos.conformance.profiles import profile
from relpos.conformance.runner import FAIL, LawResult, run_law
from relpos.conformance.smoke import smoke
from relpos.conformance.subject import Subject, plug_in

HERE = Path(__file__).parent


def plugged(target: Any, scheme: str | None = None, *, given: dict | None = None, **claims: Any) -> Subject:
    """A subject through the smoke gate."""
    name = f"{getattr(target, '__module__', 'it')}.py:{getattr(target, '__qualname__', type(target).__name__)}"
    return smoke(plug_in(target, spec=name, scheme=scheme, given=given, claims=claims))


def tried(subject: Subject, *names: str, profile_name: str = "quick") -> dict[str, LawResult]:
    """Results of some laws, by name."""
    return {name: run_law(law(name), subject, profile(profile_name)) for name in names}


def failing(subject: Subject, *names: str, profile_name: str = "quick") -> set[str]:
    """Names of those laws, of all that are named, that do not hold."""
    return {name for name, result in tried(subject, *names, profile_name=profile_name).items() if result.verdict == FAIL}


def complaint(call: Callable[[], Any], error: type[Exception] = AdapterError) -> str:
    """The text of the complaint a call ends in."""
    with pytest.raises(error) as caught:
        call()
    return str(caught.value)
