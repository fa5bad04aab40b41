"""Pytest options for the suite: `pytest --pyargs relpos.suite -p relpos.conformance.plugin --impl … --scheme …`.

Nothing registers this plugin by itself: who merely has relpos installed never loads it.
"""

from pathlib import Path
from typing import Any

import pytest

from relpos.conformance.deviations import read_deviations
from relpos.conformance.errors import UsageError
from relpos.conformance.laws import law as law_by_name
from relpos.conformance.loading import load
from relpos.conformance.profiles import profile as named_profile
from relpos.conformance.settings import parse_settings
from relpos.conformance.testing import LawTest, Plugged
from relpos.impls.card import parse_claims


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of `python -m relpos check`, in pytest."""
    group = parser.getgroup("relpos")
    group.addoption("--impl", help="implementation to judge: package.module:name or path/to/file.py:name")
    group.addoption("--scheme", help="scheme it implements")
    group.addoption("--set", action="append", default=[], dest="relpos_set", metavar="NAME=VALUE", help="fix a setting")
    group.addoption("--claim", action="append", default=[], metavar="NAME=VALUE", help="state a claim")
    group.addoption("--profile", default="default", help="smoke, quick, default or thorough")
    group.addoption("--law", action="append", default=[], help="only this law; may be repeated")
    group.addoption("--device", default="cpu", help="where its tensors live")
    group.addoption("--deviations", type=Path, metavar="FILE", help="accepted deviations, as JSON or TOML")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test per law for the suite's test function."""
    if "relpos_law" not in metafunc.fixturenames:
        return
    config = metafunc.config
    if config.getoption("--impl") is None:
        raise pytest.UsageError(
            "relpos.suite needs --impl package.module:name (and --scheme, unless the implementation says it)"
        )
    try:
        plugged = _plugged(config)
        named = [law_by_name(name) for name in _option(config, "--law")]
        chosen = named or named_profile(_option(config, "--profile")).laws()
    except Exception as error:
        raise pytest.UsageError(str(error)) from error
    tests = [LawTest(law, plugged) for law in chosen]
    metafunc.parametrize("relpos_law", tests, ids=[t.id for t in tests])


def _plugged(config: pytest.Config) -> Plugged:
    spec = _option(config, "--impl")
    target: Any = load(spec)
    scheme = _option(config, "--scheme") or getattr(target, "__relpos__", {}).get("scheme")
    if scheme is None:
        raise UsageError(f"{spec} does not say which scheme it implements; add --scheme NAME")
    given = parse_settings(scheme, _option(config, "relpos_set"))
    claims = parse_claims(_option(config, "--claim"))
    options = {"scheme": scheme, "given": given, "claims": claims, "device": _option(config, "--device")}
    if (path := _option(config, "--deviations")) is not None:
        options["deviations"] = read_deviations(path)
    return Plugged(target, spec, _option(config, "--profile"), **options)


def _option(config: pytest.Config, name: str) -> Any:
    return config.getoption(name)
