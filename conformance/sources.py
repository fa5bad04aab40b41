"""Which files an implementation of ours is written in: its own, and the shared ones that it takes from, in turn."""

import re
from collections.abc import Sequence
from pathlib import Path

IMPLS = Path(__file__).resolve().parent.parent / "impls"
SHARED = re.compile(r"^from relpos\.impls((?:\.kernels)?)\.(_\w+) import", re.MULTILINE)


def with_shared(files: Sequence[Path]) -> list[Path]:
    """These files, and, of those that lie in `impls/`, what they take from: a change of anything else is none of theirs."""
    names, left = set[Path](), [path.read_text(encoding="utf-8") for path in files if path.resolve().is_relative_to(IMPLS)]
    while left:
        found = {IMPLS / folder.removeprefix(".") / f"{name}.py" for folder, name in SHARED.findall(left.pop())} - names
        names |= found
        left += [path.read_text(encoding="utf-8") for path in found]
    return [*files, *sorted(names)]
