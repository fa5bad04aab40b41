"""The section "Five minutes" of README.md, done step by step: every command is run, every line of output shown is printed.

Lines whose numbers have changed are written anew by `python tests/test_five_minutes.py`; read the difference.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from documents import HERE, sections

FILE = "my_t5.py"
LEFT_OUT = "…"
Shown = list[tuple[list[str], list[str]]]


def steps() -> list[tuple[str, str]]:
    """Blocks of the section, (language, text), in order."""
    return re.findall(r"^```(\w+)\n(.*?)^```$", sections("README.md")["Five minutes"], flags=re.MULTILINE | re.DOTALL)


def changed(code: str, difference: str) -> str:
    """Code with the lines of a diff block replaced, each of which it has exactly once."""
    old, new = ("".join(f"{line[1:]}\n" for line in difference.splitlines() if line[0] == sign) for sign in "-+")
    assert code.count(old) == 1, f"{FILE} does not have exactly one\n{old}"
    return code.replace(old, new)


def printed(command: str, folder: Path) -> list[str]:
    """What a command prints, on eighty columns."""
    words = [sys.executable if word == "python" else word for word in shlex.split(command)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST"))}
    environment |= {"COLUMNS": "80", "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, encoding="utf-8")
    return [plain(line) for line in (done.stdout + done.stderr).splitlines()]


def plain(line: str) -> str:
    """A line without what differs from run to run."""
    return re.sub(r"\d+ s$", "… s", line.rstrip())


def followed(folder: Path) -> Shown:
    """The section done: for every block of output, what is shown and what came."""
    code, command, found = "", "", []
    for language, text in steps():
        if language == "python":
            code += f"\n\n{text}" if code else text
        elif language == "diff":
            code = changed(code, text)
        elif language == "console":
            command = text.strip()
        elif language == "text":
            (folder / FILE).write_text(code, encoding="utf-8")
            found.append(([plain(line) for line in text.splitlines()], printed(command, folder)))
    return found


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> Shown:
    return followed(tmp_path_factory.mktemp("theirs"))


def test_every_line_shown_is_printed_in_this_order(outputs: Shown) -> None:
    for shown, came in outputs:
        left = iter(came)
        for line in shown:
            assert line in ("", LEFT_OUT) or line in left, f"{line!r} is not, or not there, in\n" + "\n".join(came)


def test_it_ends_well(outputs: Shown) -> None:
    assert [any("conforms: " in line and "not" not in line for line in shown) for shown, _ in outputs][-1]


def test_it_takes_five_minutes_at_most() -> None:
    words = sections("README.md")["Five minutes"].split()
    assert len(words) <= 600  # at two words a second


def _renewed(text: str, outputs: Shown) -> str:
    numbers = re.compile(r"-?\d+(\.\d+)?| +")
    for shown, came in outputs:
        for line in shown:
            if line not in came and line not in ("", LEFT_OUT):
                (new,) = {other for other in came if numbers.sub("", other) == numbers.sub("", line)}
                text = text.replace(f"\n{line}\n", f"\n{new}\n", 1)
    return text


if __name__ == "__main__":
    with TemporaryDirectory() as place:
        readme = HERE / "README.md"
        readme.write_text(_renewed(readme.read_text(encoding="utf-8"), followed(Path(place))), encoding="utf-8")
