"""Reads code blocks and commands out of the Markdown documents, so that tests can follow them."""

import re
import shlex
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]


def blocks(document: str, language: str) -> list[str]:
    """Code blocks of a document in one language, in order."""
    text = (HERE / document).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def kernel() -> str:
    """The kernel that README.md shows, `my_kernels.py`."""
    (code,) = [code for code in blocks("README.md", "python") if "def alibi(" in code]
    return code


def sections(document: str) -> dict[str, str]:
    """{heading: text up to the next heading of any level}."""
    text = re.split(r"^#+ (.*)$", (HERE / document).read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(text[1::2], text[2::2], strict=True))


def files_by_heading(document: str) -> dict[str, str]:
    """{path: content} of every section whose heading ends with a path in backticks and that has a Python block."""
    found = {}
    for heading, text in sections(document).items():
        path = re.search(r"`([\w/]+\.py)`$", heading)
        block = re.search(r"^```python\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
        if path and block:
            found[path.group(1)] = block.group(1)
    return found


def commands(text: str) -> list[list[str]]:
    """Commands of the console blocks in a text; `python` is the one that runs the tests."""
    lines = "".join(re.findall(r"^```console\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)).splitlines()
    split = [shlex.split(line) for line in lines]
    return [[sys.executable if word == "python" else word for word in words] for words in split]
