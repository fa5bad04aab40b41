"""For a user's own test files: every law as one test, or one verdict as a value.

import my_kernels
from relpos import conforms

test_alibi = conforms(my_kernels.alibi, scheme="alibi")
"""

import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any

from relpos.conformance.deviations import Deviation
from relpos.conformance.diagnosis import Diagnosis, diagnose
from relpos.conformance.errors import AdapterError, UsageError
from relpos.conformance.laws.base import Law
from relpos.conformance.message import diagnosis_lines, failure_lines, headline
from relpos.conformance.profiles import profile as named_profile
from relpos.conformance.runner import ACCEPTED, FAIL, PASS, LawResult, run_law
from relpos.conformance.smoke import smoke
from relpos.conformance.subject import Subject, plug_in
from relpos.conformance.verdict import Verdict, judge


class LawTest:
    """One law on one implementation, to be called by a test: it passes, fails with the whole message, skips or xfails."""

    def __init__(self, law: Law, plugged: "Plugged") -> None:
        self.law, self.plugged = law, plugged

    @property
    def id(self) -> str:
        """What pytest calls it, such as alibi-L3-chunked-decode."""
        return f"{self.plugged.scheme}-{self.law.name}-{self.law.slug}"

    def __call__(self) -> None:
        import pytest

        if complaint := self.plugged.complaint(self.id):
            pytest.fail(complaint, pytrace=False)
        try:
            result = self.plugged.run(self.law)
        except UsageError as error:  # of a witness that is no input of this law
            result = LawResult(self.law, FAIL, f"wrong usage: {error}")
        if result.verdict == FAIL:
            pytest.fail(self.plugged.message(result), pytrace=False)
        if result.verdict == ACCEPTED:
            pytest.xfail(f"accepted deviation: {result.reason}")
        if result.verdict != PASS:
            pytest.skip(f"{self.law.name}: {result.verdict}: {result.reason}")

    def __repr__(self) -> str:
        return f"<{headline(self.law)} of {self.plugged.spec}>"


class Plugged:
    """An implementation, plugged in when the first law is asked for, so that a broken one fails its tests, not pytest."""

    def __init__(self, target: Any, spec: str, profile: str, **options: Any) -> None:
        self.target, self.spec, self.profile, self.options = target, spec, profile, options
        self._first = ""

    @property
    def scheme(self) -> str:
        """The scheme that is stated, here or on its card."""
        return self.options.get("scheme") or getattr(self.target, "__relpos__", {}).get("scheme") or "relpos"

    @cached_property
    def subject(self) -> Subject:
        """The subject, through the smoke gate."""
        return smoke(plug_in(self.target, spec=self.spec, **self.options))

    @cached_property
    def _complaint(self) -> str:
        try:
            self.subject  # noqa: B018 - plugs it in
        except (AdapterError, ValueError) as error:
            return f"{'adapter broken' if isinstance(error, AdapterError) else 'wrong usage'}: {error}"
        return ""

    def complaint(self, test: str) -> str:
        """Why nothing can be judged: whole for the first test that asks, which the others refer to."""
        self._first = self._first or test
        if not self._complaint or self._first == test:
            return self._complaint
        return f"{self._complaint.partition(':')[0]}: nothing was judged, as {self._first} says"

    @cached_property
    def diagnosis(self) -> Diagnosis:
        """What it behaves like, found once."""
        return diagnose(self.subject)

    def run(self, law: Law) -> LawResult:
        """Try one law."""
        return run_law(law, self.subject, named_profile(self.profile))

    def message(self, result: LawResult) -> str:
        """A failure, whole, with the diagnosis; the first line is what pytest's summary shows."""
        if result.failure is None:
            return result.reason
        first = f"{headline(result.law)}: {result.reason}"
        lines = [first, "", *failure_lines(result.law, result.failure, self.subject)]
        if "witness" in result.failure.facts:
            return "\n".join(lines)
        return "\n".join([*lines, *diagnosis_lines(self.diagnosis, (), (), self.subject.scheme)])


def conforms(
    target: Any,
    *,
    scheme: str | None = None,
    settings: Mapping[str, Any] | None = None,
    claims: Mapping[str, Any] | None = None,
    deviations: Iterable[Deviation] = (),
    profile: str = "quick",
    device: str = "cpu",
) -> Callable[..., None]:
    """A test function for one's own test file, one test per law: `test_alibi = conforms(my_kernels.alibi, scheme="alibi")`.

    settings fixes settings of the scheme, claims replaces fields of the implementation's card, profile is smoke, quick,
    default or thorough. A law that fails as one of the deviations says is an expected failure (xfail); a deviation that is
    stale or exceeded fails. Ids read alibi-L3-chunked-decode. UsageError for a profile that there is not.
    """
    import pytest

    given = {"scheme": scheme, "given": settings, "claims": claims, "device": device, "deviations": tuple(deviations)}
    plugged = Plugged(target, _name(target), profile, **given)
    tests = [LawTest(law, plugged) for law in named_profile(profile).laws()]

    def test(law: LawTest) -> None:
        law()

    caller = sys._getframe(1)  # pytest names the file and line of a test: theirs, not this one
    code = test.__code__.replace(co_filename=caller.f_code.co_filename, co_firstlineno=caller.f_lineno)
    test.__code__, test.__module__ = code, caller.f_globals.get("__name__", __name__)
    return pytest.mark.parametrize("law", tests, ids=[t.id for t in tests])(test)


def check(
    target: Any,
    *,
    scheme: str | None = None,
    settings: Mapping[str, Any] | None = None,
    claims: Mapping[str, Any] | None = None,
    deviations: Iterable[Deviation] = (),
    profile: str = "quick",
    device: str = "cpu",
) -> Verdict:
    """Judge an implementation and return the verdict (`.word`, `.exit_code`, `.failures`, `.deviating`).

    deviations that are accepted do not fail; one that is stale or exceeded does.
    """
    options = {"scheme": scheme, "given": settings, "claims": claims, "device": device, "deviations": deviations}
    return judge(plug_in(target, spec=_name(target), **options), named_profile(profile))


def _name(target: Any) -> str:
    return f"{getattr(target, '__module__', '?')}:{getattr(target, '__qualname__', repr(target))}"


__all__ = ["LawTest", "Plugged", "check", "conforms"]
