"""What a call that raised is in a row: a status, and a reason in one sentence."""

from typing import Any

import torch

from relpos.perf.checking import Wrong
from relpos.perf.plugging import Unsupported
from relpos.perf.rows import FAILED, OOM, UNSUPPORTED
from relpos.spec.contract import SettingsError

NO_MEMORY = ("can't allocate memory", "out of memory", "not enough memory", "Cannot allocate memory")


def status_of(error: BaseException) -> tuple[str, dict[str, Any]]:
    """Status and reason of a point that raised."""
    said = (str(error).strip().splitlines() or [type(error).__name__])[0]
    if isinstance(error, (Unsupported, SettingsError, NotImplementedError)):
        return UNSUPPORTED, {"reason": said}
    if isinstance(error, Wrong):
        return FAILED, {"reason": said}
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)) or any(words in str(error) for words in NO_MEMORY):
        return OOM, {"reason": said}
    return FAILED, {"reason": f"{type(error).__name__}: {said}"}
