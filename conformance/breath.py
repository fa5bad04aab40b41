"""Signs of life of the judge's own work: definitions are loops, and waiting for those is not waiting for a call that hangs."""

from collections.abc import Callable
from time import monotonic

BETWEEN_SECONDS = 1.0


class _Breath:
    def __init__(self) -> None:
        self.sign: Callable[[], None] | None = None
        self.last = 0.0


_BREATH = _Breath()


def breathing(sign: Callable[[], None]) -> None:
    """Have a sign given, now and then, while the judge computes."""
    _BREATH.sign = sign


def breathe() -> None:
    """The judge is at work, and no implementation is being called."""
    if _BREATH.sign is not None and monotonic() - _BREATH.last > BETWEEN_SECONDS:
        _BREATH.last = monotonic()
        _BREATH.sign()
