"""For a user's own test files: every law as one test, or one verdict as a value.

import relpos, my_kernels

@relpos.laws(my_kernels.alibi, scheme="alibi")
def test_alibi(law): law()
"""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from relpos.conformance.judge import LawFailure
from relpos.conformance.laws.base import Law
from relpos.conformance.message import diagnosis_lines, failure_lines, headline
from relpos.conformance.profiles import profile as named_profile
from relpos.conformance.runner import FAIL, PASS, LawResult, run_law
from relpos.conformance.smoke import smoke
from relpos.conformance.subject import Subject, plug_in
from relpos.conformance.verdict import Verdict, judge


class LawTest:
    """One law on one implementation, to be called by a test: raises AssertionError with the whole message."""

    def __init__(self, law: Law, plugged: "Plugged") -> None:
        self.law, self.plugged = law, plugged

    def __call__(self) -> None:
        result = self.plugged.run(self.law)
        if result.verdict == FAIL:
            assert result.failure is not None
            raise AssertionError(self.plugged.message(result)) from None
        if result.verdict != PASS:
            _skip(f"{self.law.name}: {result.verdict}: {result.reason}")

    def __repr__(self) -> str:
        return f"<{headline(self.law)} of {self.plugged.spec}>"


class Plugged:
    """An implementation, plugged in when the first law is asked for, so that a broken one fails its tests, not pytest."""

    def __init__(self, target: Any, spec: str, profile: str, **options: Any) -> None:
        self.target, self.spec, self.profile, self.options = target, spec, profile, options

    @cached_property
    def subject(self) -> Subject:
        """The subject, through the smoke gate."""
        return smoke(plug_in(self.target, spec=self.spec, **self.options))

    def run(self, law: Law) -> LawResult:
        """Try one law."""
        return run_law(law, self.subject, named_profile(self.profile))

    def message(self, result: LawResult) -> str:
        """A failure, whole, with the diagnosis."""
        from relpos.conformance.diagnosis import diagnose

        assert result.failure is not None
        lines = [headline(result.law), *failure_lines(result.law, result.failure, self.subject)]
        return "\n".join(["", *lines, *diagnosis_lines(diagnose(self.subject), (), (), self.subject.scheme)])


def laws(
    target: Any,
    *,
    scheme: str | None = None,
    settings: Mapping[str, Any] | None = None,
    claims: Mapping[str, Any] | None = None,
    profile: str = "quick",
    device: str = "cpu",
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a test function with one parameter, `law`: it becomes one test per law.

    settings fixes settings of the scheme, claims replaces fields of the implementation's card, profile is smoke, quick,
    default or thorough.
    """
    import pytest

    name = f"{getattr(target, '__module__', '?')}:{getattr(target, '__qualname__', repr(target))}"
    plugged = Plugged(target, name, profile, scheme=scheme, given=settings, claims=claims, device=device)
    tests = [LawTest(law, plugged) for law in named_profile(profile).laws()]
    return pytest.mark.parametrize("law", tests, ids=[t.law.name for t in tests])


def check(
    target: Any,
    *,
    scheme: str | None = None,
    settings: Mapping[str, Any] | None = None,
    claims: Mapping[str, Any] | None = None,
    profile: str = "quick",
    device: str = "cpu",
) -> Verdict:
    """Judge an implementation and return the verdict (`.word`, `.exit_code`, `.failures`)."""
    name = f"{getattr(target, '__module__', '?')}:{getattr(target, '__qualname__', repr(target))}"
    return judge(
        plug_in(target, spec=name, scheme=scheme, given=settings, claims=claims, device=device), named_profile(profile)
    )


def _skip(reason: str) -> None:
    import pytest

    pytest.skip(reason)


__all__ = ["LawFailure", "LawTest", "Plugged", "check", "laws"]
