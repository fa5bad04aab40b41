"""Fixtures of the tests of the command line."""

import shutil
from pathlib import Path

import pytest

from command_line import FILE
from relpos.conformance.commands import main


@pytest.fixture
def stand(tmp_path, monkeypatch):
    """Where a user stands: a folder of their own with their file in it."""
    shutil.copy(Path(__file__).with_name(FILE), tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def relpos(stand, capsys):
    """Run a command: exit code, standard output, standard error."""

    def run(*words):
        code = main(words)
        return code, *capsys.readouterr()

    return run


@pytest.fixture(scope="module")
def bare():
    """What a report is made of besides rows."""
    from relpos.reports.source import source

    return source(None)


@pytest.fixture(scope="module")
def rows():
    """Those of a whole run that nobody made."""
    from report_rows import pretended_run

    return pretended_run()
